//! Writes a verdict down: for people ([`text`], [`markdown`], [`html`]), for programs ([`json`]) and for what shows
//! results in a pipeline ([`sarif`], [`junit`], [`github`]).
//!
//! The forms are siblings over the same [`AuditedImage`], each a [`ReportWriter`]; nothing is decided here.

pub mod advice;
mod blocks;
pub mod github;
pub mod html;
mod inventory;
pub mod json;
mod json_parts;
pub mod junit;
pub mod markdown;
mod markdown_escape;
mod phases;
pub mod profilers;
pub mod rules;
pub mod sarif;
pub mod text;
mod text_layout;
pub mod tree;
mod words;

use std::io;

use crate::judge::outcome::{AuditedImage, RunExit, UnreadImage};

/// A report over all images of a run, made image by image: no image is held while the next one is read.
///
/// Each step returns what can be written already; a form that is one document keeps all of it for the end.
pub trait ReportWriter {
    /// Adds an image.
    ///
    /// Errors: Those of the form's writer; never for a report made here.
    fn audited(&mut self, audit: &AuditedImage) -> io::Result<String>;

    /// Adds an image that could not be audited.
    ///
    /// Errors: As [`ReportWriter::audited`].
    fn unread(&mut self, unread: &UnreadImage) -> io::Result<String>;

    /// Ends the report of a run that comes to `exit`.
    ///
    /// Errors: As [`ReportWriter::audited`].
    fn end(&mut self, exit: RunExit) -> io::Result<String>;
}
