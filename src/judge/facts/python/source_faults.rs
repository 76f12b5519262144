//! What keeps Python from compiling a text, as far as its lines and brackets alone show it (The Python Language Reference,
//! 2.1 and 8): such a module runs nothing, whatever stands in front of the fault.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::source_words::{SourceString, SourceWords, read_words};

/// The words with which a line begins that has a colon, and a block behind it.
const HEADS: [&str; 12] = [
    "if", "elif", "else", "for", "while", "def", "class", "try", "except", "finally", "with", "async",
];
/// Statements of Python 2 that are names now.
const STATEMENTS: [&str; 2] = ["print", "exec"];

/// Why Python 3 does not compile a text, of this minor version where it is known, in its words; nothing where that is not
/// certain.
pub(in crate::judge::facts) fn source_fault(text: &str, minor: Option<i64>) -> Option<String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let words = read_words(text);
    // From 3.12 on, quotes may stand in the braces of a text with `f`, which are counted as its end here; a form feed in
    // front of a line begins its indentation anew.
    let is_older = |since: i64| minor.is_some_and(|minor| minor < since);
    let is_whole = |braces: &str| braces.matches('{').count() == braces.matches('}').count();
    let mut filled = words.strings.iter().filter(|string| !string.is_plain);
    let is_new = |string: &&SourceString<'_>| {
        let prefix = text.get(string.start..).and_then(|rest| rest.split(['"', '\'']).next());
        // What is doubled stands for itself.
        let is_doubled = string.text.contains("{{") || string.text.contains("}}");
        let of_template = prefix.is_some_and(|prefix| prefix.contains(['t', 'T']));
        of_template && is_older(14) || is_older(12) && !is_doubled && !is_whole(string.text)
    };
    if let Some(new) = filled.find(is_new) {
        return Some(fault(text, new.start, "invalid syntax"));
    }
    let is_nested = words
        .strings
        .iter()
        .any(|string| !string.is_plain && !is_whole(string.text));
    if is_nested || text.contains(['\u{c}', '\0', '\r']) {
        return None;
    }
    if let Some(open) = words.strings.iter().find(|string| !string.is_closed) {
        return Some(fault(text, open.start, "unterminated string literal"));
    }
    bracket_fault(text, &words.code).or_else(|| line_fault(text, &words, &is_older))
}

fn fault(text: &str, at: usize, why: &str) -> String {
    let before = text.get(..at).unwrap_or_default();
    format!("SyntaxError: {why} (line {})", before.matches('\n').count() + 1)
}

/// A bracket that nothing closes, or that closes nothing.
fn bracket_fault(text: &str, code: &str) -> Option<String> {
    let mut open: Vec<(usize, char)> = Vec::new();
    for (at, sign) in code.char_indices() {
        let opens = match sign {
            '(' | '[' | '{' => {
                open.push((at, sign));
                continue;
            }
            ')' => '(',
            ']' => '[',
            '}' => '{',
            _ => continue,
        };
        if open.pop().is_none_or(|(_, before)| before != opens) {
            return Some(fault(text, at, &format!("unmatched '{sign}'")));
        }
    }
    let (at, sign) = open.pop()?;
    Some(fault(text, at, &format!("'{sign}' was never closed")))
}

/// A line that lacks its colon or its block, or is indented as no line before it.
fn line_fault(text: &str, words: &SourceWords<'_>, is_older: &dyn Fn(i64) -> bool) -> Option<String> {
    let mut indents = vec![(0, 0)];
    let mut is_block = false;
    let texts = words.strings.iter().map(|string| (string.line, string.start));
    let last_texts: BTreeMap<usize, usize> = texts.collect();
    for number in 0..words.lines.len() {
        let start = words.lines.get(number).copied().unwrap_or_default();
        let (line, code) = (words.line(text, number), words.line(&words.code, number));
        let last_text = last_texts.get(&number).copied();
        if code.trim().is_empty() && last_text.is_none() {
            continue;
        }
        let at = |why: &str| Some(fault(text, start, why));
        let indent = indent_of(line);
        let last = indents.last().copied().unwrap_or_default();
        match (compare(indent, last), is_block) {
            (None, _) => return at("inconsistent use of tabs and spaces in indentation"),
            (Some(Ordering::Greater), true) => indents.push(indent),
            (Some(_), true) => return at("expected an indented block"),
            (Some(Ordering::Greater), false) => return at("unexpected indent"),
            (Some(Ordering::Equal), false) => {}
            (Some(Ordering::Less), false) => {
                indents.retain(|before| before.0 <= indent.0);
                if indents.last() != Some(&indent) {
                    return at("unindent does not match any outer indentation level");
                }
            }
        }
        // What begins with a text has blanks in its place.
        let lead = line.len() - line.trim_start().len();
        let own = code.get(lead..).unwrap_or_default();
        let first = own.split(|sign: char| !(sign == '_' || sign.is_alphanumeric())).next();
        let first = first.unwrap_or_default();
        if HEADS.contains(&first) && !has_colon(own) {
            return at("expected ':'");
        }
        if brought_by(first, own).is_some_and(is_older) {
            return at("invalid syntax");
        }
        let end = start + code.len();
        is_block = own.ends_with(':') && last_text.is_none_or(|text| text < end);
        let rest = line.trim_start().strip_prefix(first).unwrap_or_default();
        if STATEMENTS.contains(&first) && rest.trim_start() != rest && rest.trim_start().starts_with(['"', '\'']) {
            return at(&format!("missing parentheses in call to '{first}'"));
        }
    }
    is_block.then(|| fault(text, text.len(), "expected an indented block"))
}

/// The minor version that brought what a line begins with (The Python Language Reference, 7 and 8).
fn brought_by(first: &str, line: &str) -> Option<i64> {
    let rest = line.strip_prefix(first).unwrap_or_default().trim_start();
    let after = rest.trim_start_matches(|sign: char| sign == '_' || sign.is_alphanumeric());
    let is_named = after.len() < rest.len();
    let after = after.trim_start();
    match first {
        "type" if is_named && (after.starts_with('[') || after.starts_with('=') && !after.starts_with("==")) => {
            Some(12)
        }
        "def" | "class" if is_named && after.starts_with('[') => Some(12),
        "except" if rest.starts_with('*') => Some(11),
        "except" if is_named && after.starts_with(',') => Some(14),
        "match" if line.ends_with(':') && (is_named || rest.starts_with(['(', '['])) => Some(10),
        _ => None,
    }
}

/// Whether a colon stands outside of all brackets.
fn has_colon(code: &str) -> bool {
    let mut depth = 0_usize;
    code.chars().any(|sign| {
        match sign {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        sign == ':' && depth == 0
    })
}

/// The columns of a line's first sign, with tabs to each eighth column, and with tabs as one (Parser/lexer, `tok_get_normal_mode`).
fn indent_of(line: &str) -> (usize, usize) {
    let blanks = line.chars().take_while(|sign| matches!(sign, ' ' | '\t'));
    blanks.fold((0, 0), |(column, alternative), sign| match sign {
        '\t' => ((column / 8 + 1) * 8, alternative + 1),
        _ => (column + 1, alternative + 1),
    })
}

/// How two indentations compare; nothing where it depends on the width of a tab.
fn compare(one: (usize, usize), other: (usize, usize)) -> Option<Ordering> {
    let ordering = one.0.cmp(&other.0);
    (one.1.cmp(&other.1) == ordering).then_some(ordering)
}
