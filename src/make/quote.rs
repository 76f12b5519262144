//! Text as the shell, the words of a Dockerfile and JSON in it take it.
//!
//! A recipe is serialised for the templates, and its paths become text only by the functions here that serialise them:
//! a path that cannot be written is an error of the serialisation.

use serde::ser::{Error as _, Serialize, Serializer};

use crate::make::remedy::RemedyError;
use crate::shell_quote::is_plain;
use image_linkage::elf::ByteString;
use image_linkage::escape::escape_bytes;
use image_linkage::path::RootPath;

/// The name as it is, when every byte of it means itself wherever it stands.
///
/// Errors: [`RemedyError::Name`], for any other name.
pub(crate) fn require_plain(what: &str, name: &[u8]) -> Result<String, RemedyError> {
    let text = std::str::from_utf8(name).ok().filter(|_| is_plain(name));
    text.map(str::to_owned).ok_or_else(|| refused(what, name))
}

/// The path as it is, when the JSON form of `COPY` and the quotes of the shell hold it so that it means itself.
///
/// Errors: [`RemedyError::Name`], for one with a variable, a pattern or an escape, which `COPY` reads in JSON too.
pub(crate) fn require_literal(what: &str, name: &[u8]) -> Result<String, RemedyError> {
    let text = std::str::from_utf8(name).ok().filter(|_| is_writable(name));
    // In front of a word a dash would make it an option.
    let text = text.filter(|text| !text.starts_with('-') && !text.contains(['$', '*', '?', '[', ']', '\\', '"']));
    text.map(str::to_owned).ok_or_else(|| refused(what, name))
}

/// Whether a Dockerfile can hold the name at all: text that is printed as it is, but for a backslash.
pub(crate) fn is_writable(name: &[u8]) -> bool {
    // `escape` doubles a backslash, which the shell's quotes and JSON take as it is.
    let without: Vec<u8> = name.iter().copied().filter(|byte| *byte != b'\\').collect();
    escape_bytes(&without).as_bytes() == without
}

/// The text as it is, when a Dockerfile can hold it.
///
/// Errors: [`RemedyError::Name`], for any other text; `what` says of what.
pub(crate) fn require_writable<'t>(what: &str, text: &'t str) -> Result<&'t str, RemedyError> {
    let can = is_writable(text.as_bytes()).then_some(text);
    can.ok_or_else(|| refused(what, text.as_bytes()))
}

fn refused(what: &str, name: &[u8]) -> RemedyError {
    RemedyError::Name {
        what: what.to_owned(),
        name: escape_bytes(name),
    }
}

/// A path in a template, checked as [`require_literal`] does.
struct LiteralPath<'p>(&'p RootPath);

impl Serialize for LiteralPath<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let text = require_literal("a path", &self.0.absolute());
        to.serialize_str(&text.map_err(S::Error::custom)?)
    }
}

/// Serialises a path.
///
/// Errors: That the templates cannot have it; so too for the others.
pub(crate) fn serialize_path<S: Serializer>(path: &RootPath, to: S) -> Result<S::Ok, S::Error> {
    LiteralPath(path).serialize(to)
}

/// Serialises a path that may be absent.
#[expect(clippy::ref_option, reason = "serde hands a field over by reference")]
pub(crate) fn serialize_optional_path<S: Serializer>(path: &Option<RootPath>, to: S) -> Result<S::Ok, S::Error> {
    path.as_ref().map(LiteralPath).serialize(to)
}

/// Serialises a list of paths.
pub(crate) fn serialize_paths<S: Serializer>(paths: &[RootPath], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(paths.iter().map(LiteralPath))
}

/// Serialises paths that the shell alone reads, which [`is_writable`] lets through.
pub(crate) fn serialize_shell_paths<S: Serializer>(paths: &[RootPath], to: S) -> Result<S::Ok, S::Error> {
    // What can be written is UTF-8: nothing is lost.
    to.collect_seq(
        paths
            .iter()
            .map(|path| String::from_utf8_lossy(&path.absolute()).into_owned()),
    )
}

/// Serialises what a link leads to.
pub(crate) fn serialize_link_target<S: Serializer>(target: &ByteString, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&require_literal("a link", target).map_err(S::Error::custom)?)
}

/// Serialises a name for a comment.
pub(crate) fn serialize_escaped<S: Serializer>(name: &ByteString, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&escape_bytes(name))
}

/// A value of `ENV` or `LABEL` (Dockerfile reference, "Environment replacement"): in double quotes, nothing replaced.
pub(crate) fn quote_env(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        if matches!(c, '\\' | '"' | '$') {
            out.push('\\');
        }
        out.push(c);
    }
    out + "\""
}

/// A comment: one line of printable text.
pub(crate) fn comment_line(text: &str) -> String {
    // What came out of `escape` already stays as it is.
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::{comment_line, is_writable, quote_env, require_plain};
    use crate::shell_quote::quote_shell;

    #[test]
    fn names_that_could_mean_more_are_quoted_or_refused() {
        assert_eq!(quote_shell("/opt/lib/libcupti.so.12"), "/opt/lib/libcupti.so.12");
        assert_eq!(quote_shell("/a b"), "'/a b'");
        assert_eq!(quote_shell("$(reboot)"), "'$(reboot)'");
        assert_eq!(quote_shell("it's"), r"'it'\''s'");
        assert_eq!(quote_shell("-rf"), "'-rf'");
        assert_eq!(quote_shell(""), "''");
        assert_eq!(quote_env(r#"a"b\c$D"#), r#""a\"b\\c\$D""#);
        assert_eq!(comment_line("a\nRUN rm"), "a RUN rm");
        assert!(require_plain("a file", b"/usr/lib/x.so").is_ok());
        for name in [&b"/a b"[..], b"$HOME", b"/x\n", b"\xff", b"", b"--from=x", b"/a*"] {
            assert!(require_plain("a file", name).is_err(), "{name:?}");
        }
        assert!(is_writable("/süß und 'so'".as_bytes()));
        assert!(is_writable(br"/a\b"));
        for name in ["/a\nb", "/a\u{202e}b", "/\u{1b}[31m"] {
            assert!(!is_writable(name.as_bytes()), "{name:?}");
        }
        assert!(!is_writable(b"\xff"));
    }
}
