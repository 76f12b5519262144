//! The known errors in a log, each once, ordered by first line.

use crate::knowledge::known_errors::{KnownError, KnownErrors};

/// The number of bytes of a line to keep.
const KEPT: usize = 300;

/// A known error, and its position in a log.
pub struct FoundError<'k> {
    /// The known error.
    pub error: &'k KnownError,
    /// Its lines; `None` if the user asked for the error itself.
    pub lines: Option<ErrorLines>,
}

/// The lines of a log that show one error.
pub struct ErrorLines {
    /// Their number.
    pub count: u64,
    /// The number of the first line, from 1.
    pub first: u64,
    /// The beginning of the first line.
    pub text: Vec<u8>,
}

/// Adds a log line to the errors found so far.
pub fn add_line<'k>(found: &mut Vec<FoundError<'k>>, known: &'k KnownErrors, number: u64, text: &[u8]) {
    let Some(error) = known.find(text) else {
        return;
    };
    // There are about a hundred known errors, so the list stays short for any log.
    let before = found.iter_mut().find(|before| std::ptr::eq(before.error, error));
    if let Some(lines) = before.and_then(|before| before.lines.as_mut()) {
        lines.count += 1;
        return;
    }
    let text = text.trim_ascii();
    let lines = Some(ErrorLines {
        count: 1,
        first: number,
        text: text.get(..KEPT).unwrap_or(text).to_owned(),
    });
    found.push(FoundError { error, lines });
}
