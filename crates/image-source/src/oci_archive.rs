//! An OCI image layout in a tar archive, as `skopeo copy … oci-archive:` and `docker buildx -o type=oci` write.

use std::path::PathBuf;

use crate::archive::{self, PreferredDocument, WantedImage};
use crate::image_error::ImageError;
use crate::platform::Platform;
use crate::source::{ImageSource, KeepFile, OpenRequest, OpenedImage};
use crate::source_kind::SourceKind;

/// An image in such an archive, compressed or not.
#[derive(Debug, Clone)]
pub struct OciArchive {
    /// The reference as the user wrote it.
    pub reference: String,
    /// A path of the host.
    pub file: PathBuf,
    /// The tag, name or digest of the image; needed only when there are several.
    pub tag: Option<String>,
}

impl OciArchive {
    fn wanted(&self) -> WantedImage<'_> {
        WantedImage {
            reference: &self.reference,
            name: self.tag.as_deref(),
            docker: SourceKind::DockerArchive,
            first: PreferredDocument::OciIndex,
        }
    }
}

impl ImageSource for OciArchive {
    /// Scans the file and opens blobs where they lie; a compressed file is read in one pass.
    fn open(&self, request: &OpenRequest<'_>) -> Result<OpenedImage, ImageError> {
        archive::open_file(&self.file, &self.wanted(), request)
    }

    fn list_platforms(&self, request: &OpenRequest<'_>) -> Result<Vec<Platform>, ImageError> {
        archive::list_file_platforms(&self.file, &self.wanted(), request)
    }

    fn open_reopenable(&self, request: &OpenRequest<'_>, keep: KeepFile<'_>) -> Result<OpenedImage, ImageError> {
        archive::open_reopenable_file(&self.file, &self.wanted(), request, keep)
    }
}
