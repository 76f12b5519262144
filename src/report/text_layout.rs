//! Text layout: styles, tables, paragraphs, counts.
//!
//! Styles are terminal sequences; the printer strips them if they are not supported.

use std::borrow::Borrow;
use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use image_linkage::loader::TraceLine;

/// The layout of an audit report.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextLayout {
    /// The width of the terminal in columns. Paragraphs are wrapped to it, tables never.
    pub width: usize,
    /// How much detail to show.
    pub detail: TextDetail,
}

/// The level of detail in a text report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TextDetail {
    /// Nothing; only the exit code counts.
    Nothing,
    /// The verdict and the problems.
    Findings,
    /// Also the inventory: copies, programs, phases.
    Inventory,
    /// Also full notes, the layers, the loader and every search.
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

/// The steps of a search in aligned columns. The path comes last because it is the longest.
pub(super) fn search_table<L: Borrow<TraceLine>>(lines: &[L], indent: &str) -> String {
    let (mut part, mut result) = (0, 0);
    for line in lines.iter().map(Borrow::borrow) {
        part = part.max(line.part.chars().count());
        // Bounded, because the longest result is a sentence of the loader, and the paths of other lines should stay
        // near.
        result = result.max(line.result.chars().count()).min(48);
    }
    let mut out = String::new();
    for line in lines.iter().map(Borrow::borrow) {
        let row = format!("{indent}{:part$}  {:result$}  {}", line.part, line.result, line.path);
        let _ = writeln!(out, "{}", styled(DIM, row.trim_end()));
    }
    out
}

/// A paragraph that starts with `label`; later lines have the same indent.
pub(super) fn wrap_paragraph(label: &str, text: &str, width: usize) -> String {
    wrap(label, text, &" ".repeat(label.chars().count()), width)
}

/// A line, styled or not, whose continuation is indented by four.
pub(super) fn wrap_line(line: &str, width: usize) -> String {
    wrap("", line, "    ", width)
}

/// Same, for each line of a text.
pub(crate) fn wrap_lines(text: &str, width: usize) -> String {
    text.lines().map(|line| wrap_line(line, width)).collect()
}

/// The columns of a terminal with `width` that are used: lines over 110 columns are hard to read.
pub(super) fn fit_width(width: usize) -> usize {
    width.clamp(40, 110)
}

fn wrap(label: &str, text: &str, indent: &str, width: usize) -> String {
    // Paths and sonames are never broken: they are for copying, and a hyphen would look like part of them.
    let options = textwrap::Options::new(fit_width(width))
        .initial_indent(label)
        .subsequent_indent(indent)
        .break_words(false)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::fill(text, options) + "\n"
}

/// As many words of a text as fit into `length` characters, then an ellipsis; a long first word is cut.
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

/// Joins the parts with `between`.
pub(super) fn joined(parts: impl IntoIterator<Item: Borrow<str>>, between: &str) -> String {
    parts.into_iter().collect::<Vec<_>>().join(between)
}

/// Capitalizes the first letter, if it is ASCII.
pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_ascii_uppercase().to_string() + letters.as_str(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{BOLD, shorten, styled, wrap_line};

    #[test]
    fn text_is_cut_between_words_if_possible() {
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
}
