//! Turns expanded words into fields: splitting, braces and file names (POSIX shell, 2.6.5 and 2.6.6).

use crate::image_files::FileKind;
use crate::pattern::{escape_pattern, has_wildcard, unescape_pattern};
use crate::reader::Reader;
use crate::state::{ShellOption, State, is_below};
use crate::value::is_open;
use crate::words::Piece;

/// The maximum names that one pattern may match.
const MAX_MATCHES: usize = 256;
/// The maximum words that one brace expansion may produce.
const MAX_BRACE_WORDS: usize = 256;

/// Builds fields from text and separators.
pub(crate) struct FieldSplitter<'s> {
    separators: &'s str,
    /// The characters to escape in split text, because the fields are used as patterns.
    escaped: &'static str,
    fields: Vec<String>,
    field: String,
    field_has_started: bool,
    is_after_whitespace: bool,
}

impl<'s> FieldSplitter<'s> {
    fn new(separators: &'s str, escaped: &'static str) -> Self {
        let (fields, field) = (Vec::new(), String::new());
        Self {
            separators,
            escaped,
            fields,
            field,
            field_has_started: false,
            is_after_whitespace: false,
        }
    }

    /// Splits a line as `read` does: the last of `count` fields takes the rest, trimmed of IFS whitespace.
    pub(crate) fn read(line: &str, separators: &'s str, count: usize) -> Vec<String> {
        let mut splitter = Self::new(separators, "");
        let is_white = |letter: char| letter.is_ascii_whitespace() && separators.contains(letter);
        for (at, letter) in line.char_indices() {
            let is_end = separators.contains(letter) && splitter.is_after_whitespace;
            if splitter.fields.len() + 1 == count && !splitter.field_has_started && !is_white(letter) && !is_end {
                splitter.push(line.get(at..).unwrap_or_default().trim_end_matches(is_white));
                break;
            }
            splitter.split_at(letter);
        }
        splitter.finish()
    }

    /// Adds text without splitting it.
    fn push(&mut self, text: &str) {
        self.field += text;
        (self.field_has_started, self.is_after_whitespace) = (true, false);
    }

    fn end_field(&mut self) {
        self.fields.push(std::mem::take(&mut self.field));
        self.field_has_started = false;
    }

    /// Adds one character, or ends the field at a separator.
    fn split_at(&mut self, letter: char) {
        if !self.separators.contains(letter) {
            let begin = if self.escaped.contains(letter) { "\\" } else { "" };
            self.push(begin);
            self.field.push(letter);
        } else if letter.is_ascii_whitespace() {
            if self.field_has_started {
                self.end_field();
                self.is_after_whitespace = true;
            }
        } else if self.is_after_whitespace {
            self.is_after_whitespace = false;
        } else {
            self.end_field();
        }
    }

    fn finish(mut self) -> Vec<String> {
        if self.field_has_started {
            self.end_field();
        }
        self.fields
    }
}

impl Reader<'_> {
    /// Splits pieces into fields and expands braces and file names.
    pub(crate) fn piece_fields(&mut self, pieces: &[Piece], state: &State) -> Vec<String> {
        let separators = state.separators();
        let mut splitter = FieldSplitter::new(separators.as_deref().unwrap_or_default(), r"\{},");
        for piece in pieces {
            match piece {
                Piece::Quoted(text) => splitter.push(&escape_pattern(text)),
                Piece::Literal(text) => splitter.push(text),
                Piece::Break => splitter.end_field(),
                Piece::Nothing => {}
                Piece::Expanded(_) if separators.is_none() => {
                    splitter.push(&self.hole(&state.script.path, "a word split by an unknown IFS"));
                }
                Piece::Expanded(text) => text.chars().for_each(|letter| splitter.split_at(letter)),
            }
            splitter.field_has_started |= *piece == Piece::Break;
        }
        let mut fields = Vec::new();
        for pattern in splitter.finish() {
            let mut words = vec![pattern.clone()];
            if state.shell.is_bash() && pattern.contains('{') {
                words.clear();
                if !push_braces(&pattern, &mut words) {
                    words = vec![self.hole(&state.script.path, "the words that braces make")];
                } else if words.len() > 1 {
                    words.retain(|word| !word.is_empty());
                }
            }
            words
                .iter()
                .for_each(|word| fields.extend(self.expand_files(word, state)));
        }
        fields
    }

    /// The files that match a pattern; the pattern itself if there are none.
    fn expand_files(&mut self, pattern: &str, state: &State) -> Vec<String> {
        let text = unescape_pattern(pattern);
        if !has_wildcard(pattern) || state.has(ShellOption::NoGlob) || is_open(&text) {
            return vec![text];
        }
        let place = &state.script.path;
        let reason = format!("the files that match {text}");
        let begin = pattern.split(['*', '?', '[']).next().unwrap_or_default();
        let begin = begin.rsplit_once('/').map_or("", |(folder, _)| folder);
        let folder = state.absolute(&unescape_pattern(begin));
        let mut parts = pattern.split('/').filter(|part| has_wildcard(part));
        let is_unknown = parts.any(|part| self.patterns.compile(part, [true, true]).is_none());
        let matches = self.matching_files(pattern, state);
        if is_unknown || matches.len() > MAX_MATCHES || state.touched.iter().any(|touched| is_below(touched, &folder)) {
            return vec![self.hole(place, &reason)];
        }
        if !matches.is_empty() {
            return matches;
        }
        // The driver's files may be mounted.
        let is_driver_file = self.is_driver_file(&state.absolute(&text.replace(['*', '?'], "")));
        if is_driver_file || self.provides_missing && text.starts_with('/') && place != "config" {
            return vec![self.given_hole(place, &reason)];
        }
        if state.has(ShellOption::NullGlob) {
            Vec::new()
        } else {
            vec![text]
        }
    }

    fn matching_files(&mut self, pattern: &str, state: &State) -> Vec<String> {
        let begin = if pattern.starts_with('/') { "/" } else { "" };
        let only_folders = pattern.ends_with('/');
        let mut found = vec![begin.to_owned()];
        for part in pattern.split('/').filter(|part| !part.is_empty()) {
            let is_hidden = part.starts_with('.') || part.starts_with("\\.");
            let mut next = Vec::new();
            for folder in found {
                let slash = if folder.is_empty() || folder.ends_with('/') {
                    ""
                } else {
                    "/"
                };
                if !has_wildcard(part) {
                    next.push(format!("{folder}{slash}{}", unescape_pattern(part)));
                    continue;
                }
                let names = self.files.list(&state.absolute(&folder)).into_iter();
                let names = names.filter(|name| is_hidden || !name.starts_with('.'));
                let names = names.filter(|name| self.patterns.matches(part, name) == Some(true));
                next.extend(names.map(|name| format!("{folder}{slash}{name}")).take(MAX_MATCHES + 1));
            }
            next.truncate(MAX_MATCHES + 1);
            found = next;
        }
        found.retain(|path| {
            let stat = self.files.stat(&state.absolute(path));
            stat.is_some_and(|stat| !only_folders || stat.kind == FileKind::Directory)
        });
        let end = if only_folders { "/" } else { "" };
        found.into_iter().map(|path| path + end).collect()
    }
}

/// Adds the words of a brace expansion, leftmost brace first. Returns false if they are unknown or too many.
fn push_braces(pattern: &str, words: &mut Vec<String>) -> bool {
    let mut letters = pattern.char_indices();
    while let Some((begin, letter)) = letters.next() {
        let behind = pattern.get(begin + letter.len_utf8()..).unwrap_or_default();
        if letter == '\\' {
            letters.next();
        } else if letter == '{'
            && let Some((items, rest)) = brace_items(behind)
        {
            let before = pattern.get(..begin).unwrap_or_default();
            let mut patterns = items.iter().map(|item| format!("{before}{item}{rest}"));
            return !items.is_empty() && patterns.all(|pattern| push_braces(&pattern, words));
        }
    }
    words.push(pattern.to_owned());
    words.len() <= MAX_BRACE_WORDS
}

/// The items of a brace expression, starting behind its `{`, and the text behind its `}`.
fn brace_items(text: &str) -> Option<(Vec<String>, &str)> {
    let (mut depth, mut begin, mut items) = (0_usize, 0, Vec::new());
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                items.push(text.get(begin..at)?.to_owned());
                begin = at + 1;
            }
            _ => {}
        }
        if letter == '}' && begin == at + 1 {
            if let [only] = &*items {
                // Ranges such as `{1..3}` are not expanded.
                only.find("..")?;
                items.clear();
            }
            return Some((items, text.get(begin..)?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{FieldSplitter, push_braces};

    #[test]
    fn a_line_splits_like_read() {
        let read = |line, separators, count| FieldSplitter::read(line, separators, count).join("|");
        assert_eq!(read("  a b  c ", " \t\n", 2), "a|b  c");
        assert_eq!(read("a=b=c", "=", 2), "a|b=c");
        assert_eq!(read("a::b", ":", 3), "a||b");
        assert_eq!(read("a : b", " :", 2), "a|b");
    }

    #[test]
    fn braces_expand_like_bash() {
        let cases = [
            ("a{b,c}d{e,f}", "abde abdf acde acdf"),
            ("{a,{b,c}}", "a b c"),
            (r"{a}\{b,c}", r"{a}\{b,c}"),
        ];
        for (pattern, words) in cases {
            let mut made = Vec::new();
            assert!(push_braces(pattern, &mut made));
            assert_eq!(made.join(" "), words, "{pattern}");
        }
        assert!(!push_braces("{1..3}", &mut Vec::new()));
    }
}
