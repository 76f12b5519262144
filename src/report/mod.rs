//! Writes a verdict down: for people ([`text`], [`markdown`], [`html`]), for programs ([`json`]) and for what shows
//! results in a pipeline ([`sarif`], [`junit`], [`github`]).
//!
//! The forms are siblings over the same [`AuditedImage`], each a [`ReportWriter`]; nothing is decided here.

pub(crate) mod advice;
pub(crate) mod attestation;
mod blocks;
pub(crate) mod build_file;
mod command;
pub(crate) mod diff;
pub(crate) mod fleet;
pub(crate) mod github;
pub(crate) mod html;
mod inventory;
pub(crate) mod json;
mod json_parts;
pub(crate) mod junit;
mod links;
pub(crate) mod markdown;
mod markdown_escape;
mod phases;
pub(crate) mod profilers;
pub mod rules;
pub(crate) mod sarif;
pub(crate) mod schemas;
pub(crate) mod text;
mod text_layout;
pub mod tools;
pub(crate) mod tree;
mod words;

pub(crate) use blocks::ReportPage;
pub(crate) use text_layout::wrap_lines;

use std::io;

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

    /// Ends the report of a run that comes to `exit`.
    ///
    /// Errors: Those of the form's own writer, where it has one.
    fn end(&mut self, _exit: RunExit) -> io::Result<String> {
        // A form without a frame around the images has written all of them by now.
        Ok(String::new())
    }
}
