//! The operations of a document store.

use image_source::ImageError;

/// The size limit of a document: a hundred times the report of an image with every CUPTI file.
pub(super) const DOCUMENT_BYTES: u64 = 64 << 20;

/// A document store. Names are `a/b/c`; the caller limits them to letters, digits, `-`, `_` and `.`.
pub trait DocumentStore: Send + Sync {
    /// The bytes of a document; `None` if it does not exist.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, ImageError>;

    /// Whether a document exists.
    fn exists(&self, name: &str) -> Result<bool, ImageError>;

    /// Creates a complete document. If several writers try at once, one succeeds; `false` means that it already
    /// existed and is unchanged.
    fn create(&self, name: &str, bytes: &[u8]) -> Result<bool, ImageError>;

    /// Creates or replaces a document.
    fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), ImageError>;

    /// Removes a document; a missing one is not an error.
    fn remove(&self, name: &str) -> Result<(), ImageError>;

    /// The names of all documents in a folder and its subfolders, sorted.
    fn list(&self, folder: &str) -> Result<Vec<String>, ImageError>;
}

/// Errors: The document exceeds the size limit.
pub(super) fn check_size(what: &str, bytes: &[u8]) -> Result<(), ImageError> {
    let is_in_bounds = u64::try_from(bytes.len()).is_ok_and(|length| length <= DOCUMENT_BYTES);
    is_in_bounds.then_some(()).ok_or_else(|| ImageError::TooLarge {
        what: what.to_owned(),
        limit: DOCUMENT_BYTES,
    })
}
