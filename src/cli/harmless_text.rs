//! Makes output harmless, so that no CI system executes commands in it.
//!
//! GitHub's runner takes `##[error]…` anywhere in a line as a command, and `::error::…` after nothing but blanks
//! (actions/runner, `ActionCommand.cs`). The agents of Azure and `TeamCity` take `##vso[…]` and `##teamcity[…]`.

use std::borrow::Cow;
use std::fmt::Write as _;

use image_linkage::escape::is_hidden;

/// Rewrites every command in the text; in JSON and markup the meaning stays the same.
pub(super) fn make_harmless(text: &str) -> Cow<'_, str> {
    let (hash, colon) = match text.trim_start().chars().next() {
        Some('{' | '[') => return harmless_json(text),
        Some('<') => ("&#35;", "&#58;"),
        _ => ("\\x23", "\\x3a"),
    };
    if !text.contains("##") && !text.lines().any(begins_command) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for line in split_hashes(text, hash).split_inclusive('\n') {
        if begins_command(line) {
            out.push_str(&line.replacen(':', colon, 1));
        } else {
            out.push_str(line);
        }
    }
    Cow::Owned(out)
}

/// In JSON a line begins with a bracket, and a string may escape any character.
fn harmless_json(text: &str) -> Cow<'_, str> {
    if !text.contains("##") && !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for sign in split_hashes(text, "\\u0023").chars() {
        if is_hidden(sign) {
            let _ = write!(out, "\\u{:04x}", u32::from(sign));
        } else {
            out.push(sign);
        }
    }
    Cow::Owned(out)
}

/// Replaces the last `#` of each `##NAME[` with `hash`.
fn split_hashes(text: &str, hash: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('#') {
        out.push_str(before);
        // Take a whole run at once; otherwise a megabyte of `#` would be scanned for each of them.
        let name = behind.trim_start_matches('#');
        let more = behind.len() - name.len();
        out.extend(std::iter::repeat_n('#', more));
        let is_command = name
            .trim_start_matches(|sign: char| sign.is_ascii_alphabetic())
            .starts_with('[');
        out.push_str(if more > 0 && is_command { hash } else { "#" });
        rest = name;
    }
    out + rest
}

/// Whether a line is a `::` command. Terminal styles are ignored, because they are stripped on the way to a file.
fn begins_command(line: &str) -> bool {
    let mut line = line.trim_start();
    while let Some((_, behind)) = line.strip_prefix("\x1b[").and_then(|style| style.split_once('m')) {
        line = behind.trim_start();
    }
    line.starts_with("::")
}

#[cfg(test)]
mod tests {
    use super::make_harmless;

    #[test]
    fn nothing_is_a_command_of_a_ci_system() {
        for (text, harmless) in [
            ("plain # text ## heading\n## [x](y)\na::b\n", None),
            ("RUN x ##[error]boo", Some("RUN x #\\x23[error]boo")),
            ("###[error] ##vso[task]\n", Some("##\\x23[error] #\\x23vso[task]\n")),
            ("a\n  ::error::boo\n", Some("a\n  \\x3a:error::boo\n")),
            ("\x1b[1m ::error::boo\x1b[0m", Some("\x1b[1m \\x3a:error::boo\x1b[0m")),
            (
                "<p>##[error]\n::error::boo</p>",
                Some("<p>#&#35;[error]\n&#58;:error::boo</p>"),
            ),
            ("{\"a\":\"::x ## b\"}\n", None),
            ("{\"a\":\"##[x]\u{202e}\"}\n", Some("{\"a\":\"#\\u0023[x]\\u202e\"}\n")),
        ] {
            assert_eq!(make_harmless(text), harmless.unwrap_or(text));
        }
        let json = "{\"a\":\"###[x] \u{202e}\u{9b}\"}";
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(read(&make_harmless(json)), read(json));
        assert_eq!(make_harmless(&("#".repeat(9_000_000) + "[")).len(), 9_000_004);
    }
}
