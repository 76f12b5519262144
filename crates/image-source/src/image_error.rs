//! Why an image cannot be had or read, in words that say what to do.

use std::{fmt, io};

use image_linkage::digest::Digest;
use image_linkage::layer::LayerError;

/// Why an image could not be opened. Each text is one sentence fragment that says what, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The reference cannot be understood.
    #[error("invalid reference {reference:?}: {reason}")]
    Reference {
        /// The reference as written.
        reference: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The host could not be read: a file, a folder, a socket.
    #[error("{what}: {source}")]
    Io {
        /// The file or socket.
        what: String,
        /// What the system says.
        source: io::Error,
    },
    /// A registry or an engine answered with a refusal, or could not be reached.
    #[error("{0}")]
    Remote(String),
    /// The image, or the tag of it, is not there.
    #[error("{0}")]
    NotFound(String),
    /// What was read is not a container image.
    #[error("{what} is not a container image: {reason}")]
    NotAnImage {
        /// The document or file.
        what: String,
        /// What it is instead, or what is wrong with it.
        reason: String,
    },
    /// The index has no image for the platform.
    #[error(
        "no image for platform {wanted} in {what}; it offers {}; choose one with --platform",
        few(offered)
    )]
    Platform {
        /// The reference or index.
        what: String,
        /// The platform asked for.
        wanted: String,
        /// The platforms the index lists.
        offered: Vec<String>,
    },
    /// Bytes differ from the digest that names them.
    #[error("{what}: expected digest {expected}, found {found}; the source is damaged or was tampered with")]
    Digest {
        /// The blob or document, and where it lies.
        what: String,
        /// The digest in the descriptor.
        expected: Digest,
        /// The digest of the bytes.
        found: String,
    },
    /// More or fewer bytes than the descriptor says.
    #[error("{what}: expected {expected} bytes, read {found}; the source is damaged or was cut short")]
    Size {
        /// The blob or document, and where it lies.
        what: String,
        /// The size in the descriptor.
        expected: u64,
        /// The bytes read until the end, or until one too many.
        found: u64,
    },
    /// A document is larger than its limit.
    #[error("{what} is larger than the limit of {limit} bytes (document)")]
    TooLarge {
        /// The document, or several together.
        what: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// A layer that passed in one pass could not be read.
    #[error(transparent)]
    Layer(#[from] LayerError),
}

/// The first of the names, and how many there are besides.
fn few(names: &[String]) -> String {
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

    /// What is wrong with a name that a user wrote.
    pub fn reference(reference: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Reference {
            reference: reference.into(),
            reason: reason.into(),
        }
    }
}
