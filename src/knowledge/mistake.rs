//! Mistakes in files: their positions and messages.

use std::fmt;

use image_linkage::escape::escape_bytes;

/// A position in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextPosition {
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
}

impl TextPosition {
    /// The beginning of a file.
    pub const START: Self = Self { line: 1, column: 1 };
    /// A file as a whole, such as one that cannot be read.
    const NONE: Self = Self { line: 0, column: 0 };
}

impl fmt::Display for TextPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A mistake in a text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextMistake {
    /// The position of the value or key.
    pub place: TextPosition,
    /// The mistake and the expected form, with all user text escaped.
    pub what: String,
}

impl TextMistake {
    /// A mistake of the text as a whole.
    pub fn of_whole(what: impl Into<String>) -> Self {
        let (place, what) = (TextPosition::NONE, what.into());
        Self { place, what }
    }

    /// Adds the file, named as the user would write it.
    pub fn in_file(self, file: &str) -> FileMistake {
        let file = file.to_owned();
        FileMistake { file, mistake: self }
    }
}

impl fmt::Display for TextMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            TextPosition::NONE => f.write_str(&self.what),
            place => write!(f, "{place}: {}", self.what),
        }
    }
}

/// A mistake in a file, or an unreadable file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileMistake {
    /// The file name as the user would write it.
    pub file: String,
    /// The mistake and its position.
    pub mistake: TextMistake,
}

impl fmt::Display for FileMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_of_whole = self.mistake.place == TextPosition::NONE;
        let after = if is_of_whole { " " } else { "" };
        write!(f, "{}:{after}{}", self.file, self.mistake)
    }
}

/// A message that no `kind` is called `name`, with a suggestion and the known names.
pub fn unknown_name(kind: &str, name: &str, known: &[&str]) -> String {
    let nearest = match name {
        "" => "; is a variable empty?".to_owned(),
        _ => suggestion(name, known),
    };
    let known = match known {
        [] => "; there is none".to_owned(),
        _ => format!("; there is {}", known.join(", ")),
    };
    format!(
        "there is no {kind} \"{}\"{nearest}{known}",
        escape_bytes(name.as_bytes())
    )
}

/// A suggestion for an unknown name, as the end of a sentence; empty if no name is similar.
pub fn suggestion(name: &str, known: &[&str]) -> String {
    // Users often remember only a part of a long name, usually the first.
    let part = |fits: fn(&str, &str) -> bool| known.iter().copied().find(|known| name.len() > 3 && fits(known, name));
    let meant = nearest(name, known)
        .or_else(|| part(|known, name| known.starts_with(name)))
        .or_else(|| part(|known, name| known.contains(name)));
    meant.map_or_else(String::new, |meant| format!("; did you mean \"{meant}\"?"))
}

/// The known name that is closest to a mistyped `name`.
pub(crate) fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    known
        .iter()
        .map(|known| (strsim::damerau_levenshtein(name, known), *known))
        // At most a third of the letters may differ, but at least one; otherwise any short name would match any other.
        .filter(|(distance, known)| *distance <= known.len().max(3) / 3)
        // The smallest of equally close names wins, for stable output.
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
