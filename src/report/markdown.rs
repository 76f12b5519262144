//! Markdown with tables in the style of GitHub and GitLab, for a pull request comment or a job summary.

use std::io;

use super::audit_page::{RulesById, audit_page, unread_page};
use super::build_file::{CheckedBuildFile, check_page};
use super::writer::ReportWriter;
use crate::judge::outcome::{AuditedImage, UnreadImage};

/// All images in sequence, each under a heading, with an empty line between them.
pub(crate) struct MarkdownReport;

impl ReportWriter for MarkdownReport {
    fn audited(&mut self, audit: &AuditedImage) -> String {
        audit_page(audit, &RulesById::new()).markdown() + "\n"
    }

    fn build_file(&self, checked: &CheckedBuildFile<'_>) -> io::Result<String> {
        Ok(check_page(checked).markdown())
    }

    fn unread(&mut self, unread: &UnreadImage) -> String {
        unread_page(unread).markdown() + "\n"
    }
}
