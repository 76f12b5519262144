//! A report as a page: its content, which is the same in every form. Each form decides the layout.
//!
//! Text for a terminal is in `page_text`, Markdown in `markdown`, and HTML in `html`.

use anstyle::Style;

use super::text_layout::{BOLD, DIM, styled};
use super::words::ReportTone;
use crate::facts::ImageFacts;
use image_linkage::loader::TraceLine;

/// A report whose content is the same in every form.
pub(crate) struct Page(pub(super) Vec<Block>);

/// A part of a page.
pub(super) enum Block {
    /// The heading of a page without a verdict.
    Title(String),
    /// The answer, as the heading of the page.
    Verdict(ReportTone, String),
    /// What the page is about: a name, facts about it, and its digest.
    Subject(String, Vec<String>, Option<String>),
    /// A title in lower case, and the blocks below it. Without a title they only stand apart from others.
    Section(Line, Vec<Self>),
    /// A message, and the blocks below it.
    Entry(Entry),
    /// Findings in text, where minor ones have a line each.
    Findings(Vec<FindingEntry>),
    Table(Table),
    List(Vec<String>),
    /// Numbered steps.
    Steps(Vec<String>),
    Text(Line),
    /// A text after a label.
    Fact(String, Line),
    /// The language, and lines for copying, which are never wrapped.
    Code(&'static str, String),
    /// A label, and a command for copying.
    Command(&'static str, String),
    /// The steps of a search, and the number of further ones.
    Search(Vec<TraceLine>, usize),
    /// Blocks that the reader opens by their title; not in text.
    Folded(String, Vec<Self>),
    /// Addresses of web pages, in HTML only.
    Links(Vec<String>),
}

/// Styled words; only text shows their style.
#[derive(Default)]
pub(super) struct Line(Vec<(Style, String)>);

pub(super) struct Entry {
    pub label: Option<(ReportTone, String)>,
    pub message: Line,
    pub blocks: Vec<Block>,
}

pub(super) struct FindingEntry {
    pub entry: Entry,
    /// Whether a line is enough.
    pub is_minor: bool,
    /// The end of this line.
    pub addition: String,
}

/// Rows of cells below the names of their columns.
pub(super) struct Table {
    pub columns: Vec<&'static str>,
    /// Further columns, which only text has room for.
    pub details: Vec<&'static str>,
    pub rows: Vec<Vec<String>>,
}

impl Line {
    pub(super) fn with(mut self, style: Style, text: impl Into<String>) -> Self {
        self.0.push((style, text.into()));
        self
    }

    pub(super) fn and(self, text: impl Into<String>) -> Self {
        self.with(Style::new(), text)
    }

    pub(super) fn bold(text: impl Into<String>) -> Self {
        Self::default().with(BOLD, text)
    }

    pub(super) fn dim(text: impl Into<String>) -> Self {
        Self::default().with(DIM, text)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The words without their style.
    pub(super) fn plain(&self) -> String {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// The words for a terminal.
    pub(super) fn styled(&self) -> String {
        self.0.iter().map(|(style, text)| styled(*style, text)).collect()
    }
}

impl<T: Into<String>> From<T> for Line {
    fn from(text: T) -> Self {
        Self(vec![(Style::new(), text.into())])
    }
}

impl Block {
    pub(super) fn text(text: impl Into<Line>) -> Self {
        Self::Text(text.into())
    }

    /// A line with others below it.
    pub(super) fn entry(line: impl Into<Line>, blocks: Vec<Self>) -> Self {
        let (label, message) = (None, line.into());
        Self::Entry(Entry { label, message, blocks })
    }

    pub(super) fn section(title: impl Into<String>, blocks: Vec<Self>) -> Self {
        Self::Section(Line::bold(title), blocks)
    }

    pub(super) fn table(columns: &[&'static str], rows: Vec<Vec<String>>) -> Self {
        let (columns, details) = (columns.to_vec(), Vec::new());
        Self::Table(Table { columns, details, rows })
    }

    /// A table below its title; nothing without rows.
    pub(super) fn titled_table(title: &str, columns: &[&'static str], rows: Vec<Vec<String>>) -> Option<Self> {
        (!rows.is_empty()).then(|| Self::section(title, vec![Self::table(columns, rows)]))
    }
}

/// The parts of the image that could not be checked.
pub(super) fn gap_entries(facts: &ImageFacts) -> impl Iterator<Item = Block> {
    facts.gaps.iter().map(|gap| {
        Block::Entry(Entry {
            label: Some((ReportTone::Open, "not checked".to_owned())),
            message: format!("{}: {}", gap.what, gap.why).into(),
            blocks: Vec::new(),
        })
    })
}
