//! Quoting for the shell, for the words of a Dockerfile, and for JSON in a Dockerfile.
//!
//! A recipe is serialized for the templates, and only the functions here serialize its paths. A path that cannot be
//! written is a serialization error.

use serde::ser::{Error as _, Serialize, Serializer};

use crate::make::remedy::RemedyError;
use crate::shell_quote::is_plain;
use image_linkage::elf::ByteString;
use image_linkage::escape::escape_bytes;
use image_linkage::path::RootPath;

/// Returns the name if none of its bytes needs quoting anywhere.
///
/// Errors: [`RemedyError::Name`] for any other name.
pub(crate) fn require_plain(what: &str, name: &[u8]) -> Result<String, RemedyError> {
    let text = std::str::from_utf8(name).ok().filter(|_| is_plain(name));
    text.map(str::to_owned).ok_or_else(|| refused(what, name))
}

/// Returns the path if the JSON form of `COPY` and shell quotes leave it unchanged.
///
/// Errors: [`RemedyError::Name`] for a path with a variable, a pattern or an escape, which `COPY` expands even in JSON.
pub(crate) fn require_literal(what: &str, name: &[u8]) -> Result<String, RemedyError> {
    let text = std::str::from_utf8(name).ok().filter(|_| is_writable(name));
    // A leading dash would make it an option.
    let text = text.filter(|text| !text.starts_with('-') && !text.contains(['$', '*', '?', '[', ']', '\\', '"', '\t']));
    text.map(str::to_owned).ok_or_else(|| refused(what, name))
}

/// Whether a Dockerfile can contain the name: printable text, with backslashes and tabs.
pub(crate) fn is_writable(name: &[u8]) -> bool {
    // `escape` changes these, but quotes of the shell, of ENV and of JSON keep them (seen with both builders).
    let without: Vec<u8> = name.iter().copied().filter(|byte| !b"\\\t".contains(byte)).collect();
    escape_bytes(&without).as_bytes() == without
}

/// Returns the text if a Dockerfile can contain it.
///
/// Errors: [`RemedyError::Name`] for any other text, with `what` as its description.
pub(crate) fn require_writable<'t>(what: &str, text: &'t str) -> Result<&'t str, RemedyError> {
    let can = is_writable(text.as_bytes()).then_some(text);
    can.ok_or_else(|| refused(what, text.as_bytes()))
}

pub(crate) fn refused(what: &str, name: &[u8]) -> RemedyError {
    RemedyError::Name {
        what: what.to_owned(),
        name: escape_bytes(name),
    }
}

/// A path in a template, checked like [`require_literal`].
struct LiteralPath<'p>(&'p RootPath);

impl Serialize for LiteralPath<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let text = require_literal("a path", &self.0.absolute());
        to.serialize_str(&text.map_err(S::Error::custom)?)
    }
}

/// Serializes a path.
///
/// Errors: A template cannot contain the path. The other functions report the same.
pub(crate) fn serialize_path<S: Serializer>(path: &RootPath, to: S) -> Result<S::Ok, S::Error> {
    LiteralPath(path).serialize(to)
}

/// Serializes an optional path.
#[expect(clippy::ref_option, reason = "serde hands a field over by reference")]
pub(crate) fn serialize_optional_path<S: Serializer>(path: &Option<RootPath>, to: S) -> Result<S::Ok, S::Error> {
    path.as_ref().map(LiteralPath).serialize(to)
}

/// Serializes a list of paths.
pub(crate) fn serialize_paths<S: Serializer>(paths: &[RootPath], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(paths.iter().map(LiteralPath))
}

/// Serializes paths for the shell only; these need to pass [`is_writable`].
pub(crate) fn serialize_shell_paths<S: Serializer>(paths: &[RootPath], to: S) -> Result<S::Ok, S::Error> {
    // Writable paths are UTF-8, so the conversion is lossless.
    to.collect_seq(
        paths
            .iter()
            .map(|path| String::from_utf8_lossy(&path.absolute()).into_owned()),
    )
}

/// Serializes the target of a link.
pub(crate) fn serialize_link_target<S: Serializer>(target: &ByteString, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&require_literal("a link", target).map_err(S::Error::custom)?)
}

/// Serializes a name for a comment.
pub(crate) fn serialize_escaped<S: Serializer>(name: &ByteString, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&escape_bytes(name))
}

/// A value of `ENV` or `LABEL` in double quotes, with expansion disabled (Dockerfile reference, "Environment
/// replacement").
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
    // Text from `escape` has no control characters and stays the same.
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
        assert!(is_writable(b"/a\\b\tc"));
        for name in ["/a\nb", "/a\u{202e}b", "/\u{1b}[31m"] {
            assert!(!is_writable(name.as_bytes()), "{name:?}");
        }
        assert!(!is_writable(b"\xff"));
    }
}
