//! A root file system in a tar archive, as `docker export` and debootstrap's `mmdebstrap` write it, read as one layer.
#![expect(clippy::disallowed_methods, reason = "an image source reads the host")]

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use crate::image::{Image, LayerDescriptor};
use crate::image_error::ImageError;
use crate::platform::Platform;
use crate::source::{BlobStore, ImageDocuments, ImageSource, KeepFile, OpenRequest, OpenedImage, OpenedLayers};
use crate::source_kind::SourceKind;
use image_linkage::layer::{Compression, detect_compression, is_tar};

/// A root file system in an archive, compressed or not. It has no config: neither variables nor a user nor a command.
#[derive(Debug, Clone)]
pub(crate) struct RootfsArchive {
    /// The reference as the user wrote it.
    pub reference: String,
    /// A path of the host.
    pub file: PathBuf,
}

impl ImageSource for RootfsArchive {
    fn open(&self, request: &OpenRequest<'_>) -> Result<OpenedImage, ImageError> {
        let blob = ArchiveBlob(self.file.clone());
        // Said now, where the reference is known: the layer is opened by a thread of its own.
        let mut start = Vec::new();
        let file = blob.open_file()?;
        file.take(START)
            .read_to_end(&mut start)
            .map_err(ImageError::io(self.file.display()))?;
        if detect_compression(&start) == Compression::None && !is_tar(&start) && start.iter().any(|&byte| byte != 0) {
            return Err(ImageError::not_an_image(
                self.file.display().to_string(),
                "it is no tar archive",
            ));
        }
        Ok(OpenedImage {
            // Nothing in it says for which it is.
            image: Image::of_root(
                &self.reference,
                SourceKind::RootfsArchive,
                request.platform.cloned().unwrap_or_else(Platform::host),
            ),
            documents: ImageDocuments::default(),
            layers: OpenedLayers::Blobs(Box::new(blob)),
            home: None,
        })
    }

    fn list_platforms(&self, _request: &OpenRequest<'_>) -> Result<Vec<Platform>, ImageError> {
        Ok(Vec::new())
    }

    fn open_reopenable(&self, request: &OpenRequest<'_>, _keep: KeepFile<'_>) -> Result<OpenedImage, ImageError> {
        self.open(request)
    }
}

/// The bytes that tell a tar, or a compressed one, from other files: a header.
const START: u64 = 512;

/// The archive itself, which is the only blob.
struct ArchiveBlob(PathBuf);

impl ArchiveBlob {
    fn open_file(&self) -> Result<File, ImageError> {
        File::open(&self.0).map_err(ImageError::io(self.0.display()))
    }
}

impl BlobStore for ArchiveBlob {
    fn open(&self, _layer: &LayerDescriptor) -> Result<Box<dyn Read + Send>, ImageError> {
        Ok(Box::new(self.open_file()?))
    }
}
