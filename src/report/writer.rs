//! The trait of all report forms.

use std::io;

use super::pages::build_file::CheckedFiles;
use crate::judge::outcome::{AuditedImage, RunExit, UnreadImage};

/// A report on all images of a run, written image by image, so that only one is in memory.
///
/// Each step returns the text that is ready; a form with a single document keeps everything for the end.
pub(crate) trait ReportWriter {
    /// Adds an audited image.
    fn audited(&mut self, audit: &AuditedImage) -> String;

    /// Adds an image that could not be audited.
    fn unread(&mut self, _unread: &UnreadImage) -> String {
        // Standard error already has the message; only forms that represent the whole run repeat it.
        String::new()
    }

    /// The whole report on checked Dockerfiles and locks.
    ///
    /// Errors: Those of the form's writer, or that the form does not support them.
    fn file_check(&self, checked: &CheckedFiles<'_>) -> io::Result<String>;

    /// Ends the report of a run with exit status `exit`.
    ///
    /// Errors: Those of the form's writer, if it has one.
    fn end(&mut self, _exit: RunExit) -> io::Result<String> {
        // A form without a frame has already written all images.
        Ok(String::new())
    }
}
