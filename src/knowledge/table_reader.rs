//! Reads the files of tables, row by row, and keeps what is wrong in them.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;

use super::catalog::{DataFile, FileMistake};
use super::dead_weight::DeadWeightKind;
use super::table_field::FieldMistake;
use image_linkage::escape;
use yaml_mistakes::{TextPosition, YamlDocument, YamlMistake};

/// The files, and what was found wrong in them so far.
pub(super) struct TableReader<'f> {
    files: &'f [DataFile],
    pub mistakes: Vec<FileMistake>,
    /// The tables that have mistakes, whose rows are not all known therefore.
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

    fn named(&self, id: &'static str) -> impl Iterator<Item = &'f DataFile> + use<'f> {
        self.files.iter().filter(move |file| file.id == id)
    }

    /// Hands each file of a table to `take`, which gives the mistakes that no type sees.
    pub(super) fn documents<T: DeserializeOwned>(
        &mut self,
        id: &'static str,
        mut take: impl FnMut(&YamlDocument, T) -> Vec<YamlMistake>,
    ) {
        for file in self.named(id) {
            let document = YamlDocument::parse(&file.text).map_err(|mistake| vec![mistake]);
            let read = document.and_then(|document| document.read_and(|value| ((), take(&document, value))));
            if let Err(mistakes) = read {
                self.mistaken(id, &file.file, mistakes);
            }
        }
    }

    /// The rows of all files of a table. `key` is what no two rows share.
    pub(super) fn rows<T: DeserializeOwned>(&mut self, id: &'static str, key: impl Fn(&T) -> Option<String>) -> Vec<T> {
        let mut taken: BTreeMap<String, String> = BTreeMap::new();
        let mut rows = Vec::new();
        for file in self.named(id) {
            let document = YamlDocument::parse(&file.text).map_err(|mistake| vec![mistake]);
            let read = document.and_then(|document| {
                document.read_and(|more: Vec<T>| {
                    let mut mistakes = Vec::new();
                    for (number, key) in more.iter().map(&key).enumerate() {
                        let Some(key) = key else { continue };
                        let row = |what| document.mistake(&[&number.to_string()], what);
                        let place = format!("{}:{}", file.file, row(String::new()).place);
                        mistakes.extend(already_there(&mut taken, key, place).map(row));
                    }
                    (more, mistakes)
                })
            });
            match read {
                Ok(more) => rows.extend(more),
                Err(mistakes) => self.mistaken(id, &file.file, mistakes),
            }
        }
        rows
    }

    /// The rows of all files of a table of values with commas between them, below a line that names the columns; the first
    /// `keys` of them are what no two rows share.
    pub(super) fn csv<const N: usize, T>(
        &mut self,
        id: &'static str,
        (columns, keys): ([&str; N], usize),
        read: impl Fn([&str; N]) -> Result<T, FieldMistake>,
    ) -> Vec<T> {
        let header = columns.join(",");
        let mut taken = BTreeMap::new();
        let mut rows = Vec::new();
        for file in self.named(id) {
            let mut mistakes = Vec::new();
            let lines = file.text.lines().zip(1..);
            // Comments say where rows are from. They are counted, so that an editor finds the line of a mistake.
            let mut lines = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
            let mut mistake = |line, column, what| {
                let place = TextPosition { line, column };
                mistakes.push(YamlMistake { place, what });
            };
            match lines.next() {
                // Columns in another order would be read as other values without a word.
                Some((line, _)) if line == header => {}
                other => {
                    let line = other.map_or(1, |(_, line)| line);
                    mistake(line, 1, format!("expected the names of the columns, {header}"));
                }
            }
            for (line, number) in lines {
                // Nothing is quoted, as no value of these tables holds a comma.
                let fields: Vec<&str> = line.split(',').collect();
                let count = fields.len();
                let Ok(fields) = <[&str; N]>::try_from(fields) else {
                    mistake(number, 1, format!("expected {header}, found {count} fields"));
                    continue;
                };
                let key = fields.get(..keys).unwrap_or_default().join(",");
                let place = format!("{}:{number}", file.file);
                if let Some(what) = already_there(&mut taken, key, place) {
                    mistake(number, 1, what);
                    continue;
                }
                match read(fields) {
                    Ok(row) => rows.push(row),
                    Err(wrong) => mistake(number, wrong.column(line), wrong.what),
                }
            }
            self.mistaken(id, &file.file, mistakes);
        }
        rows
    }

    fn mistaken(&mut self, id: &'static str, file: &str, mistakes: Vec<YamlMistake>) {
        if !mistakes.is_empty() {
            self.unread.insert(id);
        }
        self.mistakes.extend(FileMistake::in_file(file, mistakes));
    }

    /// The patterns of files that are none. `what` is wrong with all of them together, if none is by itself.
    pub(super) fn mistaken_patterns(&mut self, what: &str) {
        const TABLE: &str = "dead-weight";
        let before = self.mistakes.len();
        for file in self.named(TABLE) {
            // Patterns are compiled together, and their places are asked for only here, where one of them is wrong.
            let Ok(document) = YamlDocument::parse(&file.text) else {
                continue;
            };
            let kinds: Vec<DeadWeightKind> = document.read().unwrap_or_default();
            let mut mistakes = Vec::new();
            for (row, kind) in kinds.iter().enumerate() {
                for (path, what) in kind.bad_patterns() {
                    let row = row.to_string();
                    let path: Vec<&str> = [&row].into_iter().chain(&path).map(String::as_str).collect();
                    mistakes.push(document.mistake(&path, what));
                }
            }
            self.mistaken(TABLE, &file.file, mistakes);
        }
        // Each may be fine, and all of them too large for one set: the user's came last.
        if let (true, Some(file)) = (self.mistakes.len() == before, self.named(TABLE).last()) {
            let place = TextPosition { line: 1, column: 1 };
            let what = what.to_owned();
            self.mistaken(TABLE, &file.file, vec![YamlMistake { place, what }]);
        }
    }
}

/// That there is a row of this key at another place already: nobody could see which of the two counts.
fn already_there(taken: &mut BTreeMap<String, String>, key: String, place: String) -> Option<String> {
    let shown = escape::escape_bytes(key.as_bytes());
    let before = taken
        .get(&key)
        .map(|before| format!("there is a row \"{shown}\" already, at {before}"));
    taken.entry(key).or_insert(place);
    before
}
