//! An OCI image layout in a tar archive, as `skopeo copy … oci-archive:` and `docker buildx -o type=oci` write.

use std::path::PathBuf;

use super::archive::{self, PreferredDocument, WantedImage};
use super::{ImageError, ImageSource, OpenRequest, OpenedImage, SourceKind};

/// An image in such an archive, compressed or not.
#[derive(Debug, Clone)]
pub struct OciArchive {
    /// The reference as the user wrote it.
    pub reference: String,
    /// The file.
    pub file: PathBuf,
    /// The tag, name or digest of the image; needed only when there are several.
    pub tag: Option<String>,
}

impl ImageSource for OciArchive {
    /// Scans the file and opens blobs where they lie; a compressed file is read in one pass.
    fn open(&self, request: &OpenRequest<'_>) -> Result<OpenedImage, ImageError> {
        let wanted = WantedImage {
            reference: &self.reference,
            name: self.tag.as_deref(),
            docker: SourceKind::DockerArchive,
            first: PreferredDocument::OciIndex,
        };
        archive::open_file(&self.file, &wanted, request)
    }
}
