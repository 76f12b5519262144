//! A root file system in a tar archive, as written by `docker export` or `mmdebstrap`, read as one layer.
#![expect(clippy::disallowed_methods, reason = "an image source reads the host")]

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt as _;
use std::path::PathBuf;

use crate::foreign_file::{START, describe_foreign_file};
use crate::image::{Image, LayerDescriptor};
use crate::image_error::ImageError;
use crate::platform::Platform;
use crate::source::{BlobStore, ImageDocuments, ImageSource, KeepFile, OpenRequest, OpenedImage, OpenedLayers};
use crate::source_kind::SourceKind;
use image_linkage::layer::{Compression, is_tar};

/// A root file system in an archive, compressed or not. It has no config, so no variables, user or command.
#[derive(Debug, Clone)]
pub(crate) struct RootfsArchive {
    /// The reference as the user wrote it.
    pub reference: String,
    /// A path on the host.
    pub file: PathBuf,
}

impl ImageSource for RootfsArchive {
    fn open(&self, request: &OpenRequest<'_>) -> Result<OpenedImage, ImageError> {
        let blob = ArchiveBlob(self.file.clone());
        // Checked here, where the reference is known: another thread opens the layer.
        let file = blob.open_file()?;
        // Bytes read from a pipe, such as `docker export` into /dev/stdin, would be lost.
        if file.metadata().is_ok_and(|it| it.is_file())
            && let Some(words) = why_no_tar(file).ok().flatten()
        {
            return Err(ImageError::not_an_image(self.file.display().to_string(), words));
        }
        Ok(OpenedImage {
            // The archive does not state its platform.
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

/// Why a file is no tar; `None` if it starts like a tar, compressed or not, or an empty tar.
fn why_no_tar(file: File) -> io::Result<Option<&'static str>> {
    let mut start = Vec::new();
    file.take(START).read_to_end(&mut start)?;
    let is_one = Compression::of(&start) != Compression::None || is_tar(&start) || start.iter().all(|&byte| byte == 0);
    Ok((!is_one).then(|| describe_foreign_file(&start).unwrap_or("it is not a tar archive")))
}

/// The archive itself, as the only blob.
struct ArchiveBlob(PathBuf);

impl ArchiveBlob {
    fn open_file(&self) -> Result<File, ImageError> {
        let file = File::open(&self.0).map_err(ImageError::io(self.0.display()))?;
        let found = file.metadata().map_err(ImageError::io(self.0.display()))?;
        // An empty file means that its writer failed. A device has no end.
        if found.is_file() && found.len() == 0 || found.file_type().is_char_device() {
            let what = self.0.display().to_string();
            return Err(ImageError::not_an_image(what, "it is empty, or a device"));
        }
        Ok(file)
    }
}

impl BlobStore for ArchiveBlob {
    fn open(&self, _layer: &LayerDescriptor) -> Result<Box<dyn Read + Send>, ImageError> {
        Ok(Box::new(self.open_file()?))
    }

    fn find(&self, _layer: &LayerDescriptor) -> Result<(), ImageError> {
        self.open_file().map(drop)
    }
}
