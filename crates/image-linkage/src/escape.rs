//! Bytes of an image as text for a terminal or a report.
//!
//! Names in an image are bytes that somebody else chose: they may hold terminal sequences, line breaks or
//! no text at all. This is the only way from such bytes to text.

use std::fmt::Write as _;
use std::path::Path;

/// Returns `bytes` as printable text: UTF-8 stays, control characters, line breaks, direction marks and
/// bytes that are not UTF-8 become `\xNN` or `\u{NNNN}`, and a backslash is doubled.
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

/// A path of the host as printable text, in the same way.
pub fn escape_path(path: &Path) -> String {
    escape_bytes(path.as_os_str().as_encoded_bytes())
}

fn push(out: &mut String, c: char) {
    match c {
        // Doubled, or a name could hold the text of an escape and be read as the byte that it stands for.
        '\\' => out.push_str("\\\\"),
        c if c.is_ascii_control() => {
            let _ = write!(out, "\\x{:02x}", u32::from(c));
        }
        // U+009B alone begins a terminal sequence, and direction marks show a name as another one (CVE-2021-42574).
        c if is_hidden(c) => {
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        }
        c => out.push(c),
    }
}

/// Whether `c`, which is no control character of ASCII, changes the direction of the text around it (Unicode Standard Annex
/// 9), hides in it or steers a terminal.
pub fn is_hidden(c: char) -> bool {
    let is_steering = c.is_control() && !c.is_ascii_control();
    is_steering || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::escape_bytes;

    #[test]
    fn hostile_names_are_printable_and_plain_names_stay() {
        assert_eq!(escape_bytes(b"/usr/lib/libcupti.so.12"), "/usr/lib/libcupti.so.12");
        assert_eq!(escape_bytes("/süß".as_bytes()), "/süß");
        assert_eq!(escape_bytes(b"a\x1b[31m\n\\b"), "a\\x1b[31m\\x0a\\\\b");
        assert_eq!(escape_bytes(b"\xff\xc3("), "\\xff\\xc3(");
        assert_eq!(escape_bytes("gpj.\u{202e}exe".as_bytes()), "gpj.\\u{202e}exe");
    }
}
