//! Shell patterns (POSIX shell, 2.13), matched without backtracking.
//!
//! In a pattern a backslash takes the meaning from what follows; quoted text is put into one by [`escape_pattern`].

use std::collections::HashMap;
use std::rc::Rc;

use regex_automata::meta::Regex;

/// The bytes of a pattern that is compiled.
const PATTERN_BYTES: usize = 4096;

/// Text as a pattern that matches it alone.
pub(crate) fn escape_pattern(text: &str) -> String {
    escape(text, r"\*?[]{},()|!@+^")
}

/// What an unquoted expansion gives: its wildcards count, its braces do not.
pub(crate) fn escape_braces(text: &str) -> String {
    escape(text, r"\{},")
}

fn escape(text: &str, special: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if special.contains(letter) {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

/// The text that a pattern stands for where its wildcards are letters.
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

/// Compiled patterns by their text.
#[derive(Default)]
pub(crate) struct PatternCache {
    compiled: HashMap<String, Option<Rc<Regex>>>,
}

impl PatternCache {
    /// Whether the whole text matches; `None` for a pattern that is not understood.
    pub(crate) fn matches(&mut self, pattern: &str, text: &str) -> Option<bool> {
        self.compile(pattern).map(|regex| regex.is_match(text))
    }

    /// The compiled pattern, anchored at both ends.
    pub(crate) fn compile(&mut self, pattern: &str) -> Option<Rc<Regex>> {
        if let Some(known) = self.compiled.get(pattern) {
            return known.clone();
        }
        let source = Some(pattern).filter(|pattern| pattern.len() <= PATTERN_BYTES);
        let source = source.and_then(|pattern| regex_source(&mut pattern.chars().peekable(), None));
        let regex = source.and_then(|source| Regex::new(&format!(r"(?s)\A(?:{source})\z")).ok().map(Rc::new));
        self.compiled.insert(pattern.to_owned(), regex.clone());
        regex
    }
}

type Letters<'p> = std::iter::Peekable<std::str::Chars<'p>>;

/// The regular expression of a pattern, or of one alternative in a group, which ends before `|` or `)`.
fn regex_source(letters: &mut Letters<'_>, group: Option<()>) -> Option<String> {
    let mut source = String::new();
    while let Some(letter) = letters.peek().copied() {
        if group.is_some() && matches!(letter, '|' | ')') {
            break;
        }
        letters.next();
        match letter {
            '\\' => push_literal(&mut source, letters.next().unwrap_or('\\')),
            '@' | '+' | '?' | '*' if letters.peek() == Some(&'(') => source += &group_source(letters, letter)?,
            '!' if letters.peek() == Some(&'(') => return None,
            '*' => source.push_str(".*"),
            '?' => source.push('.'),
            '[' => match class_source(letters) {
                Some(class) => source += &class,
                None => push_literal(&mut source, '['),
            },
            letter => push_literal(&mut source, letter),
        }
    }
    Some(source)
}

fn group_source(letters: &mut Letters<'_>, sign: char) -> Option<String> {
    letters.next();
    let mut alternatives = Vec::new();
    loop {
        alternatives.push(regex_source(letters, Some(()))?);
        if letters.next()? == ')' {
            break;
        }
    }
    let sign = if sign == '@' { String::new() } else { sign.to_string() };
    Some(format!("(?:{}){sign}", alternatives.join("|")))
}

/// A bracket expression after its `[`; `None`, and nothing taken, where no `]` ends it.
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
                class += &format!("[{name}]");
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
    fn patterns_match_as_the_shell_has_them() {
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
            ("@(tar|zip)", "zip", Some(true)),
            ("+(ab)", "abab", Some(true)),
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
    fn quoted_text_matches_itself_alone() {
        for text in ["a*b", "[x]", r"c\d", "{a,b}", "(x|y)"] {
            let pattern = escape_pattern(text);
            assert_eq!(unescape_pattern(&pattern), text);
            assert!(!has_wildcard(&pattern), "{pattern}");
            assert_eq!(PatternCache::default().matches(&pattern, text), Some(true), "{pattern}");
        }
        assert!(has_wildcard("a*") && has_wildcard("[ab]") && has_wildcard("@(a)") && !has_wildcard("[a"));
    }
}
