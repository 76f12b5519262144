//! The names that the lines of a module set.

use std::collections::BTreeSet;

use super::source_words::SourceWords;

/// What begins a line that sets names beside an assignment.
const BINDERS: [&str; 9] = [
    "for ",
    "global ",
    "nonlocal ",
    "import ",
    "from ",
    "def ",
    "class ",
    "with ",
    "del ",
];

/// The names that more than one line of a module may set.
pub(super) fn rebound_names(words: &SourceWords<'_>) -> BTreeSet<String> {
    let (mut set, mut again) = (BTreeSet::new(), BTreeSet::new());
    for number in 0..words.lines.len() {
        let line = words.line(&words.code, number).trim_start();
        let is_binder = BINDERS.iter().any(|word| line.starts_with(word)) || line.contains(":=");
        let end = if is_binder { line.len() } else { assignment_in(line) };
        let names: BTreeSet<&str> = names_in(line.get(..end).unwrap_or_default()).collect();
        again.extend(
            names
                .iter()
                .filter(|name| set.contains(**name))
                .map(|name| (*name).to_owned()),
        );
        set.extend(names);
    }
    again
}

/// Where the sign of an assignment stands in a line; at its begin where there is none.
fn assignment_in(line: &str) -> usize {
    let mut depth = 0_usize;
    let mut before = ' ';
    for (at, sign) in line.char_indices() {
        match sign {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            '=' if depth == 0
                && !"=!<>".contains(before)
                && !line.get(at + 1..).is_some_and(|it| it.starts_with('=')) =>
            {
                return at;
            }
            _ => {}
        }
        before = sign;
    }
    0
}

/// The words of code that are names.
pub(super) fn names_in(code: &str) -> impl Iterator<Item = &str> {
    code.split(|sign: char| !(sign == '_' || sign.is_alphanumeric()))
        .filter(|name| !name.is_empty())
}
