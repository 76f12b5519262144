//! Shell patterns (POSIX shell, 2.13), matched without backtracking.
//!
//! Marked text is the form of a word between expansion and quote removal. [`quote`] replaces each special character
//! that is quoted by a private one. So a special character in marked text always has its special meaning.

use std::collections::HashMap;

use regex_automata::meta::Regex;

use crate::value::{BREAK, EMPTY, QUOTED, is_open};

/// The maximum bytes of a pattern that is compiled.
const PATTERN_BYTES: usize = 4096;
/// The maximum bytes of a text that is compared with `!(…)`: `NAME_MAX` of Linux.
const EXCEPTION_BYTES: usize = 255;
/// The maximum number of parts of such texts that are compared in one reading.
const EXCEPTIONS: usize = 1 << 20;
/// The characters that have a meaning in patterns and braces.
const SPECIAL: &str = r"\*?[]{},()|!@+^";

/// Marks text as quoted.
pub(crate) fn quote(text: &str) -> String {
    text.chars().map(quote_letter).collect()
}

pub(crate) fn quote_letter(letter: char) -> char {
    let quoted = SPECIAL
        .contains(letter)
        .then(|| char::from_u32(QUOTED + letter as u32))
        .flatten();
    quoted.unwrap_or(letter)
}

/// Removes the quotes from marked text. The fields of a word are joined by spaces.
pub(crate) fn unquote(marked: &str) -> String {
    let letters = marked.chars().filter(|letter| *letter != EMPTY);
    letters
        .map(|letter| if letter == BREAK { ' ' } else { unquote_letter(letter) })
        .collect()
}

fn unquote_letter(letter: char) -> char {
    let plain = (letter as u32).checked_sub(QUOTED).and_then(char::from_u32);
    plain.unwrap_or(letter)
}

/// Marks source text outside quotes: a backslash quotes the next character.
pub(crate) fn remove_backslashes(source: &str) -> String {
    let mut marked = String::with_capacity(source.len());
    let mut letters = source.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some('\n') => {}
                quoted => marked.push(quote_letter(quoted.unwrap_or('\\'))),
            },
            letter => marked.push(letter),
        }
    }
    marked
}

/// Whether marked text has a wildcard.
pub(crate) fn has_wildcard(pattern: &str) -> bool {
    let is_class = pattern.split_once('[').is_some_and(|(_, rest)| rest.contains(']'));
    is_class || pattern.contains(['*', '?']) || has_group(pattern)
}

/// Whether marked text has an extended pattern of bash, such as `@(a|b)`.
pub(crate) fn has_group(pattern: &str) -> bool {
    ["@(", "?(", "*(", "+(", "!("].iter().any(|sign| pattern.contains(sign))
}

/// A compiled pattern.
enum Matcher {
    Whole(Regex),
    /// `BEFORE!(EXCEPT)AFTER`
    Except([Regex; 3]),
}

/// Compiled patterns, keyed by text; `None` for an unsupported one.
#[derive(Default)]
pub(crate) struct PatternCache {
    compiled: HashMap<String, Option<Matcher>>,
    exceptions: usize,
}

impl PatternCache {
    /// Whether the whole text matches; `None` for an unsupported pattern.
    pub(crate) fn matches(&mut self, pattern: &str, text: &str) -> Option<bool> {
        if pattern.len() > PATTERN_BYTES || is_open(pattern) {
            return None;
        }
        let entry = self.compiled.entry(pattern.to_owned());
        let [before, except, after] = match entry.or_insert_with(|| compile(pattern)).as_ref()? {
            Matcher::Whole(regex) => return Some(regex.is_match(text)),
            Matcher::Except(parts) => parts,
        };
        if text.len() > EXCEPTION_BYTES || self.exceptions > EXCEPTIONS {
            return None;
        }
        let cuts = || (0..=text.len()).filter_map(|at| text.split_at_checked(at));
        let begins: Vec<&str> = cuts()
            .filter(|(head, _)| before.is_match(head))
            .map(|(_, rest)| rest)
            .collect();
        let ends: Vec<usize> = cuts()
            .filter(|(_, tail)| after.is_match(tail))
            .map(|(_, tail)| tail.len())
            .collect();
        self.exceptions += text.len() + begins.len() * ends.len();
        let mut middles = begins.iter().flat_map(|rest| {
            let lengths = ends.iter().filter_map(|end| rest.len().checked_sub(*end));
            lengths.filter_map(|length| rest.get(..length))
        });
        Some(middles.any(|middle| !except.is_match(middle)))
    }
}

/// Compiles marked text; `None` for a pattern with more than one `!(…)`, or with a bracket before it.
fn regex(pattern: &str) -> Option<Regex> {
    Regex::new(&format!(r"(?s)\A(?:{})\z", regex_source(pattern)?)).ok()
}

fn compile(pattern: &str) -> Option<Matcher> {
    let Some((before, rest)) = pattern.split_once("!(") else {
        return Some(Matcher::Whole(regex(pattern)?));
    };
    if before.contains('[') {
        return None;
    }
    let mut depth = 1_usize;
    let end = rest.find(|letter| {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        depth == 0
    })?;
    let (except, after) = (rest.get(..end)?, rest.get(end + 1..)?);
    Some(Matcher::Except([
        regex(before)?,
        regex(&format!("@({except})"))?,
        regex(after)?,
    ]))
}

type Letters<'p> = std::iter::Peekable<std::str::Chars<'p>>;

/// Translates marked text to a regular expression; `None` for `!(…)`, for a group without an end, and for a backslash in
/// the value of a variable.
fn regex_source(pattern: &str) -> Option<String> {
    let mut source = String::new();
    let mut letters = pattern.chars().peekable();
    let mut groups = Vec::new();
    while let Some(letter) = letters.next() {
        match letter {
            '!' if letters.peek() == Some(&'(') => return None,
            '@' | '+' | '?' | '*' if letters.next_if_eq(&'(').is_some() => {
                source.push_str("(?:");
                groups.push(letter);
            }
            '|' if !groups.is_empty() => source.push('|'),
            ')' if let Some(kind) = groups.pop() => {
                source.push(')');
                source.extend(Some(kind).filter(|kind| *kind != '@'));
            }
            '\\' => return None,
            '*' => source.push_str(".*"),
            '?' => source.push('.'),
            '[' => match class_source(&mut letters) {
                Some(class) => source += &class,
                None => push_literal(&mut source, '['),
            },
            EMPTY => {}
            letter => push_literal(&mut source, letter),
        }
    }
    groups.is_empty().then_some(source)
}

/// Reads a bracket expression behind its `[`. Without a closing `]`, returns `None` and consumes nothing.
fn class_source(letters: &mut Letters<'_>) -> Option<String> {
    let mut rest = letters.clone();
    let mut class = String::from("[");
    if rest.next_if(|letter| matches!(letter, '!' | '^')).is_some() {
        class.push('^');
    }
    let mut is_first = true;
    loop {
        match rest.next()? {
            ']' if !is_first => break,
            '[' if rest.peek() == Some(&':') => {
                let name: String = rest.by_ref().take_while(|letter| *letter != ']').collect();
                class.extend(["[", &name, "]"]);
            }
            '-' => class.push('-'),
            letter => push_literal(&mut class, letter),
        }
        is_first = false;
    }
    *letters = rest;
    Some(class + "]")
}

fn push_literal(source: &mut String, letter: char) {
    let letter = unquote_letter(letter);
    if letter.is_ascii_punctuation() || letter == ' ' {
        source.push('\\');
    }
    source.push(letter);
}

#[cfg(test)]
mod tests {
    use super::{PatternCache, has_wildcard, quote, remove_backslashes, unquote};

    #[test]
    fn patterns_match_like_the_shell() {
        let mut patterns = PatternCache::default();
        let cases = [
            ("*.so", "a.so", Some(true)),
            ("*.so", "a.so.1", Some(false)),
            ("a\\*b", "a*b", Some(true)),
            ("a\\*b", "axb", Some(false)),
            ("[!a-c]x", "dx", Some(true)),
            ("[!a-c]x", "bx", Some(false)),
            ("[]x]", "]", Some(true)),
            ("[[:digit:]]?", "4é", Some(true)),
            ("*.@(tar|zip)", "a.zip", Some(true)),
            ("*.@(tar|zip)", "a.zi", Some(false)),
            ("a?(b|*(c))", "acc", Some(true)),
            ("+(a|b)", "", Some(false)),
            ("*(a\\|b)", "a|ba|b", Some(true)),
            ("(a)", "(a)", Some(true)),
            ("@(a", "@(a", None),
            ("!(a|b*)", "c", Some(true)),
            ("!(a|b*)", "bc", Some(false)),
            ("x!(@(a)b)*.so", "xabc.so", Some(true)),
            ("x!(é).so", "xé.so", Some(false)),
            ("!(a)!(b)", "c", None),
            ("[!(]a)", "xa)", None),
            ("[", "[", Some(true)),
            ("é*", "éa", Some(true)),
            ("*", "a\nb", Some(true)),
            (&"*a".repeat(40), &"a".repeat(39), Some(false)),
        ];
        for (pattern, text, matches) in cases {
            let marked = remove_backslashes(pattern);
            assert_eq!(patterns.matches(&marked, text), matches, "{pattern} {text}");
        }
    }

    #[test]
    fn quoted_text_matches_only_itself() {
        for text in ["a*b", "[x]", r"c\d", "{a,b}", "(x|y)"] {
            let pattern = quote(text);
            assert_eq!(unquote(&pattern), text);
            assert!(!has_wildcard(&pattern), "{pattern}");
            assert_eq!(PatternCache::default().matches(&pattern, text), Some(true), "{pattern}");
        }
        assert!(has_wildcard("a*") && has_wildcard("[ab]") && has_wildcard("@(a)") && !has_wildcard("[a"));
    }
}
