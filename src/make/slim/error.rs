//! Why no image was made.

use crate::make::remedy::RemedyError;
use image_source::ImageError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum SlimError {
    /// An image could not be read, or its place could not be reached.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The image cannot be helped with what there is.
    #[error(transparent)]
    Refused(#[from] RemedyError),
    /// The output is there already.
    #[error("{0} is there already; --force replaces it")]
    Exists(String),
    /// What was made does not serve the phase.
    #[error("{0}")]
    Unfit(String),
    /// Anything else, in one sentence.
    #[error("{0}")]
    Cannot(String),
}
