//! What the reports for people are set with: styles, tables, paragraphs, numbers in words.
//!
//! Styles are written as terminal sequences; who prints the text strips them where they do not belong.

use std::borrow::Borrow;
use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use image_linkage::loader::TraceLine;

/// How the report of an audit is laid out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextLayout {
    /// The width of the terminal in columns; paragraphs are broken at it, tables never.
    pub width: usize,
    /// How much of what is known is shown.
    pub detail: TextDetail,
}

/// How much a report in text holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TextDetail {
    /// Nothing, for who looks at the exit code alone.
    Nothing,
    /// The verdict, and what is wrong.
    Findings,
    /// What is there besides: copies, programs, phases.
    Inventory,
    /// Notes in full, the layers, the loader and every search.
    All,
}

pub(super) const BOLD: Style = Style::new().bold();
pub(super) const DIM: Style = Style::new().dimmed();
pub(super) const GOOD: Style = AnsiColor::Green.on_default().bold();
pub(super) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(super) const DOUBTFUL: Style = AnsiColor::Yellow.on_default().bold();
pub(super) const REMARK: Style = AnsiColor::Cyan.on_default().bold();

pub(super) fn styled(style: Style, text: impl AsRef<str>) -> String {
    format!("{style}{}{style:#}", text.as_ref())
}

/// The steps of a search in aligned columns. The path comes last: it is the longest, and no column waits for it.
pub(super) fn search_table<L: Borrow<TraceLine>>(lines: &[L], indent: &str) -> String {
    let lines = || lines.iter().map(Borrow::borrow);
    let width = |column: fn(&TraceLine) -> &str| {
        let widths = lines().map(|line| column(line).chars().count());
        widths.max().unwrap_or(0)
    };
    let part = width(|line| &line.part);
    // The longest result is a sentence of the loader: where one stands, the paths of the others stay in reach.
    let result = width(|line| &line.result).min(48);
    let mut out = String::new();
    for line in lines() {
        let row = format!("{indent}{:part$}  {:result$}  {}", line.part, line.result, line.path);
        let _ = writeln!(out, "{}", styled(DIM, row.trim_end()));
    }
    out
}

/// A paragraph whose first line begins with `label` and whose others are indented as far.
pub(super) fn wrap_paragraph(label: &str, text: &str, width: usize) -> String {
    wrap(label, text, &" ".repeat(label.chars().count()), width)
}

/// A line, styled or not, that goes on below with an indent of four where it is wider than the terminal.
pub(super) fn wrap_line(line: &str, width: usize) -> String {
    wrap("", line, "    ", width)
}

/// Each line of a text likewise.
pub(crate) fn wrap_lines(text: &str, width: usize) -> String {
    text.lines().map(|line| wrap_line(line, width)).collect()
}

fn wrap(label: &str, text: &str, indent: &str, width: usize) -> String {
    // Wider lines than 110 columns are hard to follow. Paths and sonames stay whole, for they are copied, and a hyphen
    // at the end of a line would be taken for a part of them.
    let options = textwrap::Options::new(width.clamp(40, 110))
        .initial_indent(label)
        .subsequent_indent(indent)
        .break_words(false)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::fill(text, options) + "\n"
}

/// The words of a text that fit into `length` characters, with a mark where it was cut; of one long word its beginning.
pub(super) fn shorten(text: &str, length: usize) -> String {
    if text.chars().count() <= length {
        return text.to_owned();
    }
    let head: String = text.chars().take(length).collect();
    match head.rsplit_once(' ') {
        Some((words, _)) if words.chars().count() * 2 > length => format!("{words} …"),
        _ => format!("{head}…"),
    }
}

/// The parts with `between` between them.
pub(super) fn joined(parts: impl IntoIterator<Item: Borrow<str>>, between: &str) -> String {
    parts.into_iter().collect::<Vec<_>>().join(between)
}

/// The text with its first letter, of ASCII, as a capital.
pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// A number of things, such as `1 layer` and `2 entries`.
pub(super) fn count_words(number: usize, thing: &str) -> String {
    match (number, thing.strip_suffix('y')) {
        (1, _) => format!("1 {thing}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        (_, None) => format!("{number} {thing}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::{BOLD, count_words, shorten, styled, wrap_line};

    #[test]
    fn nothing_is_cut_within_a_word_where_a_word_ends_before() {
        assert_eq!(
            shorten("RUN apt-get install cuda-command-line-tools", 26),
            "RUN apt-get install …"
        );
        assert_eq!(shorten("COPY /a/long/path /", 10), "COPY /a/lo…");
        assert_eq!(shorten("short", 5), "short");
        let line = format!("{}: of a hundred words not one is broken", styled(BOLD, "a note"));
        assert_eq!(
            wrap_line(&line, 40),
            format!(
                "{}: of a hundred words not one is\n    broken\n",
                styled(BOLD, "a note")
            )
        );
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(count_words(1, "layer"), "1 layer");
        assert_eq!(count_words(2, "entry"), "2 entries");
        assert_eq!(count_words(0, "layer"), "0 layers");
    }
}
