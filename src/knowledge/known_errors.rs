//! The errors that users paste (`profiles/errors`), and matching them in lines. They are read on demand,
//! because audits do not need them.

use aho_corasick::AhoCorasick;
use serde::Deserialize;

use super::api::Certainty;
use super::catalog::{DataFile, DataKind};
use super::error_text::{ErrorText, comparable};
use super::index_tables::ResultCode;
use super::mistake::{FileMistake, TextMistake};
use super::names::names;
use super::tables::result_codes;
use super::yaml_text::YamlText;

names! {
    /// The person who can fix an error.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
    pub enum ErrorMatter {
        /// The builder of the image.
        Image = "image",
        /// The operator of the host.
        Host = "host",
        /// The author of the profiler.
        Program = "program",
    }
}

/// A known error. The head of the table explains each key.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownError {
    /// Its text, with placeholders.
    pub error: String,
    /// Alternative texts.
    #[serde(default)]
    pub also: Vec<String>,
    /// Its number as a `CUptiResult`, unless `result-codes.csv` has it.
    #[serde(default)]
    pub number: Option<u32>,
    /// Whether it only follows from another error, if the log has one.
    #[serde(default)]
    pub follows: bool,
    /// Its meaning.
    pub means: String,
    /// The persons who can fix it, most likely first.
    pub matter_of: Vec<ErrorMatter>,
    /// A command that reveals it.
    #[serde(default)]
    pub shown_by: Option<String>,
    /// The fix, if no rule has one.
    #[serde(default)]
    pub fix: Option<String>,
    /// The rules that detect it.
    #[serde(default)]
    pub rules: Vec<String>,
    /// The error as printed; defaults to `error`.
    #[serde(default)]
    seen: Option<String>,
    /// How certain the entry is.
    pub certainty: Certainty,
    /// The source of the entry.
    pub source: String,
}

impl KnownError {
    /// The error as printed.
    pub fn example(&self) -> &str {
        self.seen.as_deref().unwrap_or(&self.error)
    }

    fn texts(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.error).chain(&self.also)
    }

    /// Checks what its types cannot express. `row` is its number in the file.
    fn check(&self, text: YamlText<'_>, row: &str, rules: &[&str]) -> Result<(), TextMistake> {
        for (key, written) in self.texts().enumerate() {
            let place: &[&str] = match key.checked_sub(1) {
                None => &[row, "error"],
                Some(other) => &[row, "also", &other.to_string()],
            };
            ErrorText::read(written).map_err(|what| text.mistake(place, what))?;
        }
        text.check_names(&[row, "rules"], &self.rules, "rule", rules)?;
        let is_found = !self.rules.is_empty() && self.shown_by.is_some();
        let mistake = if self.matter_of.is_empty() {
            ("matter_of", "it is the matter of image, host or program")
        } else if self.fix.is_none() && !is_found {
            ("error", "without a fix, an error has rules, and a command in shown_by")
        } else if KnownErrors::new(vec![self.clone()])
            .find(self.example().as_bytes())
            .is_none()
        {
            ("seen", "this example does not hold the text of the error")
        } else {
            return Ok(());
        };
        Err(text.mistake(&[row, mistake.0], mistake.1.to_owned()))
    }
}

/// Adds the rows of a file.
///
/// Errors: The first mistake, or a row of an error or number that has one already.
fn add_rows(
    errors: &mut Vec<KnownError>,
    text: YamlText<'_>,
    rules: &[&str],
    results: &[ResultCode],
) -> Result<(), TextMistake> {
    let rows: Vec<KnownError> = text.read()?;
    for (row, mut error) in rows.into_iter().enumerate() {
        let row = row.to_string();
        let result = results.iter().find(|result| result.name == error.error);
        error.number = error.number.or_else(|| result.map(|result| result.number));
        error.check(text, &row, rules)?;
        let is_same =
            |known: &&KnownError| known.error == error.error || error.number.is_some() && known.number == error.number;
        if let Some(known) = errors.iter().find(is_same) {
            let what = format!("there is a row of this error or number already: {:?}", known.error);
            return Err(text.mistake(&[&row, "error"], what));
        }
        errors.push(error);
    }
    Ok(())
}

/// The known errors, prepared for matching.
#[derive(Debug)]
pub struct KnownErrors {
    /// The built-in errors, then the user's.
    pub errors: Vec<KnownError>,
    /// The texts of all errors, each with its error's index.
    texts: Vec<(usize, ErrorText)>,
    /// Finds the first fragments of the texts, in the same order.
    fragments: AhoCorasick,
}

impl KnownErrors {
    /// Reads the built-in and user files.
    ///
    /// Errors: The first mistake of each file.
    pub fn read(files: &[DataFile], rules: &[&str]) -> Result<Self, Vec<FileMistake>> {
        let (mut errors, mut mistakes) = (Vec::new(), Vec::new());
        let results = result_codes(files);
        for file in files.iter().filter(|file| file.kind == DataKind::Errors) {
            let added = add_rows(&mut errors, file.yaml(), rules, &results);
            mistakes.extend(added.err().map(|mistake| mistake.in_file(&file.file)));
        }
        if mistakes.is_empty() {
            Ok(Self::new(errors))
        } else {
            Err(mistakes)
        }
    }

    /// Takes checked errors.
    fn new(errors: Vec<KnownError>) -> Self {
        let numbered = errors.iter().enumerate();
        let texts: Vec<(usize, ErrorText)> = numbered
            .flat_map(|(place, error)| {
                error
                    .texts()
                    .filter_map(move |text| Some((place, ErrorText::read(text).ok()?)))
            })
            .collect();
        let fragments = AhoCorasick::new(texts.iter().map(|(_, text)| &text.first));
        Self {
            errors,
            texts,
            fragments: fragments.expect("files of at most a mebibyte have far fewer letters than it takes"),
        }
    }

    /// The error in a line. The longest match wins, then the user's. If the match ends in a result number, that result
    /// is returned.
    pub fn find(&self, line: &[u8]) -> Option<&KnownError> {
        let line = comparable(line);
        let hits = self.fragments.find_overlapping_iter(&line).filter_map(|hit| {
            let (place, text) = self.texts.get(hit.pattern().as_usize())?;
            let number = text.follows(&line, hit.end())?.number;
            Some((text.bytes(), *place, number))
        });
        let (_, place, number) = hits.max_by_key(|(bytes, place, _)| (*bytes, *place))?;
        let result = number.and_then(|number| self.of_number(number));
        result.or_else(|| self.errors.get(place))
    }

    /// The result with this number.
    pub fn of_number(&self, number: u32) -> Option<&KnownError> {
        self.errors.iter().find(|error| error.number == Some(number))
    }
}

#[cfg(test)]
mod tests;
