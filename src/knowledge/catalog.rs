//! Collects the data files by kind and id: the valid ones, and the mistakes in the others.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_saphyr::Spanned;

use super::mistake::{FileMistake, TextMistake, TextPosition, unknown_name};
use super::yaml_text::{YamlText, position};

/// The kind of a data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DataKind {
    /// A rule for findings: `rules/`.
    Rule,
    /// A purpose of images: `phases/` in the profiles.
    Phase,
    /// A program that requests CUPTI: `consumers/` in the profiles.
    Consumer,
    /// A profiling tool: `profilers/` in the profiles.
    Profiler,
    /// Known error messages: `errors/` in the profiles.
    Errors,
    /// A built-in table: `cupti/` in the profiles, and single files.
    Table,
}

impl DataKind {
    /// The name used in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rule => "rule",
            Self::Phase => "phase",
            Self::Consumer => "consumer",
            Self::Profiler => "profiler",
            Self::Errors => "errors",
            Self::Table => "table",
        }
    }
}

/// A data file, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataFile {
    /// Its kind, from its folder.
    pub kind: DataKind,
    /// The stem of its name.
    pub id: String,
    /// The file name as the user would write it.
    pub file: String,
    /// Its content, not yet parsed as YAML or CSV.
    pub text: String,
    /// The same as JSON, if it is a YAML file of the program.
    pub json: Option<&'static str>,
}

impl DataFile {
    /// The content, if it is YAML.
    pub fn yaml(&self) -> YamlText<'_> {
        YamlText::of(&self.text).with_json(self.json)
    }
}

/// The ids of files, by kind.
pub(super) struct FileIds(BTreeMap<DataKind, BTreeSet<String>>);

impl FileIds {
    /// The ids of one kind, by name.
    pub fn of(&self, kind: DataKind) -> Vec<&str> {
        let ids = self.0.get(&kind).into_iter().flatten();
        ids.map(String::as_str).collect()
    }
}

/// The key `replace` of any file: whether the file replaces an earlier one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct ReplaceKey(bool);

/// Any file, of which only [`ReplaceKey`] is read.
#[derive(Default, Deserialize)]
struct AnyFile {
    replace: Option<Spanned<ReplaceKey>>,
}

impl AnyFile {
    fn read(file: &DataFile) -> Result<Self, TextMistake> {
        // Almost no file of a user has the key, and each is fully parsed later.
        if file.json.is_none() && file.text.contains("replace") {
            file.yaml().read()
        } else {
            Ok(Self::default())
        }
    }
}

/// The valid files, and the mistakes so far.
pub(super) struct DataCatalog {
    /// In the order given.
    files: BTreeMap<DataKind, Vec<DataFile>>,
    mistakes: Vec<FileMistake>,
}

impl DataCatalog {
    /// Adds the files. A duplicate id is a mistake, unless the file has `replace: true` and takes the place of the
    /// earlier one. So no file is lost or hidden by accident.
    pub fn new(files: impl Iterator<Item = DataFile>) -> Self {
        let mut catalog = Self {
            files: BTreeMap::new(),
            mistakes: Vec::new(),
        };
        for file in files {
            if let Err(mistake) = catalog.add(file) {
                catalog.mistakes.push(mistake);
            }
        }
        catalog
    }

    fn add(&mut self, file: DataFile) -> Result<(), FileMistake> {
        let any = AnyFile::read(&file).map_err(|mistake| mistake.in_file(&file.file))?;
        let place = any
            .replace
            .as_ref()
            .map_or(TextPosition::START, |said| position(said.referenced));
        let mistake = |what| TextMistake { place, what }.in_file(&file.file);
        let replaces = any.replace.is_some_and(|said| said.value.0);
        // Ids are unique only within a kind: a rule and a phase may share a name.
        let files = self.files.entry(file.kind).or_default();
        let before = files.iter_mut().find(|before| before.id == file.id);
        match (before, replaces) {
            (Some(before), true) => *before = file,
            (None, false) => files.push(file),
            (Some(before), false) => {
                return Err(mistake(format!(
                    "there is a {} \"{}\" already, in {}; give this one another name, or write replace: true to have it in that one's place",
                    file.kind.name(),
                    file.id,
                    before.file
                )));
            }
            // Otherwise a misspelt name would add a second file instead of replacing one.
            (None, true) => {
                let ids: Vec<&str> = files.iter().map(|file| file.id.as_str()).collect();
                let unknown = unknown_name(file.kind.name(), &file.id, &ids);
                return Err(mistake(format!("nothing to replace: {unknown}")));
            }
        }
        Ok(())
    }

    /// The ids of all files, including unreadable ones. This way a mistake is reported once, not for every reference.
    pub fn ids(&self) -> FileIds {
        let kinds = self.files.iter();
        let ids = |files: &Vec<DataFile>| files.iter().map(|file| file.id.clone()).collect();
        FileIds(kinds.map(|(kind, files)| (*kind, ids(files))).collect())
    }

    /// Reads the files of one kind by id; the first mistake of each is kept for [`DataCatalog::finish`].
    pub fn read<T>(&mut self, kind: DataKind, read: impl Fn(&str, YamlText<'_>) -> Result<T, TextMistake>) -> Vec<T> {
        let mut values = Vec::new();
        for file in self.files.get(&kind).into_iter().flatten() {
            match read(&file.id, file.yaml()) {
                Ok(value) => values.push(value),
                Err(mistake) => self.mistakes.push(mistake.in_file(&file.file)),
            }
        }
        values
    }

    /// Finishes after all kinds were read.
    ///
    /// Errors: The first mistake of each file.
    pub fn finish(mut self) -> Result<(), Vec<FileMistake>> {
        if self.mistakes.is_empty() {
            return Ok(());
        }
        // They were found kind by kind, but a user fixes them file by file.
        self.mistakes.sort();
        self.mistakes.dedup();
        Err(self.mistakes)
    }
}
