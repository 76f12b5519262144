//! The text of a Python module divided into code, texts in quotes and comments (The Python Language Reference, 2).

use std::cell::Cell;

/// What opens a library by its name: ctypes, and `dlopen` of cffi.
pub const OPENERS: [&str; 4] = ["CDLL(", "LoadLibrary(", "PyDLL(", "dlopen("];

/// A text in quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceString<'t> {
    /// What stands between the quotes, as it is written.
    pub text: &'t str,
    /// Where it begins in the module, with its prefix.
    pub start: usize,
    /// The line that it is part of, by its number among the statements.
    pub line: usize,
    /// Whether a statement begins with it.
    pub is_statement: bool,
    /// Whether nothing is to be filled in: not behind `f`.
    pub is_plain: bool,
}

/// The bytes of a text that is read; a longer one is taken to say nothing. The longest of a PyTorch 2.8 environment has
/// 1.2 MB.
const LONGEST: usize = 4 << 20;
/// The bytes of lines that are looked at for each byte of a text: a line may be asked for by each text in it.
const LOOKS: usize = 64;

/// A module in parts.
#[derive(Debug, Default)]
pub struct SourceWords<'t> {
    /// Its texts, in order.
    pub strings: Vec<SourceString<'t>>,
    /// The module with blanks in place of texts and comments, byte for byte.
    pub code: String,
    /// Where each line begins, those of one statement in brackets taken together.
    pub lines: Vec<usize>,
    /// Up to where nothing but blanks stands in the last line.
    blank_to: usize,
    /// The bytes of lines that may still be looked at.
    left: Cell<usize>,
}

/// Whether a text is longer than what is read.
fn is_too_long(text: &str) -> bool {
    text.len() > LONGEST
}

/// Reads a module; what follows a text without an end is part of it.
pub fn read_words(text: &str) -> SourceWords<'_> {
    let text = if is_too_long(text) { "" } else { text };
    let mut words = SourceWords {
        lines: vec![0],
        left: Cell::new((64 << 10) + LOOKS * text.len()),
        ..SourceWords::default()
    };
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(sign) = text.get(at..).and_then(|rest| rest.chars().next()) {
        let rest = text.get(at..).unwrap_or_default();
        let length = match sign {
            '#' => rest.find('\n').unwrap_or(rest.len()),
            '\'' | '"' => words.take_string(text, at, sign),
            '\\' if rest.starts_with("\\\n") => 2,
            _ => sign.len_utf8(),
        };
        match sign {
            '#' | '\'' | '"' => words.code.extend(std::iter::repeat_n(' ', length)),
            _ => words.code.push_str(text.get(at..at + length).unwrap_or_default()),
        }
        at += length;
        match sign {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            '\n' if depth == 0 => {
                words.lines.push(at);
                words.blank_to = at;
            }
            _ => {}
        }
    }
    words
}

impl<'t> SourceWords<'t> {
    /// Takes the text whose quotes begin at a place: the bytes that it has with its quotes.
    fn take_string(&mut self, text: &'t str, at: usize, quote: char) -> usize {
        let rest = text.get(at..).unwrap_or_default();
        let triple = quote.to_string().repeat(3);
        let quotes = if rest.starts_with(&triple) { triple.len() } else { 1 };
        let end = rest.get(..quotes).unwrap_or_default();
        let mut inside = quotes;
        // Behind a `\` no quote ends a text, in raw ones neither.
        while let Some(tail) = rest.get(inside..).filter(|tail| !tail.is_empty()) {
            if tail.starts_with(end) || quotes == 1 && tail.starts_with('\n') {
                break;
            }
            let mut signs = tail.chars();
            let is_escape = signs.next() == Some('\\');
            inside += tail
                .chars()
                .take(1 + usize::from(is_escape))
                .map(char::len_utf8)
                .sum::<usize>();
        }
        let content = rest.get(quotes..inside).unwrap_or_default();
        let before = self.code.trim_end_matches(|sign: char| "rRbBuUfFtT".contains(sign));
        let prefix = self.code.get(before.len()..).unwrap_or_default();
        let line = self.lines.len() - 1;
        let head = self.code.get(self.blank_to..before.len()).unwrap_or_default();
        let after_blanks = head.find(|sign: char| !sign.is_whitespace());
        self.blank_to += after_blanks.unwrap_or(head.len());
        self.strings.push(SourceString {
            text: content,
            start: before.len(),
            line,
            is_statement: after_blanks.is_none(),
            is_plain: !prefix.contains(['f', 'F', 't', 'T']),
        });
        rest.len().min(inside + quotes)
    }

    /// Takes bytes from what may be looked at; whether they were there to take.
    fn spend(&self, bytes: usize) -> bool {
        let left = self.left.get().checked_sub(bytes);
        self.left.set(left.unwrap_or_default());
        left.is_some()
    }

    /// Whether no line is shown any more, as they were looked at too often.
    fn is_spent(&self) -> bool {
        self.left.get() == 0
    }

    /// The numbers of the lines from one on, as far as they are shown.
    pub fn numbers_from(&self, number: usize) -> impl Iterator<Item = usize> {
        (number..self.lines.len()).take_while(|_| !self.is_spent())
    }

    /// A line without its comments and texts, or as it stands in `text`.
    pub fn line<'s>(&self, text: &'s str, number: usize) -> &'s str {
        let from = self.lines.get(number).copied().unwrap_or_default();
        let to = self.lines.get(number + 1).copied().unwrap_or(text.len());
        let line = text.get(from..to).filter(|line| self.spend(line.len() + 1));
        line.unwrap_or_default().trim_end()
    }

    /// The lines above one that it stands in, from the inside outwards: each is less indented than the one before.
    pub fn heads(&self, number: usize) -> impl Iterator<Item = usize> {
        let indent_of = |number: usize| {
            let line = self.line(&self.code, number);
            (!line.trim_start().is_empty()).then(|| line.len() - line.trim_start().len())
        };
        let mut indent = indent_of(number).unwrap_or_default();
        let above = (0..number).rev().take_while(|_| !self.is_spent());
        let mut outer = above.filter_map(move |number| Some((number, indent_of(number)?)));
        std::iter::from_fn(move || {
            // Nothing stands around what is not indented.
            let (number, less) = (indent > 0).then(|| outer.find(|(_, less)| *less < indent))??;
            indent = less;
            Some(number)
        })
    }
}
