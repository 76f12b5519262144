//! Small documents under names, in a folder or in object storage, which any number of processes write at once.

mod aws_credentials;
mod bucket_store;
mod folder_store;

use crate::image_error::ImageError;
use bucket_store::BucketStore;
use folder_store::FolderStore;

/// The bytes of one document that are read: the report of an image with every file of CUPTI is a hundredth of that.
const DOCUMENT_BYTES: u64 = 64 << 20;

/// What became of a document that was to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentOutcome {
    /// It was not there, and now it is, whole.
    Created,
    /// Somebody else made it before, and it stays as it was.
    There,
}

/// A place for documents. Names are `a/b/c`, of letters, digits, `-`, `_` and `.` as the caller makes them.
pub trait DocumentStore: Send + Sync {
    /// The bytes of a document; `None` where there is none.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, ImageError>;

    /// Whether a document is there.
    fn exists(&self, name: &str) -> Result<bool, ImageError>;

    /// Makes a document, of several that try at once by one alone.
    fn create(&self, name: &str, bytes: &[u8]) -> Result<DocumentOutcome, ImageError>;

    /// Makes a document, or puts it in the place of one.
    fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), ImageError>;

    /// Removes a document; one that is not there is no error.
    fn remove(&self, name: &str) -> Result<(), ImageError>;

    /// The names of all documents in a folder and the folders below it, sorted.
    fn list(&self, folder: &str) -> Result<Vec<String>, ImageError>;
}

/// Opens the place that a user names: `s3://BUCKET[/PREFIX]`, `file:///DIR` or a folder, which need not be there yet.
///
/// Errors: [`ImageError::Reference`] for another kind of place, [`ImageError::Remote`] without credentials for a bucket.
pub fn open_document_store(place: &str) -> Result<Box<dyn DocumentStore>, ImageError> {
    if let Some(bucket) = place.strip_prefix("s3://") {
        return Ok(Box::new(BucketStore::open(place, bucket)?));
    }
    let folder = place.strip_prefix("file://").unwrap_or(place);
    match place.split_once("://") {
        Some((scheme, _)) if scheme != "file" => Err(ImageError::reference(
            place,
            format!(
                "nothing is kept in {scheme}://; there are a folder, file:///DIR and s3://BUCKET/PREFIX (another cloud's bucket can be mounted as a folder)"
            ),
        )),
        Some(_) if !folder.starts_with('/') => {
            Err(ImageError::reference(place, "file:// takes a whole path: file:///DIR"))
        }
        _ if folder.is_empty() => Err(ImageError::reference(
            place,
            "it is empty; name a folder or s3://BUCKET/PREFIX",
        )),
        _ => Ok(Box::new(FolderStore::new(folder.into()))),
    }
}

/// Errors: There are more bytes than a document has.
fn check_size(what: &str, bytes: &[u8]) -> Result<(), ImageError> {
    let is_in_bounds = u64::try_from(bytes.len()).is_ok_and(|length| length <= DOCUMENT_BYTES);
    is_in_bounds.then_some(()).ok_or_else(|| ImageError::TooLarge {
        what: what.to_owned(),
        limit: DOCUMENT_BYTES,
    })
}
