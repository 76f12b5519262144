//! A page as a list of blocks, rendered as text or Markdown here, and as HTML in `html`.
//!
//! Text is for a terminal: styled and wrapped. In Markdown every word is escaped. If the two need different layouts,
//! such as a table and labelled rows, the block contains both.

use super::markdown_text::{bullet_list, escape_markdown, fence, markdown_table};
use super::text_layout::{BOLD, DIM, capital, joined, styled, wrap_line, wrap_paragraph};
use super::words::{ReportTone, gap_lines};
use crate::facts::ImageFacts;
use crate::knowledge::advice::InstallSource;
use crate::knowledge::host::HostCondition;
use image_linkage::escape::escape_bytes;

/// A report whose content is the same in every form.
pub(crate) struct ReportPage<'a>(pub(super) Vec<Block<'a>>);

/// A part of a page. In Markdown an empty line separates two blocks.
pub(super) enum Block<'a> {
    /// The page heading; not in text.
    Title(String),
    /// The answer: the page heading, a styled paragraph in text.
    Answer(ReportTone, String),
    /// The heading of a section, in lower case.
    Heading(&'static str),
    /// The caption of a list, in lower case.
    Caption(&'static str),
    /// A label, shown in text only, and a wrapped paragraph.
    Paragraph(&'static str, String),
    /// A separate sentence, not wrapped in text.
    Line(String),
    /// The column names in Markdown, and the rows.
    Table(Vec<&'a str>, Vec<TableRow>),
    Steps(&'a [String]),
    /// The source of a condition is shown in Markdown only, which has room for it.
    HostConditions(Vec<&'a HostCondition>),
    Command(&'a InstallSource),
    /// The parts of the image that could not be checked.
    Gaps(&'a ImageFacts),
    /// The label and the message of a finding.
    Problem(ReportTone, String, String),
    /// The language, and lines for copying or with columns.
    Code(&'static str, String),
    /// Unchanged lines, in text only.
    TextLines(String),
    /// Blocks in text only.
    TextOnly(Vec<Self>),
    /// A bullet list; not in text.
    List(Vec<String>),
    /// A line of this program's own words that opens the blocks below it; not in text.
    Details(String, Vec<Self>),
    /// Addresses of web pages, in HTML only.
    Links(&'a [String]),
    /// Blocks in HTML only, for which a comment has no room.
    HtmlOnly(Vec<Self>),
}

/// A table row in Markdown; in text, a line with details below it.
#[derive(Default)]
pub(super) struct TableRow {
    pub cells: Vec<String>,
    /// The line in text; omitted if empty.
    pub line: String,
    /// Labelled paragraphs in text; empty ones are omitted.
    pub labelled: Vec<(String, String)>,
}

/// A table below its heading; nothing without rows.
pub(super) fn headed_table<'a>(heading: &'static str, columns: &[&'a str], rows: Vec<TableRow>) -> Vec<Block<'a>> {
    if rows.is_empty() {
        return Vec::new();
    }
    vec![Block::Heading(heading), Block::Table(columns.to_vec(), rows)]
}

impl ReportPage<'_> {
    /// The page for a terminal with `width` columns.
    pub(crate) fn text(&self, width: usize) -> String {
        self.0.iter().map(|block| block.text(width)).collect()
    }

    /// The page in Markdown.
    pub(crate) fn markdown(&self) -> String {
        // Each block ends with a newline, so joining adds Markdown's empty line.
        joined(self.0.iter().filter_map(Block::markdown), "\n")
    }
}

impl Block<'_> {
    fn text(&self, width: usize) -> String {
        match self {
            // Wrapped before styling, because textwrap would count terminal sequences.
            Self::Answer(tone, text) => styled(tone.style(), wrap_paragraph("", text, width).trim_end()) + "\n",
            Self::Heading(text) => format!("\n{}\n", styled(BOLD, text)),
            Self::Caption(text) => format!("\n{text}\n"),
            Self::Paragraph(label, text) => wrap_paragraph(label, text, width),
            Self::Line(text) => format!("  {text}\n"),
            Self::Table(_, rows) => rows.iter().map(|row| row.text(width)).collect(),
            Self::Steps(steps) => {
                let step = |(number, step): (usize, &String)| wrap_paragraph(&format!("  {number}. "), step, width);
                (1..).zip(*steps).map(step).collect()
            }
            Self::HostConditions(conditions) => {
                let words = conditions.iter();
                let words = words.map(|one| format!("{} ({})", one.says, one.certainty.name()));
                words.map(|words| wrap_paragraph("  · ", &words, width)).collect()
            }
            Self::Command(source) => {
                let whose = format!("{} ({})", source.whose, source.certainty.name());
                let whose = wrap_paragraph(&format!("  {:8}", source.id), &whose, width);
                // A command is for copying, so it is never wrapped.
                let command = styled(BOLD, &source.command);
                let brings = wrap_paragraph("          ", &source.brings, width);
                format!("{whose}          {command}\n{brings}")
            }
            Self::Gaps(facts) => gap_lines(facts, width),
            Self::Problem(tone, label, message) => {
                wrap_line(&format!("{}: {message}", styled(tone.style(), label)), width)
            }
            Self::Code(_, code) => joined(
                code_lines(code).map(|line| format!("       {}\n", styled(DIM, line))),
                "",
            ),
            Self::TextLines(lines) => lines.clone(),
            Self::TextOnly(blocks) => blocks.iter().map(|block| block.text(width)).collect(),
            Self::Title(_) | Self::List(_) | Self::Details(..) | Self::Links(_) | Self::HtmlOnly(_) => String::new(),
        }
    }

    fn markdown(&self) -> Option<String> {
        Some(match self {
            Self::Title(text) | Self::Answer(_, text) => format!("## {}\n", escape_markdown(text)),
            Self::Heading(text) => format!("### {}\n", capital(text)),
            Self::Caption(text) => format!("{}:\n", capital(text)),
            Self::Paragraph(_, text) | Self::Line(text) => escape_markdown(text) + "\n",
            Self::Problem(_, label, message) => format!("**{}**\n", escape_markdown(&format!("{label}: {message}"))),
            Self::Code(language, code) => {
                let lines: Vec<String> = code_lines(code).collect();
                let fence = fence(&lines);
                format!("{fence}{language}\n{}\n{fence}\n", lines.join("\n"))
            }
            Self::List(texts) => bullet_list(texts.iter().cloned()),
            Self::Details(summary, blocks) => {
                let blocks = joined(blocks.iter().filter_map(Self::markdown), "\n");
                // The empty lines end the HTML blocks (CommonMark, section 4.6), so Markdown works between them.
                format!("<details><summary>{summary}</summary>\n\n{blocks}\n</details>\n")
            }
            Self::Table(columns, rows) => {
                let rows = rows
                    .iter()
                    .map(|row| row.cells.iter().map(|cell| escape_markdown(cell)));
                markdown_table(columns, rows)
            }
            Self::Steps(steps) => {
                let steps = (1..).zip(*steps);
                joined(
                    steps.map(|(number, step)| format!("{number}. {}\n", escape_markdown(step))),
                    "",
                )
            }
            Self::HostConditions(conditions) => bullet_list(
                conditions
                    .iter()
                    .map(|one| format!("{} ({}: {})", one.says, one.certainty.name(), one.source)),
            ),
            Self::Command(source) => {
                let (whose, certainty) = (&source.whose, source.certainty.name());
                let text = escape_markdown(&format!("{whose} ({certainty}): {}", source.brings));
                // Not escaped: the command comes from this program and never from an image, and it is for copying.
                format!("{text}\n\n```sh\n{}\n```\n", source.command)
            }
            Self::Gaps(facts) if !facts.gaps.is_empty() => {
                let gaps = facts.gaps.iter();
                let gaps = gaps.map(|gap| format!("{}: {}", gap.what, gap.why));
                format!("Not checked:\n\n{}", bullet_list(gaps))
            }
            Self::Gaps(_) | Self::TextLines(_) | Self::TextOnly(_) | Self::Links(_) | Self::HtmlOnly(_) => return None,
        })
    }
}

impl TableRow {
    pub(super) fn new(cells: Vec<String>, line: String) -> Self {
        let labelled = Vec::new();
        Self { cells, line, labelled }
    }

    fn text(&self, width: usize) -> String {
        let line = (!self.line.is_empty()).then(|| format!("{}\n", self.line));
        let labelled = self.labelled.iter().filter(|(_, text)| !text.is_empty());
        let labelled = labelled.map(|(label, text)| wrap_paragraph(label, text, width));
        line.into_iter().chain(labelled).collect()
    }
}

/// The lines of a file without terminal control characters. Backslashes are kept, because the lines are for copying.
pub(super) fn code_lines(code: &str) -> impl Iterator<Item = String> {
    let parts = |line: &'_ str| joined(line.split('\\').map(|part| escape_bytes(part.as_bytes())), "\\");
    code.trim_end().lines().map(parts)
}
