//! Audits many images on an existing engine: the worklist, each worker's share, and the summary.
//!
//! This module does no I/O. The command line reads registries and files, runs the audits and stores the documents.

mod bases;
mod change;
mod image_names;
mod image_result;
mod repository_pattern;
mod result_document;
mod share;
mod summary;
mod worklist;

pub(crate) use change::{ChangedImage, FleetChange};
pub(crate) use image_names::read_image_names;
pub(crate) use image_result::ImageResult;
pub(crate) use repository_pattern::RepositoryPattern;
pub(crate) use result_document::{
    FleetFailure, FleetSettings, RESULTS, document_name, failure_document, result_document,
};
pub(crate) use share::WorkShare;
pub(crate) use summary::FleetSummary;
pub(crate) use worklist::{WorkEntry, Worklist, read_worklist};
