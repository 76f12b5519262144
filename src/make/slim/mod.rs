//! Makes an image that serves a phase of one that does not, and a smaller one of one that carries dead weight.
//!
//! The way is one: the image is read ([`original_image`]), what is brought and what goes is decided ([`decision`]), the new
//! layers are written beside the output ([`build_image`]), what they come to is audited as any image is ([`final_audit`]), and only
//! then it is put where it belongs ([`output`]). A [`provenance`] of what was done travels with it.

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
