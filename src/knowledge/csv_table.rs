//! Reads CSV tables: releases, wheels, toolkits and drivers, which have many rows of few columns.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::library_release::version_numbers;
use super::mistake::{TextMistake, TextPosition};
use super::table_reader::{TableReader, already_there};
use image_linkage::escape;

impl TableReader<'_> {
    /// The rows of all CSV files of a table, below a header line. The first `keys` columns must be unique.
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
                // No quoting, because no value in these tables contains a comma.
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

/// The data rows of a table, numbered from 1.
///
/// Errors: The header is not `header`. A different column order would silently swap values.
fn lines_below<'t>(text: &'t str, header: &str) -> Result<impl Iterator<Item = (&'t str, u32)> + use<'t>, TextMistake> {
    // Comments tell the source of rows. They count as lines, so that an editor finds a mistake by its line.
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

/// A mistake in a field of a row.
#[derive(Debug)]
pub(super) struct FieldMistake {
    /// The number of the field, from 0.
    field: usize,
    /// The expected and actual value.
    pub what: String,
}

impl FieldMistake {
    /// The column where the field starts, in characters from 1.
    pub(super) fn column(&self, line: &str) -> u32 {
        let before: usize = line
            .split(',')
            .take(self.field)
            .map(|text| text.chars().count() + 1)
            .sum();
        u32::try_from(before + 1).unwrap_or(u32::MAX)
    }
}

/// The fields of a row, with checked access.
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

    /// A word, such as a file name or a processor.
    pub(super) fn name(&self, field: usize, expected: &str) -> Result<String, FieldMistake> {
        self.checked(field, expected, |text| {
            !text.is_empty() && !text.contains(char::is_whitespace)
        })
    }

    /// A version of at least two numbers. Rows are looked up by major and minor, so no other would be found.
    pub(super) fn version(&self, field: usize, expected: &str) -> Result<String, FieldMistake> {
        self.checked(field, expected, is_version)
    }

    /// A version, or this word instead.
    pub(super) fn version_or(&self, field: usize, word: &str, expected: &str) -> Result<String, FieldMistake> {
        self.checked(field, expected, |text| text == word || is_version(text))
    }

    /// Versions separated by spaces; may be empty.
    pub(super) fn versions(&self, field: usize, expected: &str) -> Result<Vec<String>, FieldMistake> {
        let versions = self.checked(field, expected, |text| text.split_whitespace().all(is_version))?;
        Ok(versions.split_whitespace().map(str::to_owned).collect())
    }

    /// Words separated by spaces, at least one.
    pub(super) fn names(&self, field: usize, expected: &str) -> Result<Vec<String>, FieldMistake> {
        let names = self.checked(field, expected, |text| !text.trim().is_empty())?;
        Ok(names.split_whitespace().map(str::to_owned).collect())
    }

    /// A driver branch, or nothing.
    pub(super) fn branch(&self, field: usize, expected: &str) -> Result<Option<String>, FieldMistake> {
        let branch = self.checked(field, expected, |text| {
            text.is_empty() || !version_numbers(text).is_empty()
        })?;
        Ok(Some(branch).filter(|branch| !branch.is_empty()))
    }

    /// A SHA-256 in the compared form: 64 lowercase digits.
    pub(super) fn sha256(&self, field: usize) -> Result<String, FieldMistake> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        self.checked(field, "a SHA-256 of 64 hexadecimal digits in lower case", |text| {
            text.len() == 64 && text.bytes().all(is_digit)
        })
    }

    /// A whole number that fits the type.
    pub(super) fn number<T: FromStr + Default>(&self, field: usize, expected: &str) -> Result<T, FieldMistake> {
        let text = self.checked(field, expected, |text| text.parse::<T>().is_ok())?;
        Ok(text.parse().unwrap_or_default())
    }
}

fn is_version(text: &str) -> bool {
    version_numbers(text).len() >= 2
}
