//! Why an image could not be opened or read.

use std::{fmt, io};

use image_linkage::digest::Digest;
use image_linkage::layer::LayerError;

/// Why an image could not be opened. Each text says what failed, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The reference has no valid form.
    #[error("invalid reference {reference:?}: {reason}")]
    Reference {
        /// The reference as written.
        reference: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A file, a folder or a socket of the host could not be read.
    #[error("{what}: {source}")]
    Io {
        /// The file or socket.
        what: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A registry or an engine refused the request, or could not be reached.
    #[error("{0}")]
    Remote(String),
    /// The image, or its tag, does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The bytes are not a container image.
    #[error("{what} is not a container image: {reason}")]
    NotAnImage {
        /// The document or file.
        what: String,
        /// What it is instead, or what is wrong with it.
        reason: String,
    },
    /// The media types are those of a chart, a signature, an attestation or another artifact.
    #[error("{what} is not a container image: {reason}")]
    Artifact {
        /// The document.
        what: String,
        /// The media type that shows it.
        reason: String,
    },
    /// The index has no image for the platform.
    #[error("no image{}", platform_words(what, wanted, offered))]
    Platform {
        /// The reference or index.
        what: String,
        /// The requested platform.
        wanted: String,
        /// The platforms in the index.
        offered: Vec<String>,
    },
    /// The bytes do not match their digest.
    #[error("{what}: expected digest {expected}, found {found}; the source is damaged or was tampered with")]
    Digest {
        /// The blob or document, and its location.
        what: String,
        /// The digest in the descriptor.
        expected: Digest,
        /// The digest of the bytes.
        found: String,
    },
    /// There are more or fewer bytes than the descriptor states.
    #[error("{what}: expected {expected} bytes, read {found}; the source is damaged or was cut short")]
    Size {
        /// The blob or document, and its location.
        what: String,
        /// The size in the descriptor.
        expected: u64,
        /// The bytes read before the end, or before the first surplus byte.
        found: u64,
    },
    /// A document exceeds its size limit.
    #[error("{what} is larger than the limit of {limit} bytes (document)")]
    TooLarge {
        /// The document, or several together.
        what: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// A layer of a stream could not be read.
    #[error(transparent)]
    Layer(#[from] LayerError),
}

/// What is offered instead of the platform.
fn platform_words(what: &str, wanted: &str, offered: &[String]) -> String {
    match offered {
        [] => format!(" is in {what}: its index lists none; copy the image into it again"),
        _ => format!(
            " for platform {wanted} in {what}; it offers {}; choose one with --platform",
            join_names(offered)
        ),
    }
}

/// Joins the first 16 names, and counts the rest.
fn join_names(names: &[String]) -> String {
    const SHOWN: usize = 16;
    let shown = names
        .iter()
        .take(SHOWN)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

impl ImageError {
    /// For `map_err`: the file or socket `what` could not be read.
    pub fn io(what: impl fmt::Display) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io {
            what: what.to_string(),
            source,
        }
    }

    pub(crate) fn not_an_image(what: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::NotAnImage {
            what: what.into(),
            reason: reason.into(),
        }
    }

    pub(crate) fn artifact(what: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Artifact {
            what: what.into(),
            reason: reason.into(),
        }
    }

    /// The user's name for an image is invalid.
    pub fn reference(reference: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Reference {
            reference: reference.into(),
            reason: reason.into(),
        }
    }
}
