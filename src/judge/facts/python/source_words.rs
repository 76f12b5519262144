//! The text of a Python module divided into code, texts in quotes and comments (The Python Language Reference, 2).

/// A text in quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceString<'t> {
    pub text: &'t str,
    /// Where it begins in the module, with its prefix.
    pub start: usize,
    /// The line that it is part of, by its number among the statements.
    pub line: usize,
    /// Whether a statement begins with it.
    pub is_statement: bool,
    /// Whether nothing is to be filled in: not behind `f`.
    pub is_plain: bool,
    /// Whether its quotes are closed.
    pub is_closed: bool,
}

/// A module in parts.
#[derive(Debug, Default)]
pub(super) struct SourceWords<'t> {
    pub strings: Vec<SourceString<'t>>,
    /// The module with blanks in place of texts and comments, byte for byte.
    pub code: String,
    /// Where each line begins, those of one statement in brackets taken together.
    pub lines: Vec<usize>,
}

/// Reads a module; what follows a text without an end is part of it.
pub(super) fn read_words(text: &str) -> SourceWords<'_> {
    let mut words = SourceWords {
        lines: vec![0],
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
            '\n' if depth == 0 => words.lines.push(at),
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
        let begin = self.lines.last().copied().unwrap_or_default();
        self.strings.push(SourceString {
            text: content,
            start: before.len(),
            line,
            is_statement: self
                .code
                .get(begin..before.len())
                .is_some_and(|head| head.trim().is_empty()),
            is_plain: !prefix.contains(['f', 'F', 't', 'T']),
            is_closed: rest.get(inside..).is_some_and(|tail| tail.starts_with(end)),
        });
        rest.len().min(inside + quotes)
    }

    /// A line without its comments and texts, or as it stands in `text`.
    pub fn line<'s>(&self, text: &'s str, number: usize) -> &'s str {
        let from = self.lines.get(number).copied().unwrap_or_default();
        let to = self.lines.get(number + 1).copied().unwrap_or(text.len());
        text.get(from..to).unwrap_or_default().trim_end()
    }

    /// The lines above one that it stands in, from the inside outwards: each is less indented than the one before.
    pub fn heads(&self, number: usize) -> impl Iterator<Item = usize> {
        let indent_of = |number: usize| {
            let line = self.line(&self.code, number);
            (!line.trim_start().is_empty()).then(|| line.len() - line.trim_start().len())
        };
        let mut indent = indent_of(number).unwrap_or_default();
        (0..number).rev().filter(move |number| {
            let is_outer = indent_of(*number).is_some_and(|outer| outer < indent);
            if is_outer {
                indent = indent_of(*number).unwrap_or_default();
            }
            is_outer
        })
    }
}
