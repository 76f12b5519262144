//! Writes reports: for people ([`text`], [`markdown`], [`html`]), for programs ([`json`]), and for CI ([`sarif`],
//! [`junit`], [`github`]).
//!
//! Each form is a [`ReportWriter`] of the same [`AuditedImage`]; nothing is decided here.

pub(crate) mod attestation;
mod command;
pub(crate) mod explain;
pub(crate) mod github;
mod gpu_code;
pub(crate) mod html;
pub(crate) mod json;
mod json_parts;
pub(crate) mod junit;
mod links;
pub(crate) mod markdown;
mod page;
mod page_text;
/// The pages, one file each, with the JSON form if only that page has it.
pub mod pages {
    pub(crate) mod advice;
    pub(crate) mod build_file;
    pub(crate) mod diff;
    pub(crate) mod fleet;
    pub(crate) mod image;
    pub(crate) mod image_text;
    mod phases;
    pub mod profilers;
}
pub mod rules;
pub(crate) mod sarif;
pub(crate) mod text;
mod text_layout;
pub(crate) mod tree;
mod words;
mod writer;

pub(crate) use json_parts::SCHEMAS;
pub(crate) use page::Page;
pub(crate) use text_layout::wrap_lines;
pub(crate) use words::verdict_line;
pub(crate) use writer::ReportWriter;

use attestation::AttestationReport;
use github::GitHubAnnotations;
use html::HtmlReport;
use json::JsonReport;
use junit::JunitReport;
use markdown::MarkdownReport;
use sarif::SarifReport;
use text::{TextDetail, TextLayout, TextReport};

use crate::judge::outcome::FailOn;
use crate::knowledge::Knowledge;

/// The form of a report. Each command supports some of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReportFormat {
    Text,
    Json,
    Sarif,
    Junit,
    Markdown,
    GitHub,
    Html,
    Attestation,
}

/// The name of a form, its help text and the form.
pub(crate) type NamedFormat = (&'static str, &'static str, ReportFormat);

/// The forms of reports with findings.
#[rustfmt::skip] // A row is a line.
pub(crate) const FINDING_FORMATS: [NamedFormat; 8] = [
    ("text", "For people", ReportFormat::Text),
    ("json", "For programs: one JSON object per image, each on its own line", ReportFormat::Json),
    ("sarif", "SARIF 2.1.0, for code scanning", ReportFormat::Sarif),
    ("junit", "JUnit XML, for test results: one suite per image, one case per rule", ReportFormat::Junit),
    ("markdown", "For a comment on a pull request, or the summary of a job", ReportFormat::Markdown),
    ("github", "Annotations of GitHub Actions", ReportFormat::GitHub),
    ("html", "A single page for a browser", ReportFormat::Html),
    // Last, because `check` has all others.
    ("attestation", "The predicate of an in-toto attestation, for cosign to sign", ReportFormat::Attestation),
];

/// The forms of reports on a Dockerfile. An attestation is about an image.
pub(crate) const BUILD_FILE_FORMATS: &[NamedFormat] = FINDING_FORMATS.split_at(FINDING_FORMATS.len() - 1).0;

/// The forms of answers. SARIF, JUnit and annotations need findings, which answers lack.
#[rustfmt::skip] // A row is a line.
pub(crate) const ANSWER_FORMATS: [NamedFormat; 4] = [
    ("text", "For people", ReportFormat::Text),
    ("json", "For programs: one JSON object", ReportFormat::Json),
    ("markdown", "For a page or a comment", ReportFormat::Markdown),
    ("html", "A single page for a browser", ReportFormat::Html),
];

/// The forms of answers that are not a page.
pub(crate) const PLAIN_FORMATS: [NamedFormat; 2] = [
    ("text", "For people", ReportFormat::Text),
    ("json", "For programs: one JSON object", ReportFormat::Json),
];

/// The forms of a report on many images.
#[rustfmt::skip] // A row is a line.
pub(crate) const FLEET_FORMATS: [NamedFormat; 4] = [
    ("text", "For people", ReportFormat::Text),
    ("html", "A single page for a browser", ReportFormat::Html),
    ("markdown", "For a page or a comment", ReportFormat::Markdown),
    ("json", "For programs: one JSON object per image, each on its own line", ReportFormat::Json),
];

/// The writer of an audit report.
pub(crate) fn report_writer(
    format: ReportFormat,
    layout: TextLayout,
    fail_on: FailOn,
    knowledge: &Knowledge,
) -> Box<dyn ReportWriter> {
    let Knowledge { rules, library, .. } = knowledge;
    match format {
        ReportFormat::Json => Box::new(JsonReport),
        ReportFormat::Sarif => Box::new(SarifReport::new(rules, &library.name)),
        ReportFormat::Junit => Box::new(JunitReport::new(rules, fail_on)),
        ReportFormat::Markdown => Box::new(MarkdownReport),
        ReportFormat::GitHub => Box::new(GitHubAnnotations),
        ReportFormat::Html => Box::new(HtmlReport::new(rules, &library.name)),
        ReportFormat::Attestation => Box::new(AttestationReport),
        ReportFormat::Text => Box::new(TextReport::new(layout)),
    }
}

/// A page in the requested form; text for any form that pages lack.
pub(crate) fn page_text(page: &Page, format: ReportFormat, width: usize) -> String {
    let detail = TextDetail::Inventory;
    match format {
        ReportFormat::Markdown => page.markdown(),
        ReportFormat::Html => page.html(),
        _ => page.text(TextLayout { width, detail }),
    }
}
