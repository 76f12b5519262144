//! The output of `docker save`: a file, or standard input.

use std::path::PathBuf;

use super::archive::{self, PreferredDocument, WantedImage};
use super::{ImageError, ImageSource, OpenRequest, OpenedImage, SourceKind};

/// An image in a file that `docker save`, `podman save`, skopeo or `docker buildx` wrote, compressed or not.
#[derive(Debug, Clone)]
pub struct DockerArchive {
    /// The reference as the user wrote it.
    pub reference: String,
    /// The file.
    pub file: PathBuf,
    /// The name or id of the image; needed only when there are several.
    pub name: Option<String>,
}

impl ImageSource for DockerArchive {
    /// Scans the file and opens layers where they lie; a compressed file is read in one pass.
    fn open(&self, request: &OpenRequest<'_>) -> Result<OpenedImage, ImageError> {
        let wanted = WantedImage {
            reference: &self.reference,
            name: self.name.as_deref(),
            docker: SourceKind::DockerArchive,
            first: PreferredDocument::DockerManifest,
        };
        archive::open_file(&self.file, &wanted, request)
    }
}

/// The output of `docker save`, or an OCI archive, on standard input. It can be opened once.
#[derive(Debug, Clone, Copy)]
pub struct StdinArchive;

impl ImageSource for StdinArchive {
    /// Reads standard input to its end, in one pass.
    fn open(&self, request: &OpenRequest<'_>) -> Result<OpenedImage, ImageError> {
        let wanted = WantedImage {
            reference: "-",
            name: None,
            docker: SourceKind::DockerArchive,
            first: PreferredDocument::DockerManifest,
        };
        archive::open_stream("standard input", std::io::stdin(), &wanted, request)
    }
}
