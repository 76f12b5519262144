//! Turns marked words into fields: splitting, braces and file names (POSIX shell, 2.6.5 and 2.6.6).

use crate::image_files::FileKind;
use crate::pattern::{has_group, has_wildcard, quote_letter, unquote};
use crate::reader::Reader;
use crate::state::{EXT_GLOB, NO_GLOB, NULL_GLOB, State, is_below};
use crate::value::{BREAK, EMPTY, is_open};

/// The maximum names that one pattern may match.
const MAX_MATCHES: usize = 256;
/// The maximum words that one brace expansion may produce.
const MAX_BRACE_WORDS: usize = 256;

/// Marks the fields of an unquoted expansion. Braces in it have no meaning, its wildcards do.
pub(crate) fn split_text(text: &str, separators: &str) -> String {
    let mut marked = String::with_capacity(text.len());
    let mut is_field_empty = true;
    for letter in text.chars() {
        if !separators.contains(letter) {
            marked.push(if matches!(letter, '{' | '}' | ',') {
                quote_letter(letter)
            } else {
                letter
            });
            is_field_empty = false;
            continue;
        }
        if !letter.is_ascii_whitespace() {
            marked.extend(is_field_empty.then_some(EMPTY));
            is_field_empty = true;
        }
        marked.push(BREAK);
    }
    marked
}

/// Takes the first field of a line, as `read` does. Returns it and the rest of the line.
pub(crate) fn read_field<'t>(line: &'t str, separators: &str) -> (&'t str, &'t str) {
    let is_white = |letter: char| letter.is_ascii_whitespace() && separators.contains(letter);
    let line = line.trim_start_matches(is_white);
    let end = line.find(|letter| separators.contains(letter)).unwrap_or(line.len());
    let (field, rest) = line.split_at(end);
    let rest = rest.trim_start_matches(is_white);
    let behind = rest.strip_prefix(|letter| separators.contains(letter)).unwrap_or(rest);
    (field, behind.trim_start_matches(is_white))
}

impl Reader<'_> {
    /// Splits marked text into fields and expands braces and file names.
    pub(crate) fn split_fields(&mut self, marked: &str, state: &State) -> Vec<String> {
        let mut fields = Vec::new();
        for field in marked.split(BREAK).filter(|field| !field.is_empty()) {
            let words = if state.shell.is_bash() {
                brace_words(field).unwrap_or_else(|| vec![self.hole("the words that braces make")])
            } else {
                vec![field.to_owned()]
            };
            for word in words.iter().filter(|word| !word.is_empty()) {
                fields.extend(self.expand_files(word, state));
            }
        }
        fields
    }

    /// The files that match a pattern; the pattern itself if there are none.
    fn expand_files(&mut self, pattern: &str, state: &State) -> Vec<String> {
        let text = unquote(pattern);
        if !has_wildcard(pattern) || state.has(NO_GLOB) || is_open(&text) {
            return vec![text];
        }
        let reason = format!("the files that match {text}");
        let begin = pattern.split(['*', '?', '[', '(']).next().unwrap_or_default();
        let (written, _) = begin.rsplit_once('/').unwrap_or_default();
        let folder = state.absolute(&unquote(written));
        let is_changed = self.touched.iter().any(|touched| is_below(touched, &folder));
        let Some(matches) = self.matching_files(pattern, state).filter(|_| !is_changed) else {
            return vec![self.hole(&reason)];
        };
        if !matches.is_empty() {
            return matches;
        }
        // The driver's files may be mounted.
        let is_driver_file = self.is_driver_file(&state.absolute(&text.replace(['*', '?'], "")));
        if is_driver_file || self.provides_missing && text.starts_with('/') && self.place != "config" {
            return vec![self.given_hole(&reason)];
        }
        Some(text).filter(|_| !state.has(NULL_GLOB)).into_iter().collect()
    }

    /// The files that match a pattern; `None` if it is not supported or if they are too many.
    pub(crate) fn matching_files(&mut self, pattern: &str, state: &State) -> Option<Vec<String>> {
        if has_group(pattern) && !state.has(EXT_GLOB) {
            return None;
        }
        let mut found = vec![String::new()];
        for (depth, part) in pattern.split('/').enumerate() {
            let slash = if depth > 0 { "/" } else { "" };
            let mut next = Vec::new();
            for folder in found {
                if !has_wildcard(part) {
                    next.push(format!("{folder}{slash}{}", unquote(part)));
                    continue;
                }
                for name in self.files.list(&state.absolute(&format!("{folder}{slash}"))) {
                    let is_hidden = name.starts_with('.') && !part.starts_with('.');
                    if is_hidden && part.get(1..).is_some_and(|rest| rest.starts_with('(')) && part.contains('.') {
                        // Whether such a group matches a leading dot depends on its alternatives.
                        return None;
                    }
                    if self.patterns.matches(part, &name)? && !is_hidden {
                        next.push(format!("{folder}{slash}{name}"));
                    }
                }
            }
            found = Some(next).filter(|next| next.len() <= MAX_MATCHES)?;
        }
        found.retain(|path| {
            let stat = self.files.stat(&state.absolute(path));
            stat.is_some_and(|stat| !path.ends_with('/') || stat.kind == FileKind::Directory)
        });
        Some(found)
    }
}

/// The words of a brace expansion, leftmost brace first. `None` for ranges and nested braces.
fn brace_words(text: &str) -> Option<Vec<String>> {
    let braces = text
        .split_once('{')
        .and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
    let Some((before, (inside, behind))) = braces else {
        return Some(vec![text.to_owned()]);
    };
    let items: Vec<String> = match inside.contains(',') {
        _ if inside.contains('{') || inside.contains("..") => return None,
        _ if text.matches('{').count() > MAX_BRACE_WORDS => return None,
        true => inside.split(',').map(str::to_owned).collect(),
        false => vec![format!("{{{inside}}}")],
    };
    let ends = brace_words(behind)?;
    let words = items
        .iter()
        .flat_map(|item| ends.iter().map(move |end| format!("{before}{item}{end}")));
    Some(words.take(MAX_BRACE_WORDS + 1).collect()).filter(|words: &Vec<_>| words.len() <= MAX_BRACE_WORDS)
}

#[cfg(test)]
mod tests {
    use super::{brace_words, read_field};

    #[test]
    fn a_line_splits_like_read() {
        assert_eq!(read_field("  a b  c ", " \t\n"), ("a", "b  c "));
        assert_eq!(read_field("a=b=c", "="), ("a", "b=c"));
        assert_eq!(read_field("a::b", ":"), ("a", ":b"));
        assert_eq!(read_field("a : b", " :"), ("a", "b"));
    }

    #[test]
    fn braces_expand_like_bash() {
        let cases = [
            ("a{b,c}d{e,f}", Some("abde abdf acde acdf")),
            ("{a}{b,c}", Some("{a}b {a}c")),
            ("{a,{b,c}}", None),
            ("{1..3}", None),
        ];
        for (pattern, words) in cases {
            assert_eq!(
                brace_words(pattern).map(|words| words.join(" ")).as_deref(),
                words,
                "{pattern}"
            );
        }
    }
}
