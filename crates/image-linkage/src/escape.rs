//! Converts bytes from an image to text for a terminal or a report.
//!
//! Names in an image are untrusted: they may contain terminal sequences, line breaks or invalid UTF-8. This module is
//! the only way from such bytes to text.

use std::fmt::Write as _;
use std::path::Path;

/// Returns `bytes` as printable text. Control characters, line breaks, direction marks and invalid UTF-8 become `\xNN`
/// or `\u{NNNN}`. Backslashes are doubled.
pub fn escape_bytes(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            push(&mut out, c);
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

/// A host path as printable text, escaped in the same way.
pub fn escape_path(path: &Path) -> String {
    escape_bytes(path.as_os_str().as_encoded_bytes())
}

/// `text` escaped in the same way, but with its backslashes as they are. For text that is escaped already, and for
/// commands that people copy: with doubled backslashes in its quotes, one would be another command.
pub fn escape_controls(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push(c),
            c => push(&mut out, c),
        }
    }
    out
}

fn push(out: &mut String, c: char) {
    match c {
        // Doubled, so that a name cannot imitate an escape sequence.
        '\\' => out.push_str("\\\\"),
        c if c.is_ascii_control() => {
            let _ = write!(out, "\\x{:02x}", u32::from(c));
        }
        // U+009B alone starts a terminal sequence. Direction marks disguise names (CVE-2021-42574).
        c if is_hidden(c) => {
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        }
        c => out.push(c),
    }
}

/// Whether a non-ASCII-control `c` changes text direction (Unicode Standard Annex 9), is invisible or controls a
/// terminal.
pub fn is_hidden(c: char) -> bool {
    let is_steering = c.is_control() && !c.is_ascii_control();
    is_steering || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::{escape_bytes, escape_controls};

    #[test]
    fn a_stored_text_is_not_escaped_twice() {
        let stored = escape_bytes(b"a\x1b[31m\\b");
        assert_eq!(escape_controls(&stored), stored);
        assert_eq!(escape_controls("a\x1b[31m\u{202e}"), "a\\x1b[31m\\u{202e}");
    }

    #[test]
    fn hostile_names_are_escaped_and_plain_names_unchanged() {
        assert_eq!(escape_bytes(b"/usr/lib/libcupti.so.12"), "/usr/lib/libcupti.so.12");
        assert_eq!(escape_bytes("/süß".as_bytes()), "/süß");
        assert_eq!(escape_bytes(b"a\x1b[31m\n\\b"), "a\\x1b[31m\\x0a\\\\b");
        assert_eq!(escape_bytes(b"\xff\xc3("), "\\xff\\xc3(");
        assert_eq!(escape_bytes("gpj.\u{202e}exe".as_bytes()), "gpj.\\u{202e}exe");
    }
}
