//! What each form of a report implements.

use std::io;

use super::build_file::CheckedBuildFile;
use crate::judge::outcome::{AuditedImage, RunExit, UnreadImage};

/// A report over all images of a run, made image by image: no image is held while the next one is read.
///
/// Each step returns what can be written already; a form that is one document keeps all of it for the end.
pub(crate) trait ReportWriter {
    /// Adds an image that was audited.
    fn audited(&mut self, audit: &AuditedImage) -> String;

    /// Adds an image that could not be audited.
    fn unread(&mut self, _unread: &UnreadImage) -> String {
        // Standard error has said it already; a form that stands for the run as a whole says it again.
        String::new()
    }

    /// The whole report on a Dockerfile that was checked.
    ///
    /// Errors: Those of the form's own writer, and where the form says nothing of Dockerfiles.
    fn build_file(&self, checked: &CheckedBuildFile<'_>) -> io::Result<String>;

    /// Ends the report of a run that comes to `exit`.
    ///
    /// Errors: Those of the form's own writer, where it has one.
    fn end(&mut self, _exit: RunExit) -> io::Result<String> {
        // A form without a frame around the images has written all of them by now.
        Ok(String::new())
    }
}
