//! Stores small named documents in a folder or in object storage, with any number of concurrent writers.

mod aws_credentials;
mod bucket_store;
mod folder_store;
mod store;

use std::path::Path;

use bucket_store::BucketStore;
use folder_store::FolderStore;
use image_source::ImageError;
pub use store::DocumentStore;

const NO_FOLDER: &str = "it is a file, and results are in a folder; is it the worklist?";

/// Opens the user's storage location: `s3://BUCKET[/PREFIX]`, `file:///DIR` or a folder, which may not exist yet.
///
/// Errors: [`ImageError::Reference`] for another kind of location, [`ImageError::Remote`] without credentials for a
/// bucket.
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
        _ if Path::new(folder).is_file() => Err(ImageError::reference(place, NO_FOLDER)),
        _ => Ok(Box::new(FolderStore::new(folder.into()))),
    }
}
