//! `env [OPTION]… [NAME=VALUE]… [COMMAND]` (coreutils, src/env.c).

use super::{CommandFollower, known};
use crate::judge::facts::entry_problem::EntryProblem;
use crate::judge::facts::shell_script::VariableValue;
use image_linkage::escape;
use image_linkage::rootfs::LookupError;

/// The options that take a value, and the long names of all that change something.
const LONG: [(&str, char); 6] = [
    ("ignore-environment", 'i'),
    ("null", '0'),
    ("unset", 'u'),
    ("chdir", 'C'),
    ("split-string", 'S'),
    ("argv0", 'a'),
];

impl CommandFollower<'_> {
    pub(super) fn env(&mut self) -> bool {
        let mut words = self.words.get(1..).unwrap_or_default().to_vec();
        words.reverse();
        let mut is_listed = false;
        while let Some(word) = words.pop_if(|word| word.as_deref().is_none_or(|word| word.starts_with('-'))) {
            let Some(word) = word else { return self.lose() };
            if word == "--" {
                break;
            }
            for (letter, value) in options(&word) {
                let takes = "uCSa".contains(letter);
                let value = match value {
                    None if takes => words.pop().flatten(),
                    value => value,
                };
                match (letter, value) {
                    ('i', _) => self.variables.clear(),
                    ('0', _) => is_listed = true,
                    ('u', Some(name)) => drop(self.variables.remove(&name)),
                    ('C', to) => {
                        self.directory = to.and_then(|to| self.absolute(&to));
                        self.miss_directory();
                    }
                    ('S', Some(text)) => match self.split_string(&text) {
                        Some(split) => words.extend(split.into_iter().rev().map(Some)),
                        None => return self.lose(),
                    },
                    ('u' | 'S', None) => return self.lose(),
                    _ => {}
                }
            }
        }
        while let Some(Some(pair)) = words.pop_if(|word| word.as_deref().is_some_and(|word| word.contains('='))) {
            let (name, value) = pair.split_once('=').unwrap_or((&pair, ""));
            self.variables.insert(name.to_owned(), known(value));
        }
        words.reverse();
        self.words = words;
        if is_listed && !self.words.is_empty() {
            self.problem = Some(EntryProblem::NotStarted("env takes no command with -0".to_owned()));
            self.words.clear();
        }
        !self.words.is_empty()
    }

    /// `env -C` ends at a directory that is not there; it may be mounted.
    fn miss_directory(&mut self) {
        let lost = self
            .directory
            .as_ref()
            .filter(|to| self.is_direct && self.rootfs.lookup(to.as_bytes()) == Err(LookupError::NotFound));
        let said = lost.map(|to| {
            format!(
                "env: cannot change directory to {}",
                escape::escape_bytes(to.as_bytes())
            )
        });
        self.absent = self.absent.take().or(said);
    }

    /// The words of `-S`: blanks part them, quotes keep them together, and `${NAME}` stands for a variable.
    fn split_string(&self, text: &str) -> Option<Vec<String>> {
        let mut words = Vec::new();
        let mut word: Option<String> = None;
        let mut quote = None;
        let mut signs = text.chars();
        while let Some(sign) = signs.next() {
            match (sign, quote) {
                (sign, Some(open)) if sign == open => quote = None,
                ('\'' | '"', None) => {
                    quote = Some(sign);
                    word.get_or_insert_default();
                }
                ('\\', quote) => match (signs.next()?, quote) {
                    ('_', Some(_)) => word.get_or_insert_default().push(' '),
                    ('_', None) => words.extend(word.take()),
                    (other @ ('\\' | '"' | '\'' | '$' | '#'), _) => word.get_or_insert_default().push(other),
                    _ => return None,
                },
                ('$', quote) if quote != Some('\'') => {
                    let name: String = signs.by_ref().take_while(|sign| *sign != '}').collect();
                    match self.variables.get(name.strip_prefix('{')?) {
                        Some(VariableValue::Text(value)) => word.get_or_insert_default().push_str(value),
                        Some(VariableValue::Unknown) => return None,
                        Some(VariableValue::Unset) | None => {}
                    }
                }
                ('#', None) if word.is_none() => break,
                (blank, None) if blank.is_ascii_whitespace() => words.extend(word.take()),
                (sign, _) => word.get_or_insert_default().push(sign),
            }
        }
        words.extend(word);
        quote.is_none().then_some(words)
    }
}

/// The options in one word, each by its letter, and with its value where that stands in the same word.
fn options(word: &str) -> Vec<(char, Option<String>)> {
    if word == "-" {
        return vec![('i', None)];
    }
    if let Some(long) = word.strip_prefix("--") {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (long, None),
        };
        // A long name may be cut short (getopt_long(3)).
        let known = LONG.iter().find(|(long, _)| long.starts_with(name));
        return known.map(|(_, letter)| (*letter, value)).into_iter().collect();
    }
    let mut found = Vec::new();
    for (at, letter) in word.char_indices().skip(1) {
        if "uCSa".contains(letter) {
            let rest = word.get(at + 1..).filter(|rest| !rest.is_empty());
            found.push((letter, rest.map(str::to_owned)));
            break;
        }
        found.push((letter, None));
    }
    found
}
