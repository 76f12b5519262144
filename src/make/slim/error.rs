//! Why no image was made.

use image_source::ImageError;

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
