//! A page made once as blocks, and what text and Markdown make of it.
//!
//! Text is for a terminal: styled, and wrapped at a width. In Markdown every word of a block is escaped. Where the two
//! tell a thing differently, as a table and as rows with labels, the block holds what each of them shows.

use std::fmt::Write as _;

use anstyle::Style;

use super::markdown::fence;
use super::markdown_escape::escape_markdown;
use super::text_layout::{BOLD, DIM, capital, styled, wrap_line, wrap_paragraph};
use super::words::gap_lines;
use crate::facts::ImageFacts;
use crate::knowledge::advice::InstallSource;
use crate::knowledge::host::HostCondition;
use image_linkage::escape::escape_bytes;

/// A report that is the same in text and in Markdown but for its layout.
pub(crate) struct ReportPage<'a>(pub(super) Vec<Block<'a>>);

/// A part of a page. In Markdown an empty line stands between two of them.
pub(super) enum Block<'a> {
    /// The heading of the page, in Markdown alone.
    Title(String),
    /// The answer: the heading of the page in Markdown, a styled paragraph in text.
    Answer(Style, String),
    /// The heading of a part, in lower case.
    Heading(&'static str),
    /// What a list is of, in lower case.
    Caption(&'static str),
    /// A label, which text alone shows, and what is wrapped behind it.
    Paragraph(&'static str, String),
    /// A sentence of its own that text does not wrap.
    Line(String),
    /// The names of the columns in Markdown, and the rows.
    Table(Vec<&'a str>, Vec<TableRow>),
    Steps(&'a [String]),
    /// The source of a condition is in Markdown alone: there is room for it.
    HostConditions(Vec<&'a HostCondition>),
    Command(&'a InstallSource),
    /// What could not be checked in the image.
    Gaps(&'a ImageFacts),
    /// A sentence that is styled for a terminal, and the same without its styles.
    Styled {
        /// With terminal sequences around its words.
        text: String,
        /// The same for Markdown and HTML.
        plain: String,
    },
    /// Lines of a file, as they stand there.
    Code(String),
    /// Lines as they stand, in text alone.
    TextLines(String),
    /// What Markdown leaves out.
    TextOnly(Vec<Self>),
}

/// A row of a table in Markdown; in text, a line and what is told below it.
#[derive(Default)]
pub(super) struct TableRow {
    pub cells: Vec<String>,
    /// The line in text; none where it is empty.
    pub line: String,
    /// Labels with what is wrapped behind them in text; those without words are left out.
    pub labelled: Vec<(String, String)>,
}

impl ReportPage<'_> {
    /// The page for a terminal that is `width` columns wide.
    pub(crate) fn text(&self, width: usize) -> String {
        let mut out = String::new();
        for block in &self.0 {
            block.write_text(&mut out, width);
        }
        out
    }

    /// The page in Markdown.
    pub(crate) fn markdown(&self) -> String {
        // Each block ends its last line, so that joining them leaves the empty line that Markdown wants.
        let blocks: Vec<String> = self.0.iter().filter_map(Block::markdown).collect();
        blocks.join("\n")
    }
}

impl Block<'_> {
    fn write_text(&self, out: &mut String, width: usize) {
        let mut wrap = |label: &str, text: &str| *out += &wrap_paragraph(label, text, width);
        match self {
            Self::Title(_) => {}
            Self::Answer(style, text) => {
                // Wrapped before it is styled: a terminal sequence has no width, but textwrap would count it.
                let text = wrap_paragraph("", text, width);
                let _ = writeln!(out, "{}", styled(*style, text.trim_end()));
            }
            Self::Heading(text) => {
                let _ = writeln!(out, "\n{}", styled(BOLD, text));
            }
            Self::Caption(text) => {
                let _ = writeln!(out, "\n{text}");
            }
            Self::Paragraph(label, text) => wrap(label, text),
            Self::Line(text) => {
                let _ = writeln!(out, "  {text}");
            }
            Self::Table(_, rows) => rows.iter().for_each(|row| row.write_text(out, width)),
            Self::Steps(steps) => {
                for (number, step) in (1..).zip(*steps) {
                    wrap(&format!("  {number}. "), step);
                }
            }
            Self::HostConditions(conditions) => {
                for one in conditions {
                    wrap("  · ", &format!("{} ({})", one.says, one.certainty.name()));
                }
            }
            Self::Command(source) => {
                let whose = format!("{} ({})", source.whose, source.certainty.name());
                wrap(&format!("  {:8}", source.id), &whose);
                // A command is copied: it is not broken.
                let command = styled(BOLD, &source.command);
                let _ = writeln!(out, "          {command}");
                *out += &wrap_paragraph("          ", &source.brings, width);
            }
            Self::Gaps(facts) => *out += &gap_lines(facts, width),
            Self::Styled { text, .. } => *out += &wrap_line(text, width),
            Self::Code(code) => {
                for line in code_lines(code) {
                    let _ = writeln!(out, "       {}", styled(DIM, line));
                }
            }
            Self::TextLines(lines) => *out += lines,
            Self::TextOnly(blocks) => {
                for block in blocks {
                    block.write_text(out, width);
                }
            }
        }
    }

    fn markdown(&self) -> Option<String> {
        Some(match self {
            Self::Title(text) | Self::Answer(_, text) => format!("## {}\n", escape_markdown(text)),
            Self::Heading(text) => format!("### {}\n", capital(text)),
            Self::Caption(text) => format!("{}:\n", capital(text)),
            Self::Paragraph(_, text) | Self::Line(text) => escape_markdown(text) + "\n",
            Self::Styled { plain, .. } => format!("**{}**\n", escape_markdown(plain)),
            Self::Code(code) => {
                let lines: Vec<String> = code_lines(code).collect();
                let fence = fence(&lines);
                format!("{fence}dockerfile\n{}\n{fence}\n", lines.join("\n"))
            }
            Self::Table(columns, rows) => {
                let rows = rows
                    .iter()
                    .map(|row| row.cells.iter().map(|cell| escape_markdown(cell)));
                markdown_table(columns, rows)
            }
            Self::Steps(steps) => {
                let steps = (1..).zip(*steps);
                let steps = steps.map(|(number, step)| format!("{number}. {}\n", escape_markdown(step)));
                steps.collect::<Vec<_>>().concat()
            }
            Self::HostConditions(conditions) => bullet_list(
                conditions
                    .iter()
                    .map(|one| format!("{} ({}: {})", one.says, one.certainty.name(), one.source)),
            ),
            Self::Command(source) => {
                let (whose, certainty) = (&source.whose, source.certainty.name());
                let text = escape_markdown(&format!("{whose} ({certainty}): {}", source.brings));
                // Not escaped: a command is the program's own and never from an image, and it is copied as it stands.
                format!("{text}\n\n```sh\n{}\n```\n", source.command)
            }
            Self::Gaps(facts) if !facts.gaps.is_empty() => {
                let gaps = facts.gaps.iter();
                let gaps = gaps.map(|gap| format!("{}: {}", gap.what, gap.why));
                format!("Not checked:\n\n{}", bullet_list(gaps))
            }
            Self::Gaps(_) | Self::TextLines(_) | Self::TextOnly(_) => return None,
        })
    }
}

impl TableRow {
    fn write_text(&self, out: &mut String, width: usize) {
        if !self.line.is_empty() {
            let _ = writeln!(out, "{}", self.line);
        }
        for (label, text) in self.labelled.iter().filter(|(_, text)| !text.is_empty()) {
            *out += &wrap_paragraph(label, text, width);
        }
    }
}

/// The lines of a file without what a terminal obeys. A backslash stays one: they are copied.
pub(super) fn code_lines(code: &str) -> impl Iterator<Item = String> {
    let escaped = |line: &str| {
        let parts: Vec<String> = line.split('\\').map(|part| escape_bytes(part.as_bytes())).collect();
        parts.join("\\")
    };
    code.trim_end().lines().map(escaped)
}

fn bullet_list(texts: impl Iterator<Item = String>) -> String {
    let items = texts.map(|text| format!("- {}\n", escape_markdown(&text)));
    items.collect::<Vec<_>>().concat()
}

/// A table of cells that are Markdown already.
pub(super) fn markdown_table<R: IntoIterator<Item = String>>(
    columns: &[&str],
    rows: impl Iterator<Item = R>,
) -> String {
    let names = columns.iter().map(|name| match *name {
        // A column without a name keeps its cell: a head with fewer cells than the line below it makes no table (GitHub
        // Flavored Markdown, section 4.10).
        "" => " |".to_owned(),
        name => format!(" {name} |"),
    });
    let head: String = names.collect();
    let mut out = format!("|{head}\n|{}\n", "---|".repeat(columns.len()));
    for row in rows {
        let cells: Vec<String> = row.into_iter().collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    out
}
