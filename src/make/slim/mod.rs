//! Turns an image into one that serves a phase, and removes its dead weight.
//!
//! The steps:
//!
//! * [`original_image`] reads the image.
//! * [`decision`] decides what to add and to remove; [`gpu_code`] rewrites objects.
//! * [`build_image`] writes the new layers beside the output.
//! * [`final_audit`] audits the result like any image.
//! * [`output`] moves it into place.
//!
//! The image contains a record of the changes ([`provenance`]).

pub(crate) mod added_layer;
pub(crate) mod blob_writer;
pub(crate) mod build_image;
pub(crate) mod decision;
pub(crate) mod final_audit;
pub(crate) mod gpu_code;
mod hashed_writer;
pub(crate) mod interrupt;
mod new_config;
pub(crate) mod new_image;
pub(crate) mod new_manifest;
pub(crate) mod original_image;
pub(crate) mod output;
pub(crate) mod provenance;
mod removed_files;
pub(crate) mod slim_text;
mod staging_files;
pub(crate) mod supplier;
mod twin_files;

use image_source::ImageError;

/// Why no image was made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SlimError {
    /// An image could not be read, or the output could not be reached.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The output exists.
    #[error("{0} is there already; --force replaces it")]
    Exists(String),
    /// The new image does not serve the phase.
    #[error("{0}")]
    Unfit(String),
    /// Any other error, in one sentence.
    #[error("{0}")]
    Cannot(String),
}
