//! The known errors of a log, each once: in the order of their first lines, with their number.

use crate::knowledge::known_errors::{KnownError, KnownErrors};

/// The bytes of a line that are kept.
const KEPT: usize = 300;

/// A known error, and where a log has it.
pub struct FoundError<'k> {
    /// What is known of it.
    pub error: &'k KnownError,
    /// Its lines; none where it was asked for by itself.
    pub lines: Option<ErrorLines>,
}

/// The lines of a log that have one error.
pub struct ErrorLines {
    /// How many they are.
    pub count: u64,
    /// The number of the first, from 1.
    pub first: u64,
    /// The beginning of the first.
    pub text: Vec<u8>,
}

/// Takes a line into what was found so far.
pub fn add_line<'k>(found: &mut Vec<FoundError<'k>>, known: &'k KnownErrors, number: u64, text: &[u8]) {
    let Some(error) = known.find(text) else {
        return;
    };
    // The known errors are some hundred, so no log makes this list long.
    let before = found.iter_mut().find(|before| std::ptr::eq(before.error, error));
    if let Some(lines) = before.and_then(|before| before.lines.as_mut()) {
        lines.count += 1;
        return;
    }
    let text = text.trim_ascii();
    let text = text.get(..KEPT).unwrap_or(text).to_owned();
    let (count, first) = (1, number);
    let lines = Some(ErrorLines { count, first, text });
    found.push(FoundError { error, lines });
}
