//! Makes an image that serves a phase of one that does not, and a smaller one of one that carries dead weight.
//!
//! The way is one: the image is read ([`original_image`]), what is brought and what goes is decided ([`decision`]), the new
//! layers are written beside the output ([`build_image`]), what they come to is audited as any image is ([`final_audit`]), and only
//! then it is put where it belongs ([`output`]). A [`provenance`] of what was done travels with it.

pub mod added_layer;
pub mod added_members;
pub mod blob_writer;
pub mod build_image;
pub mod decision;
pub mod final_audit;
pub mod interrupt;
pub mod new_documents;
pub mod new_image;
pub mod original_image;
pub mod output;
pub mod provenance;
pub mod slim_text;
mod staging_files;
pub mod supplier;

use crate::make::remedy::RemedyError;
use image_source::ImageError;

/// Why no image was made.
#[derive(Debug, thiserror::Error)]
pub enum SlimError {
    /// An image could not be read, or its place could not be reached.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The image cannot be helped with what there is.
    #[error(transparent)]
    Refused(#[from] RemedyError),
    /// The output is there already.
    #[error("{0} is there already; --force replaces it")]
    Exists(String),
    /// Anything else, in one sentence.
    #[error("{0}")]
    Cannot(String),
}
