//! What the reports for people are set with: styles, tables, paragraphs, numbers in words.
//!
//! Styles are written as terminal sequences; who prints the text strips them where they do not belong.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use image_linkage::loader::trace_text;

pub(super) const BOLD: Style = Style::new().bold();
pub(super) const DIM: Style = Style::new().dimmed();
pub(super) const GOOD: Style = AnsiColor::Green.on_default().bold();
pub(super) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(super) const DOUBTFUL: Style = AnsiColor::Yellow.on_default().bold();
pub(super) const REMARK: Style = AnsiColor::Cyan.on_default().bold();

/// The text in a style.
pub(super) fn styled(style: Style, text: impl AsRef<str>) -> String {
    format!("{style}{}{style:#}", text.as_ref())
}

/// The steps of a search in aligned columns. The path comes last: it is the longest, and no column waits for it.
pub(super) fn search_table(lines: &[trace_text::TraceLine], indent: &str) -> String {
    let width = |column: fn(&trace_text::TraceLine) -> &str| {
        let widths = lines.iter().map(|line| column(line).chars().count());
        widths.max().unwrap_or(0)
    };
    let part = width(|line| &line.part);
    let result = width(|line| &line.result).min(48);
    let mut out = String::new();
    for line in lines {
        let row = format!(
            "{indent}{:part$}  {:result$}  {}",
            line.part, line.result, line.path
        );
        let _ = writeln!(out, "{}", styled(DIM, row.trim_end()));
    }
    out
}

/// A paragraph whose first line begins with `label` and whose others are indented as far.
pub(super) fn wrap_paragraph(label: &str, text: &str, width: usize) -> String {
    let indent = " ".repeat(label.chars().count());
    let options = textwrap::Options::new(width.clamp(40, 110))
        .initial_indent(label)
        .subsequent_indent(&indent)
        .break_words(false)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::fill(text, options) + "\n"
}

/// The first `length` characters of a text, with a mark where it was cut.
pub(super) fn shorten(text: &str, length: usize) -> String {
    if text.chars().count() <= length {
        return text.to_owned();
    }
    let head: String = text.chars().take(length).collect();
    format!("{head}…")
}

/// A number of things in words.
pub(super) fn count_words(number: usize, thing: &str) -> String {
    match (number, thing.strip_suffix('y')) {
        (1, _) => format!("1 {thing}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        (_, None) => format!("{number} {thing}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::count_words;

    #[test]
    fn numbers_read_well() {
        assert_eq!(count_words(1, "layer"), "1 layer");
        assert_eq!(count_words(2, "entry"), "2 entries");
        assert_eq!(count_words(0, "layer"), "0 layers");
    }
}
