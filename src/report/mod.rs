//! Writes a verdict down: for people ([`text`], [`markdown`], [`html`]), for programs ([`json`]) and for what shows
//! results in a pipeline ([`sarif`], [`junit`], [`github`]).
//!
//! The forms are siblings over the same [`AuditedImage`], each a [`ReportWriter`]; nothing is decided here.

pub mod advice;
pub mod github;
pub mod html;
mod inventory;
pub mod json;
mod json_parts;
pub mod junit;
pub mod markdown;
mod phases;
pub mod profilers;
pub mod rules;
pub mod sarif;
pub mod text;
mod text_layout;
pub mod tree;

use std::io;

use crate::judge::facts::CuptiConsumer;
use crate::judge::outcome::{AuditedImage, RunExit, UnreadImage};
use crate::judge::rule::SuppressionMark;
use image_linkage::escape;
use image_linkage::loader::RequestOutcome;

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

/// Why a finding does not count, and until when.
fn suppression_words(suppressed: &SuppressionMark) -> String {
    let reason = escape::escape_bytes(suppressed.reason.as_bytes());
    match suppressed.until {
        Some(until) => format!("{reason}, until {until}"),
        None => reason,
    }
}

/// What a consumer gets in the image as it is, in a sentence.
fn consumer_outcome_words(consumer: &CuptiConsumer) -> String {
    let gets = &consumer.outcome.as_is;
    match (gets.outcome, consumer.outcome.nvidia.outcome) {
        (RequestOutcome::Loaded, _) => inventory::path_and_way(gets),
        (_, RequestOutcome::Loaded) => {
            "nothing until the container runtime has run ldconfig".to_owned()
        }
        _ => format!("nothing: {}", gets.message),
    }
}
