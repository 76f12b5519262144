//! What is wrong in a file, where, and in which words.

use std::fmt::{self, Write as _};

/// A place in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextPosition {
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
}

impl fmt::Display for TextPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Something wrong in a document.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct YamlMistake {
    /// The node or the key that is meant.
    pub place: TextPosition,
    /// What is wrong and what would do, with all that the user wrote escaped.
    pub what: String,
}

impl fmt::Display for YamlMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

/// Says that there is no `kind` called `name`, what it may have been meant to be, and what there is.
pub fn unknown_name(kind: &str, name: &str, known: &[&str]) -> String {
    let nearest = suggestion(name, known);
    let known = match known {
        [] => "; there is none".to_owned(),
        _ => format!("; there is {}", known.join(", ")),
    };
    format!("there is no {kind} \"{}\"{nearest}{known}", escape_text(name))
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

/// Text that a user wrote, or a message with some of it, for a terminal: a backslash is doubled; control characters, and
/// what turns the direction of text or hides in it, are shown by their numbers.
pub(crate) fn escape_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let _ = match c {
            '\\' => write!(out, "\\\\"),
            c if c.is_ascii_control() => write!(out, "\\x{:02x}", u32::from(c)),
            // Rules come from whoever sent them: these would let a message show other words than it holds
            // (Unicode Standard Annex 9).
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' => {
                write!(out, "\\u{{{:x}}}", u32::from(c))
            }
            c if c.is_control() => write!(out, "\\u{{{:x}}}", u32::from(c)),
            c => write!(out, "{c}"),
        };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::escape_text;

    #[test]
    fn what_a_user_wrote_cannot_steer_a_terminal() {
        for (text, shown) in [
            ("süß", "süß"),
            ("a\x1b[31m\n\\b", "a\\x1b[31m\\x0a\\\\b"),
            ("gpj.\u{202e}exe\u{85}", "gpj.\\u{202e}exe\\u{85}"),
        ] {
            assert_eq!(escape_text(text), shown);
        }
    }
}
