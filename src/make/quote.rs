//! Checks and quotes the names that enter a Dockerfile.

use crate::make::choose::PatchError;
use crate::shell_quote::is_plain;
use image_linkage::escape::escape_bytes;
use image_linkage::path::RootPath;

/// Returns the name if none of its bytes needs quoting anywhere.
///
/// Errors: [`PatchError::Name`] for any other name.
pub(crate) fn require_plain(what: &str, name: &[u8]) -> Result<String, PatchError> {
    let text = std::str::from_utf8(name).ok().filter(|_| is_plain(name));
    text.map(str::to_owned).ok_or_else(|| refused(what, name))
}

/// Returns the path if the JSON form of `COPY` and shell quotes leave it unchanged.
///
/// Errors: [`PatchError::Name`] for a path with a variable, a pattern or an escape, which `COPY` expands even in JSON.
pub(crate) fn require_literal(what: &str, name: &[u8]) -> Result<String, PatchError> {
    match std::str::from_utf8(name) {
        Ok(text)
            if is_writable(name)
                // A leading dash would make it an option.
                && !text.starts_with('-')
                && !text.contains(['$', '*', '?', '[', ']', '\\', '"', '\t']) =>
        {
            Ok(text.to_owned())
        }
        _ => Err(refused(what, name)),
    }
}

/// Whether a Dockerfile can contain the name: printable text, with backslashes and tabs.
pub(crate) fn is_writable(name: &[u8]) -> bool {
    // `escape` changes these, but quotes of the shell, of ENV and of JSON keep them (seen with both builders).
    let without: Vec<u8> = name.iter().copied().filter(|byte| !b"\\\t".contains(byte)).collect();
    escape_bytes(&without).as_bytes() == without
}

/// Returns the text if a Dockerfile can contain it.
///
/// Errors: [`PatchError::Name`] for any other text, with `what` as its description.
pub(crate) fn require_writable<'t>(what: &str, text: &'t str) -> Result<&'t str, PatchError> {
    let can = is_writable(text.as_bytes()).then_some(text);
    can.ok_or_else(|| refused(what, text.as_bytes()))
}

pub(crate) fn refused(what: &str, name: &[u8]) -> PatchError {
    PatchError::Name {
        what: what.to_owned(),
        name: escape_bytes(name),
    }
}

/// A path in the image, checked like [`require_literal`].
pub(crate) fn literal_path(path: &RootPath) -> Result<String, PatchError> {
    require_literal("a path", &path.absolute())
}

/// A path in the image, checked like [`require_writable`].
pub(crate) fn writable_path(path: &RootPath) -> Result<String, PatchError> {
    let path = path.absolute();
    let text = std::str::from_utf8(&path).ok().filter(|_| is_writable(&path));
    text.map(str::to_owned).ok_or_else(|| refused("a path", &path))
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

/// A string of JSON or YAML.
pub(crate) fn quote_json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
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
