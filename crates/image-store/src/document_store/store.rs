//! What every place for documents does.

use image_source::ImageError;

/// The bytes of one document that are read: the report of an image with every file of CUPTI is a hundredth of that.
pub(super) const DOCUMENT_BYTES: u64 = 64 << 20;

/// A place for documents. Names are `a/b/c`, of letters, digits, `-`, `_` and `.` as the caller makes them.
pub trait DocumentStore: Send + Sync {
    /// The bytes of a document; `None` where there is none.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, ImageError>;

    /// Whether a document is there.
    fn exists(&self, name: &str) -> Result<bool, ImageError>;

    /// Makes a document whole, of several that try at once by one alone; `false` where it was there before, and stays as it
    /// was.
    fn create(&self, name: &str, bytes: &[u8]) -> Result<bool, ImageError>;

    /// Makes a document, or puts it in the place of one.
    fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), ImageError>;

    /// Removes a document; one that is not there is no error.
    fn remove(&self, name: &str) -> Result<(), ImageError>;

    /// The names of all documents in a folder and the folders below it, sorted.
    fn list(&self, folder: &str) -> Result<Vec<String>, ImageError>;
}

/// Errors: There are more bytes than a document has.
pub(super) fn check_size(what: &str, bytes: &[u8]) -> Result<(), ImageError> {
    let is_in_bounds = u64::try_from(bytes.len()).is_ok_and(|length| length <= DOCUMENT_BYTES);
    is_in_bounds.then_some(()).ok_or_else(|| ImageError::TooLarge {
        what: what.to_owned(),
        limit: DOCUMENT_BYTES,
    })
}
