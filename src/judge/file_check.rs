//! A checked Dockerfile or lock: its findings by line, and what is known without one.

use crate::judge::build_file::{StageSummary, UnseenStep};
use crate::judge::rule::Finding;

/// The result for a file.
pub struct FileCheck {
    /// The file as the user named it.
    pub file: String,
    /// The findings, by line.
    pub findings: Vec<LineFinding>,
    /// The answer without a finding, such as `no known trap`.
    pub answer: String,
    /// The stages of a Dockerfile that lead to the image, first to last.
    pub stages: Vec<StageSummary>,
    /// The steps of these stages whose effect the Dockerfile does not show.
    pub unseen: Vec<UnseenStep>,
    /// Remarks that are no findings.
    pub notes: Vec<String>,
}

/// A finding on lines of a file.
pub struct LineFinding {
    /// The rule's finding.
    pub finding: Finding,
    /// The first and last line, counted from 1.
    pub lines: (usize, usize),
    /// These lines as written.
    pub excerpt: String,
    /// A replacement for them.
    pub replacement: Option<String>,
}

impl FileCheck {
    /// The findings that are not suppressed.
    pub fn counting(&self) -> impl Iterator<Item = &LineFinding> {
        self.findings.iter().filter(|found| found.finding.suppressed.is_none())
    }
}
