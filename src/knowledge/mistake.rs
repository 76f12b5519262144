//! What is wrong in a file, where, and in which words.

use std::fmt;

use image_linkage::escape::escape_bytes;

/// A place in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextPosition {
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
}

impl TextPosition {
    /// Where a file begins.
    pub const START: Self = Self { line: 1, column: 1 };
}

impl fmt::Display for TextPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Something wrong in a text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextMistake {
    /// The value or the key that is meant.
    pub place: TextPosition,
    /// What is wrong and what would do, with all that the user wrote escaped.
    pub what: String,
}

impl TextMistake {
    /// A mistake of the text as a whole.
    pub fn at_start(what: impl Into<String>) -> Self {
        let (place, what) = (TextPosition::START, what.into());
        Self { place, what }
    }

    /// The mistake with the file, as the user would name it.
    pub fn in_file(self, file: &str) -> FileMistake {
        let file = file.to_owned();
        FileMistake { file, mistake: self }
    }
}

impl fmt::Display for TextMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

/// A mistake in a file, or a file that cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileMistake {
    /// The file as the user would name it.
    pub file: String,
    /// What is wrong in it, and where.
    pub mistake: TextMistake,
}

impl fmt::Display for FileMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.mistake)
    }
}

/// Says that there is no `kind` called `name`, what it may have been meant to be, and what there is.
pub fn unknown_name(kind: &str, name: &str, known: &[&str]) -> String {
    let nearest = suggestion(name, known);
    let known = match known {
        [] => "; there is none".to_owned(),
        _ => format!("; there is {}", known.join(", ")),
    };
    format!(
        "there is no {kind} \"{}\"{nearest}{known}",
        escape_bytes(name.as_bytes())
    )
}

/// What a name may have been meant to be, as the end of a sentence that says there is none of that name; empty where
/// nothing is near.
pub fn suggestion(name: &str, known: &[&str]) -> String {
    // What somebody remembers of a long name is a part of it, most often the first.
    let part = |fits: fn(&str, &str) -> bool| known.iter().copied().find(|known| name.len() > 3 && fits(known, name));
    let meant = nearest(name, known)
        .or_else(|| part(|known, name| known.starts_with(name)))
        .or_else(|| part(|known, name| known.contains(name)));
    meant.map_or_else(String::new, |meant| format!("; did you mean \"{meant}\"?"))
}

/// The name that a slip of the hand would turn into `name`.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let distance = |known: &str| strsim::damerau_levenshtein(name, known);
    known
        .iter()
        .map(|known| (distance(known), *known))
        // A third of the letters may be wrong, and at least one: more would suggest any short name for any other.
        .filter(|(distance, known)| *distance <= known.len().max(3) / 3)
        // Of equally near names the first by alphabet, so that the same file always gets the same words.
        .min()
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::unknown_name;

    #[test]
    fn a_name_is_proposed_only_where_it_is_near() {
        let known = ["inference", "training", "profiling"];
        assert!(unknown_name("phase", "trianing", &known).contains("did you mean \"training\"?"));
        assert!(!unknown_name("phase", "lunch", &known).contains("did you mean"));
    }

    #[test]
    fn what_a_user_wrote_cannot_steer_a_terminal() {
        assert!(unknown_name("phase", "a\x1b[31m\u{202e}", &[]).contains("\"a\\x1b[31m\\u{202e}\""));
    }
}
