//! The files by kind and id: which of them count, and what is wrong with each.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use yaml_mistakes::{TextPosition, YamlDocument, YamlMistake};

/// What a data file describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DataKind {
    /// What is found in images and said of it: `rules/`.
    Rule,
    /// What an image is for: `phases/` of the profiles.
    Phase,
    /// A program that asks for CUPTI: `consumers/` of the profiles.
    Consumer,
    /// A profiling tool: `profilers/` of the profiles.
    Profiler,
    /// A library that an image is asked about: `libraries/` of the profiles.
    Library,
    /// Rows of a table: `cupti/` of the profiles.
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
            Self::Library => "library",
            Self::Table => "table",
        }
    }
}

/// A file of data, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataFile {
    /// What it describes, by the folder that it lies in.
    pub kind: DataKind,
    /// The stem of its name.
    pub id: String,
    /// The file as the user would name it.
    pub file: String,
    /// Its content, not yet read as YAML or CSV.
    pub text: String,
}

/// A mistake in a file, or a file that cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileMistake {
    /// The file as the user would name it.
    pub file: String,
    /// What is wrong in it, and where.
    pub mistake: YamlMistake,
}

impl FileMistake {
    /// What is wrong in one file, each mistake with its place.
    pub fn in_file(file: &str, mistakes: Vec<YamlMistake>) -> Vec<Self> {
        let of_file = |mistake| Self {
            file: file.to_owned(),
            mistake,
        };
        mistakes.into_iter().map(of_file).collect()
    }
}

impl fmt::Display for FileMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.mistake)
    }
}

/// A file that is YAML.
pub(super) struct DataEntry {
    /// The stem of its name.
    pub id: String,
    pub document: YamlDocument,
    file: String,
}

/// The ids of files, by kind.
pub(super) struct FileIds(BTreeMap<DataKind, BTreeSet<String>>);

impl FileIds {
    /// Those of one kind, by name.
    pub fn of(&self, kind: DataKind) -> Vec<&str> {
        let ids = self.0.get(&kind).into_iter().flatten();
        ids.map(String::as_str).collect()
    }
}

/// The files that count, and the mistakes so far.
pub(super) struct DataCatalog {
    /// In the order in which they were given.
    entries: BTreeMap<DataKind, Vec<DataEntry>>,
    mistakes: Vec<FileMistake>,
}

impl DataCatalog {
    /// Takes the files in. A file whose id is taken is a mistake, unless it says `replace: true`: then it has the
    /// place of the file before it. So no file is lost by accident, and none hides another unsaid.
    pub fn new(files: impl Iterator<Item = DataFile>) -> Self {
        let mut catalog = Self {
            entries: BTreeMap::new(),
            mistakes: Vec::new(),
        };
        for file in files {
            catalog.add(file);
        }
        catalog
    }

    fn add(&mut self, file: DataFile) {
        let mut document = match YamlDocument::parse(&file.text) {
            Ok(document) => document,
            Err(mistake) => return self.mistaken(&file.file, mistake),
        };
        // `replace` is no key of any kind of file: it is taken out, as the types refuse what they do not know.
        let (replace, place) = match document.take("replace") {
            Some(value) => match value.read::<bool>() {
                Ok(replace) => (replace, value.mistake(&[], String::new()).place),
                Err(mistakes) => {
                    self.mistakes.extend(FileMistake::in_file(&file.file, mistakes));
                    return;
                }
            },
            None => (false, TextPosition { line: 1, column: 1 }),
        };
        // Ids are unique within a kind only: a rule and a phase may share a name.
        let entries = self.entries.entry(file.kind).or_default();
        let before = entries.iter_mut().find(|entry| entry.id == file.id);
        let entry = DataEntry {
            id: file.id,
            document,
            file: file.file,
        };
        match (before, replace) {
            (Some(before), true) => *before = entry,
            (None, false) => entries.push(entry),
            (Some(before), false) => {
                let what = format!(
                    "there is a {} \"{}\" already, in {}; give this one another name, or write replace: true to have it in that one's place",
                    file.kind.name(),
                    entry.id,
                    before.file
                );
                self.mistaken(&entry.file, YamlMistake { place, what });
            }
            // A misspelt name would else add a second file where one was to be replaced.
            (None, true) => {
                let ids = self.ids();
                let unknown = yaml_mistakes::unknown_name(file.kind.name(), &entry.id, &ids.of(file.kind));
                let what = format!("nothing to replace: {unknown}");
                self.mistaken(&entry.file, YamlMistake { place, what });
            }
        }
    }

    fn mistaken(&mut self, file: &str, mistake: YamlMistake) {
        self.mistakes.push(FileMistake {
            file: file.to_owned(),
            mistake,
        });
    }

    /// The ids of all files, also of those that cannot be read: a mistake in one is told once, not by all that name it.
    pub fn ids(&self) -> FileIds {
        let kinds = self.entries.iter();
        let ids = |entries: &Vec<DataEntry>| entries.iter().map(|entry| entry.id.clone()).collect();
        FileIds(kinds.map(|(kind, entries)| (*kind, ids(entries))).collect())
    }

    /// Takes in what was found wrong elsewhere.
    pub fn add_mistakes(&mut self, mistakes: Vec<FileMistake>) {
        self.mistakes.extend(mistakes);
    }

    /// Reads the files of one kind; what is wrong in them is kept for [`DataCatalog::finish`].
    pub fn read<T>(&mut self, kind: DataKind, read: impl Fn(&DataEntry) -> Result<T, Vec<YamlMistake>>) -> Vec<T> {
        let mut values = Vec::new();
        for entry in self.entries.get(&kind).into_iter().flatten() {
            match read(entry) {
                Ok(value) => values.push(value),
                Err(mistakes) => self.mistakes.extend(FileMistake::in_file(&entry.file, mistakes)),
            }
        }
        values
    }

    /// Ends the reading, when all kinds were read.
    ///
    /// Errors: All mistakes, by file and place.
    pub fn finish(mut self) -> Result<(), Vec<FileMistake>> {
        if self.mistakes.is_empty() {
            return Ok(());
        }
        // They were found kind by kind; a user mends them file by file.
        self.mistakes.sort();
        self.mistakes.dedup();
        Err(self.mistakes)
    }
}
