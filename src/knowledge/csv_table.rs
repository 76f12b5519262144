//! Tables with commas, which are read at each start twenty times as fast as YAML: releases, wheels, toolkits, drivers.

use std::collections::BTreeMap;

use super::library_release::version_numbers;
use super::mistake::{TextMistake, TextPosition};
use super::table_reader::{TableReader, already_there};
use image_linkage::escape;

impl TableReader<'_> {
    /// The rows of all files of a table of values with commas between them, below a line that names the columns. No two
    /// rows share the first `keys` of them.
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
            let mut row = |(line, number): (&str, u32)| {
                let mistake = |column, what| TextMistake {
                    place: TextPosition { line: number, column },
                    what,
                };
                // Nothing is quoted, as no value of these tables holds a comma.
                let fields: Vec<&str> = line.split(',').collect();
                let fields = <[&str; N]>::try_from(fields).map_err(|fields| {
                    let count = fields.len();
                    mistake(1, format!("expected {header}, found {count} fields"))
                })?;
                let key = fields.get(..keys).unwrap_or_default().join(",");
                let before = already_there(&mut taken, key, format!("{}:{number}", file.file));
                before.map_or(Ok(()), |what| Err(mistake(1, what)))?;
                read(fields).map_err(|wrong| mistake(wrong.column(line), wrong.what))
            };
            let read = lines_below(&file.text, &header);
            match read.and_then(|lines| lines.map(&mut row).collect::<Result<Vec<T>, _>>()) {
                Ok(more) => rows.extend(more),
                Err(mistake) => self.mistaken(id, &file.file, mistake),
            }
        }
        rows
    }
}

/// The rows of a table with their numbers, from 1.
///
/// Errors: The columns are not named by `header`: in another order they would be read as other values without a word.
fn lines_below<'t>(text: &'t str, header: &str) -> Result<impl Iterator<Item = (&'t str, u32)> + use<'t>, TextMistake> {
    // Comments say where rows are from. They are counted, so that an editor finds the line of a mistake.
    let mut lines = text
        .lines()
        .zip(1..)
        .filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
    let (first, line) = lines.next().unwrap_or(("", 1));
    if first == header {
        return Ok(lines);
    }
    let (place, what) = (
        TextPosition { line, column: 1 },
        format!("expected the names of the columns, {header}"),
    );
    Err(TextMistake { place, what })
}

/// What is wrong with one field of a row.
#[derive(Debug)]
pub(super) struct FieldMistake {
    /// The number of the field, from 0.
    field: usize,
    /// What was expected, and what stands there.
    pub what: String,
}

impl FieldMistake {
    /// The column in characters, from 1, at which the field stands on its line.
    pub(super) fn column(&self, line: &str) -> u32 {
        let before: usize = line
            .split(',')
            .take(self.field)
            .map(|text| text.chars().count() + 1)
            .sum();
        u32::try_from(before + 1).unwrap_or(u32::MAX)
    }
}

/// The fields of a row, which say of themselves what is wrong with them.
pub(super) struct RowFields<'r, const N: usize>(pub [&'r str; N]);

impl<const N: usize> RowFields<'_, N> {
    fn checked(&self, field: usize, expected: &str, is_right: impl Fn(&str) -> bool) -> Result<String, FieldMistake> {
        let text = self.0.get(field).copied().unwrap_or_default();
        if is_right(text) {
            return Ok(text.to_owned());
        }
        let what = format!(
            "expected {expected}, found \"{}\"",
            escape::escape_bytes(text.as_bytes())
        );
        Err(FieldMistake { field, what })
    }

    /// A word, such as the name of a file or a processor.
    pub(super) fn name(&self, field: usize, expected: &str) -> Result<String, FieldMistake> {
        self.checked(field, expected, |text| {
            !text.is_empty() && !text.contains(char::is_whitespace)
        })
    }

    /// A version of two numbers or more: rows are looked up by major and minor, so that no other would ever be found.
    pub(super) fn version(&self, field: usize, expected: &str) -> Result<String, FieldMistake> {
        self.checked(field, expected, is_version)
    }

    /// The same, or this word in its place.
    pub(super) fn version_or(&self, field: usize, word: &str, expected: &str) -> Result<String, FieldMistake> {
        self.checked(field, expected, |text| text == word || is_version(text))
    }

    /// Versions with spaces between them, or none.
    pub(super) fn versions(&self, field: usize, expected: &str) -> Result<Vec<String>, FieldMistake> {
        let versions = self.checked(field, expected, |text| text.split_whitespace().all(is_version))?;
        Ok(versions.split_whitespace().map(str::to_owned).collect())
    }

    /// Words with spaces between them, one at least.
    pub(super) fn names(&self, field: usize, expected: &str) -> Result<Vec<String>, FieldMistake> {
        let names = self.checked(field, expected, |text| !text.trim().is_empty())?;
        Ok(names.split_whitespace().map(str::to_owned).collect())
    }

    /// The branch of a driver, or nothing.
    pub(super) fn branch(&self, field: usize, expected: &str) -> Result<Option<String>, FieldMistake> {
        let branch = self.checked(field, expected, |text| {
            text.is_empty() || !version_numbers(text).is_empty()
        })?;
        Ok(Some(branch).filter(|branch| !branch.is_empty()))
    }

    /// A SHA-256 as it is compared: 64 digits in lower case.
    pub(super) fn sha256(&self, field: usize) -> Result<String, FieldMistake> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        self.checked(field, "a SHA-256 of 64 hexadecimal digits in lower case", |text| {
            text.len() == 64 && text.bytes().all(is_digit)
        })
    }

    /// A number of bytes.
    pub(super) fn bytes(&self, field: usize) -> Result<u64, FieldMistake> {
        let text = self.checked(field, "a number of bytes", |text| text.parse::<u64>().is_ok())?;
        Ok(text.parse().unwrap_or_default())
    }
}

fn is_version(text: &str) -> bool {
    version_numbers(text).len() >= 2
}
