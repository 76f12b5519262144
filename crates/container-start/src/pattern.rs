//! Shell patterns (POSIX shell, 2.13), matched without backtracking.
//!
//! A backslash in a pattern makes the next character literal. [`escape_pattern`] adds such backslashes to quoted text.

use std::collections::HashMap;
use std::rc::Rc;

use regex_automata::meta::Regex;

use crate::value::is_open;

/// The maximum bytes of a pattern that is compiled.
const PATTERN_BYTES: usize = 4096;

/// A pattern that matches exactly this text.
pub(crate) fn escape_pattern(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if r"\*?[]{},()|!@+^".contains(letter) {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

/// Removes the backslashes of a pattern; wildcards become plain characters.
pub(crate) fn unescape_pattern(pattern: &str) -> String {
    let mut text = String::with_capacity(pattern.len());
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        text.push(if letter == '\\' {
            letters.next().unwrap_or('\\')
        } else {
            letter
        });
    }
    text
}

/// Whether a pattern has a wildcard.
pub(crate) fn has_wildcard(pattern: &str) -> bool {
    let mut letters = pattern.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            '*' | '?' => return true,
            '[' if letters.clone().any(|letter| letter == ']') => return true,
            '@' | '+' | '!' if letters.peek() == Some(&'(') => return true,
            _ => {}
        }
    }
    false
}

/// Compiled patterns, keyed by text and by whether they are anchored at the start and at the end.
#[derive(Default)]
pub(crate) struct PatternCache {
    compiled: HashMap<(String, [bool; 2]), Option<Rc<Regex>>>,
}

impl PatternCache {
    /// Whether the whole text matches; `None` for an unsupported pattern.
    pub(crate) fn matches(&mut self, pattern: &str, text: &str) -> Option<bool> {
        self.compile(pattern, [true, true]).map(|regex| regex.is_match(text))
    }

    /// Compiles a pattern to a greedy regex.
    pub(crate) fn compile(&mut self, pattern: &str, [at_begin, at_end]: [bool; 2]) -> Option<Rc<Regex>> {
        let key = (pattern.to_owned(), [at_begin, at_end]);
        let compile = || {
            let source = Some(pattern).filter(|pattern| pattern.len() <= PATTERN_BYTES && !is_open(pattern))?;
            let source = regex_source(source)?;
            let (begin, end) = (if at_begin { r"\A" } else { "" }, if at_end { r"\z" } else { "" });
            Regex::new(&format!("(?s){begin}(?:{source}){end}")).ok().map(Rc::new)
        };
        self.compiled.entry(key).or_insert_with(compile).clone()
    }
}

type Letters<'p> = std::iter::Peekable<std::str::Chars<'p>>;

/// Translates a pattern to a regular expression; `None` for bash's extended patterns.
fn regex_source(pattern: &str) -> Option<String> {
    let mut source = String::new();
    let mut letters = pattern.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => push_literal(&mut source, letters.next().unwrap_or('\\')),
            '@' | '+' | '?' | '*' | '!' if letters.peek() == Some(&'(') => return None,
            '*' => source.push_str(".*"),
            '?' => source.push('.'),
            '[' => match class_source(&mut letters) {
                Some(class) => source += &class,
                None => push_literal(&mut source, '['),
            },
            letter => push_literal(&mut source, letter),
        }
    }
    Some(source)
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
        let letter = rest.next()?;
        match letter {
            ']' if !is_first => break,
            '[' if rest.peek() == Some(&':') => {
                let name: String = rest.by_ref().take_while(|letter| *letter != ']').collect();
                class.extend(["[", &name, "]"]);
            }
            '-' => class.push('-'),
            '\\' => push_literal(&mut class, rest.next()?),
            letter => push_literal(&mut class, letter),
        }
        is_first = false;
    }
    *letters = rest;
    Some(class + "]")
}

fn push_literal(source: &mut String, letter: char) {
    if letter.is_ascii_punctuation() || letter == ' ' {
        source.push('\\');
    }
    source.push(letter);
}

#[cfg(test)]
mod tests {
    use super::{PatternCache, escape_pattern, has_wildcard, unescape_pattern};

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
            ("@(tar|zip)", "zip", None),
            ("!(a)", "b", None),
            ("[", "[", Some(true)),
            ("é*", "éa", Some(true)),
            ("*", "a\nb", Some(true)),
            (&"*a".repeat(40), &"a".repeat(39), Some(false)),
        ];
        for (pattern, text, matches) in cases {
            assert_eq!(patterns.matches(pattern, text), matches, "{pattern} {text}");
        }
    }

    #[test]
    fn quoted_text_matches_only_itself() {
        for text in ["a*b", "[x]", r"c\d", "{a,b}", "(x|y)"] {
            let pattern = escape_pattern(text);
            assert_eq!(unescape_pattern(&pattern), text);
            assert!(!has_wildcard(&pattern), "{pattern}");
            assert_eq!(PatternCache::default().matches(&pattern, text), Some(true), "{pattern}");
        }
        assert!(has_wildcard("a*") && has_wildcard("[ab]") && has_wildcard("@(a)") && !has_wildcard("[a"));
    }
}
