//! Splits the source of a Python module into code, string literals and comments (The Python Language Reference, 2).

use std::cell::Cell;

/// The calls that open a library by name: ctypes, and `dlopen` of cffi.
pub const OPENERS: [&str; 4] = ["CDLL(", "LoadLibrary(", "PyDLL(", "dlopen("];

/// A string literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceString<'t> {
    /// The text between the quotes, unchanged.
    pub text: &'t str,
    /// Its offset in the module, including the prefix.
    pub start: usize,
    /// The number of its logical line.
    pub line: usize,
    /// Whether a statement starts with it.
    pub is_statement: bool,
    /// Whether it has no placeholders: no `f` prefix.
    pub is_plain: bool,
}

/// The maximum size of a module in bytes; a longer one counts as empty. The longest in a PyTorch 2.8 environment has
/// 1.2 MB.
const LONGEST: usize = 4 << 20;
/// The budget for rereading lines, per byte of source: each literal in a line may request the line.
const LOOKS: usize = 64;

/// A module split into parts.
#[derive(Debug, Default)]
pub struct SourceWords<'t> {
    /// The string literals, in order.
    pub strings: Vec<SourceString<'t>>,
    /// The source with literals and comments replaced by spaces, byte for byte.
    pub code: String,
    /// The start of each logical line; brackets join lines.
    pub lines: Vec<usize>,
    /// The end of the leading whitespace of the last line.
    blank_to: usize,
    /// The remaining budget for rereading lines, in bytes.
    left: Cell<usize>,
}

/// Whether a module exceeds the size limit.
fn is_too_long(text: &str) -> bool {
    text.len() > LONGEST
}

/// Whether a byte of code starts or ends something that the split must see.
fn is_sign(byte: u8) -> bool {
    matches!(
        byte,
        b'#' | b'\'' | b'"' | b'(' | b'[' | b'{' | b')' | b']' | b'}' | b'\n'
    )
}

/// Splits a module. An unterminated literal includes everything after it.
pub fn read_words(text: &str) -> SourceWords<'_> {
    let text = if is_too_long(text) { "" } else { text };
    let mut words = SourceWords {
        lines: vec![0],
        left: Cell::new((64 << 10) + LOOKS * text.len()),
        ..SourceWords::default()
    };
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let plain = rest.bytes().position(is_sign).unwrap_or(rest.len());
        let sign = rest.as_bytes().get(plain).copied().unwrap_or_default();
        // With the sign itself, unless a literal or a comment starts with it.
        let is_hidden = matches!(sign, b'#' | b'\'' | b'"');
        let code = rest.get(..plain + usize::from(!is_hidden)).unwrap_or(rest);
        words.code.push_str(code);
        at += code.len();
        let rest = text.get(at..).unwrap_or_default();
        let hidden = match sign {
            b'#' => rest.find('\n').unwrap_or(rest.len()),
            b'\'' | b'"' => words.take_string(text, at, sign),
            _ => 0,
        };
        words.code.extend(std::iter::repeat_n(' ', hidden));
        at += hidden;
        match sign {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            // A `\` joins two lines.
            b'\n' if depth == 0 && !code.ends_with("\\\n") => {
                words.lines.push(at);
                words.blank_to = at;
            }
            _ => {}
        }
    }
    words
}

impl<'t> SourceWords<'t> {
    /// Adds the string literal at `at`, and returns its length with quotes.
    fn take_string(&mut self, text: &'t str, at: usize, quote: u8) -> usize {
        let rest = text.get(at..).unwrap_or_default();
        let is_triple = rest.as_bytes().starts_with(&[quote; 3]);
        let quotes = if is_triple { 3 } else { 1 };
        let end = rest.get(..quotes).unwrap_or_default();
        let mut inside = quotes;
        while let Some(tail) = rest.get(inside..) {
            let mut signs = tail.bytes();
            let stop = signs.position(|sign| sign == quote || sign == b'\\' || sign == b'\n' && !is_triple);
            let (text, stopped) = tail.split_at(stop.unwrap_or(tail.len()));
            inside += text.len();
            // A quote after `\` never ends a literal, not even a raw one.
            inside += match stopped.strip_prefix('\\') {
                Some(escaped) => 1 + escaped.chars().next().map_or(0, char::len_utf8),
                None if is_triple && !stopped.is_empty() && !stopped.starts_with(end) => 1,
                None => break,
            };
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

    /// Spends bytes of the budget; false if it is exhausted.
    fn spend(&self, bytes: usize) -> bool {
        let left = self.left.get().checked_sub(bytes);
        self.left.set(left.unwrap_or_default());
        left.is_some()
    }

    /// Whether the budget is exhausted, so that no more lines are returned.
    fn is_spent(&self) -> bool {
        self.left.get() == 0
    }

    /// The line numbers from `number` on, while the budget lasts.
    pub fn numbers_from(&self, number: usize) -> impl Iterator<Item = usize> {
        (number..self.lines.len()).take_while(|_| !self.is_spent())
    }

    /// A line of `text`: either the source, or the code without comments and literals.
    pub fn line<'s>(&self, text: &'s str, number: usize) -> &'s str {
        let from = self.lines.get(number).copied().unwrap_or_default();
        let to = self.lines.get(number + 1).copied().unwrap_or(text.len());
        let line = text.get(from..to).filter(|line| self.spend(line.len() + 1));
        line.unwrap_or_default().trim_end()
    }

    /// The lines that enclose a line, innermost first: each is less indented than the one before.
    pub fn heads(&self, number: usize) -> impl Iterator<Item = usize> {
        let indent_of = |number: usize| {
            let line = self.line(&self.code, number);
            (!line.trim_start().is_empty()).then(|| line.len() - line.trim_start().len())
        };
        let mut indent = indent_of(number).unwrap_or_default();
        let above = (0..number).rev().take_while(|_| !self.is_spent());
        let mut outer = above.filter_map(move |number| Some((number, indent_of(number)?)));
        std::iter::from_fn(move || {
            // An unindented line has no enclosing line.
            let (number, less) = (indent > 0).then(|| outer.find(|(_, less)| *less < indent))??;
            indent = less;
            Some(number)
        })
    }
}
