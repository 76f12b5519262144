//! The errors that people paste (`profiles/cupti/errors.yaml`), and which of them a line has. They are read where they
//! are asked for: no audit needs them.

use aho_corasick::AhoCorasick;
use serde::Deserialize;

use super::api::Certainty;
use super::catalog::{DataFile, DataKind};
use super::error_text::{ErrorText, comparable};
use super::mistake::{FileMistake, TextMistake};
use super::table_reader::TableReader;
use super::yaml_text::YamlText;

/// The table without its ending.
const TABLE: &str = "errors";

/// Who can do something about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorMatter {
    /// Who makes the image.
    Image,
    /// Who runs it.
    Host,
    /// Who writes the profiler.
    Program,
}

impl ErrorMatter {
    /// The name used in the table and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Host => "host",
            Self::Program => "program",
        }
    }
}

/// A known error. The head of the table explains each key.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownError {
    /// Its text, with placeholders.
    pub error: String,
    /// Other texts of it.
    #[serde(default)]
    pub also: Vec<String>,
    /// Its number as a `CUptiResult`.
    #[serde(default)]
    pub number: Option<u32>,
    /// What happened.
    pub means: String,
    /// Whose matter it is, the likeliest first.
    pub matter_of: Vec<ErrorMatter>,
    /// The command that shows it.
    #[serde(default)]
    pub shown_by: Option<String>,
    /// What to do, where no rule says it.
    #[serde(default)]
    pub fix: Option<String>,
    /// The rules that find it.
    #[serde(default)]
    pub rules: Vec<String>,
    /// The error as it is printed; `error` itself where it is left out.
    #[serde(default)]
    seen: Option<String>,
    /// How sure it is.
    pub certainty: Certainty,
    /// Where it is known from.
    pub source: String,
}

impl KnownError {
    /// The error as it is printed.
    pub fn example(&self) -> &str {
        self.seen.as_deref().unwrap_or(&self.error)
    }

    fn texts(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.error).chain(&self.also)
    }

    /// Checks what its types cannot see. `row` is its number in the file.
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

/// The known errors, ready to be looked for.
#[derive(Debug)]
pub struct KnownErrors {
    /// Those of the program, then the user's.
    pub errors: Vec<KnownError>,
    /// The texts of all, each with the place of its error.
    texts: Vec<(usize, ErrorText)>,
    /// Finds the first fragments of the texts, in their order.
    fragments: AhoCorasick,
}

impl KnownErrors {
    /// Reads the table from the files of the program and of the user.
    ///
    /// Errors: The first mistake of each file.
    pub fn read(files: Vec<DataFile>, rules: &[&str]) -> Result<Self, Vec<FileMistake>> {
        let tables: Vec<DataFile> = files.into_iter().filter(|file| file.kind == DataKind::Table).collect();
        let mut reader = TableReader::new(&tables);
        let mut errors: Vec<KnownError> = Vec::new();
        reader.documents(TABLE, |text, rows: Vec<KnownError>| {
            for (row, error) in rows.into_iter().enumerate() {
                let row = row.to_string();
                error.check(text, &row, rules)?;
                let is_same = |known: &&KnownError| {
                    known.error == error.error || error.number.is_some() && known.number == error.number
                };
                if let Some(known) = errors.iter().find(is_same) {
                    let what = format!("there is a row of this error or number already: {:?}", known.error);
                    return Err(text.mistake(&[&row, "error"], what));
                }
                errors.push(error);
            }
            Ok(())
        });
        if reader.mistakes.is_empty() {
            Ok(Self::new(errors))
        } else {
            Err(reader.mistakes)
        }
    }

    /// Takes errors that were checked.
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

    /// The error that a line has: of several that with the most letters, and of equal ones the user's. Where
    /// its text ends in the number of a result, that result.
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

    /// The result of this number.
    pub fn of_number(&self, number: u32) -> Option<&KnownError> {
        self.errors.iter().find(|error| error.number == Some(number))
    }
}

#[cfg(test)]
mod tests;
