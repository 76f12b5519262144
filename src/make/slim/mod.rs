//! Turns an image into one that serves a phase, and removes its dead weight.
//!
//! There is one pipeline. Read the image ([`original_image`]), decide what to add and to remove ([`decision`]), write
//! the new layers beside the output ([`build_image`]), audit the result like any image ([`final_audit`]), and only then
//! move it into place ([`output`]). The image contains a record of the changes ([`provenance`]).

pub(crate) mod added_layer;
pub(crate) mod blob_writer;
pub(crate) mod build_image;
pub(crate) mod decision;
mod error;
pub(crate) mod final_audit;
mod hashed_writer;
pub(crate) mod interrupt;
mod new_config;
pub(crate) mod new_image;
pub(crate) mod new_manifest;
pub(crate) mod original_image;
pub(crate) mod output;
pub(crate) mod provenance;
mod raw_object;
mod removed_files;
pub(crate) mod slim_text;
mod staging_files;
pub(crate) mod supplier;
mod twin_files;

pub(crate) use error::SlimError;
