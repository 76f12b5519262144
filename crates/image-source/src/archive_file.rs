//! Image archives: a file or standard input.

use std::io;
use std::path::PathBuf;

use crate::archive::{self, DecompressedArchive, PreferredDocument, WantedImage};
use crate::image_error::ImageError;
use crate::platform::Platform;
use crate::source::{ImageSource, KeepFile, OpenRequest, OpenedImage};
use crate::source_kind::SourceKind;

/// An image in a tar archive, optionally compressed, from `docker save`, `podman save`, skopeo or `docker buildx`.
#[derive(Debug, Clone)]
pub struct ArchiveFile {
    /// The reference as written by the user.
    pub reference: String,
    /// The host path.
    pub file: PathBuf,
    /// The name, tag, digest or ID of the image. Needed only if there are several.
    pub name: Option<String>,
    /// The preferred document, because some tools write both formats.
    pub first: PreferredDocument,
}

impl ArchiveFile {
    fn wanted(&self) -> WantedImage<'_> {
        WantedImage {
            reference: &self.reference,
            name: self.name.as_deref(),
            docker: SourceKind::DockerArchive,
            first: self.first,
        }
    }
}

impl ImageSource for ArchiveFile {
    /// Scans the file and opens layers in place. A compressed file is read in one pass.
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

/// The output of `docker save`, or an OCI archive, on standard input. It can be opened once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StdinArchive;

const STDIN: WantedImage<'static> = WantedImage {
    reference: "-",
    name: None,
    docker: SourceKind::DockerArchive,
    first: PreferredDocument::DockerManifest,
};

impl ImageSource for StdinArchive {
    /// Reads standard input to its end in one pass.
    fn open(&self, request: &OpenRequest<'_>) -> Result<OpenedImage, ImageError> {
        archive::open_stream("standard input", io::stdin(), &STDIN, request)
    }

    fn list_platforms(&self, _request: &OpenRequest<'_>) -> Result<Vec<Platform>, ImageError> {
        Err(ImageError::reference(
            STDIN.reference,
            "standard input can be read only once; to audit all platforms, save it to a file",
        ))
    }

    fn open_reopenable(&self, request: &OpenRequest<'_>, keep: KeepFile<'_>) -> Result<OpenedImage, ImageError> {
        // Stored decompressed: a compressed file would still be a one-pass archive.
        let kept = keep(&mut DecompressedArchive::new(io::stdin(), request.limits()))?;
        archive::open_file(&kept, &STDIN, request)
    }
}
