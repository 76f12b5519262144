//! Reads table files and collects their mistakes. This reads the YAML tables; `csv_table` reads the others.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::DeserializeOwned;

use super::catalog::DataFile;
use super::dead_weight::DeadWeightKind;
use super::mistake::{FileMistake, TextMistake};
use super::yaml_text::YamlText;
use image_linkage::escape;

/// The files, and their mistakes so far.
pub(super) struct TableReader<'f> {
    files: &'f [DataFile],
    pub mistakes: Vec<FileMistake>,
    /// The tables with mistakes, whose rows are therefore incomplete.
    pub unread: BTreeSet<&'static str>,
}

impl<'f> TableReader<'f> {
    pub(super) fn new(files: &'f [DataFile]) -> Self {
        Self {
            files,
            mistakes: Vec::new(),
            unread: BTreeSet::new(),
        }
    }

    pub(super) fn named(&self, id: &'static str) -> impl Iterator<Item = &'f DataFile> + use<'f> {
        self.files.iter().filter(move |file| file.id == id)
    }

    /// Passes each file of a table to `take`, which finds mistakes that types cannot express.
    pub(super) fn documents<T: DeserializeOwned>(
        &mut self,
        id: &'static str,
        mut take: impl FnMut(YamlText<'_>, T) -> Result<(), TextMistake>,
    ) {
        for file in self.named(id) {
            let text = file.yaml();
            let taken = text.read().and_then(|value| take(text, value));
            if let Err(mistake) = taken {
                self.mistaken(id, &file.file, mistake);
            }
        }
    }

    /// The rows of all files of a table. `key` must be unique.
    pub(super) fn rows<T: DeserializeOwned>(&mut self, id: &'static str, key: impl Fn(&T) -> Option<String>) -> Vec<T> {
        let mut taken = BTreeMap::new();
        let mut rows = Vec::new();
        for file in self.named(id) {
            let mut check = |(number, row): (usize, &T)| {
                let place = RowPlace { file, number };
                let before = key(row).and_then(|key| already_there(&mut taken, key, place));
                before.map_or(Ok(()), |what| Err(file.yaml().mistake(&[&number.to_string()], what)))
            };
            let read: Result<Vec<T>, _> = file.yaml().read();
            let read = read.and_then(|more| more.iter().enumerate().try_for_each(&mut check).map(|()| more));
            match read {
                Ok(more) => rows.extend(more),
                Err(mistake) => self.mistaken(id, &file.file, mistake),
            }
        }
        rows
    }

    pub(super) fn mistaken(&mut self, id: &'static str, file: &str, mistake: TextMistake) {
        self.unread.insert(id);
        self.mistakes.push(mistake.in_file(file));
    }

    /// Reports invalid path patterns. `what` is the error for the whole set, used if no single pattern is invalid.
    pub(super) fn mistaken_patterns(&mut self, what: &str) {
        const TABLE: &str = "dead-weight";
        let before = self.mistakes.len();
        for file in self.named(TABLE) {
            // Patterns are compiled together; only this error path looks for the invalid one.
            let text = file.yaml();
            let kinds: Vec<DeadWeightKind> = text.read().unwrap_or_default();
            let mut numbered = kinds.iter().enumerate();
            let bad = numbered.find_map(|(row, kind)| Some((row.to_string(), kind.bad_pattern()?)));
            if let Some((row, (path, what))) = bad {
                let path: Vec<&str> = [&row].into_iter().chain(&path).map(String::as_str).collect();
                self.mistaken(TABLE, &file.file, text.mistake(&path, what));
            }
        }
        // Each pattern may be valid but the set too large; then blame the user's file, which came last.
        if let (true, Some(file)) = (self.mistakes.len() == before, self.named(TABLE).last()) {
            self.mistaken(TABLE, &file.file, TextMistake::of_whole(what));
        }
    }
}

/// A row of a YAML table. Only a message asks for its position.
struct RowPlace<'f> {
    file: &'f DataFile,
    number: usize,
}

impl fmt::Display for RowPlace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.file.yaml().place(&[&self.number.to_string()]);
        write!(f, "{}:{place}", self.file.file)
    }
}

/// A message if the key already has a row elsewhere, because it would be unclear which one counts.
pub(super) fn already_there<P: fmt::Display>(taken: &mut BTreeMap<String, P>, key: String, place: P) -> Option<String> {
    let shown = escape::escape_bytes(key.as_bytes());
    let before = taken
        .get(&key)
        .map(|before| format!("there is a row \"{shown}\" already, at {before}"));
    taken.entry(key).or_insert(place);
    before
}
