//! Reads back the written image with the ordinary reader before it is moved into place.

use std::io;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::engine;
use super::layout::{self, KeptBlobs};
use crate::make::slim::SlimError;
use crate::make::slim::interrupt::InterruptibleReader;
use crate::make::slim::new_image::NewImage;
use image_linkage::digest::VerifiedReader;
use image_linkage::layer::{ExpectedBlob, IndexOptions, LayerIndex, index_layer};
use image_source::{
    ArchiveFile, BlobStore, EngineImage, EngineKind, Image, ImageError, ImageSource, LayerDescriptor, OciLayout,
    OpenRequest, OpenedLayers, PreferredDocument,
};

/// A written image that is not yet in place.
pub(crate) enum WrittenImage {
    /// An OCI image layout in the staging folder, and whether it contains the blobs of the original.
    Layout(PathBuf, KeptBlobs),
    /// An archive beside its place, and the document to read it by.
    Archive(NamedTempFile, PreferredDocument),
    /// Nothing is stored: the archive is written again for the engine.
    Stream(String),
}

/// A new image as its recipient reads it.
pub(crate) struct ReadImage {
    pub image: Image,
    pub layers: Vec<LayerIndex>,
}

impl WrittenImage {
    /// Writes only the new parts of an image into `folder`; blobs shared with the original are not copied.
    ///
    /// Errors: Why it could not be written.
    pub(crate) fn of_new_blobs(made: &NewImage<'_>, folder: &Path) -> Result<Self, SlimError> {
        let written = layout::write_layout(made, None, KeptBlobs::Elsewhere, folder);
        written.map(|dir| Self::Layout(dir, KeptBlobs::Elsewhere))
    }

    /// Reads the written image, which will be named `reference`, and verifies all digests and diff ids.
    ///
    /// Errors: What is wrong with it.
    pub(crate) fn read_back(
        &self,
        made: &NewImage<'_>,
        reference: String,
        index: &IndexOptions,
    ) -> Result<ReadImage, SlimError> {
        let request = OpenRequest {
            platform: None,
            index,
            progress: &(),
            cache: None,
        };
        let (opened, kept) = match self {
            Self::Layout(dir, kept) => {
                let (dir, tag) = (dir.clone(), None);
                (OciLayout { reference, dir, tag }.open(&request)?, *kept)
            }
            Self::Archive(file, first) => {
                let archive = ArchiveFile {
                    reference,
                    file: file.path().to_owned(),
                    name: None,
                    first: *first,
                };
                (archive.open(&request)?, KeptBlobs::Copied)
            }
            Self::Stream(name) => {
                let engine = EngineImage {
                    reference,
                    ..EngineImage::new(EngineKind::Docker, name)
                };
                let opened = engine::stream_archive(made, name, |archive| engine.open_saved(archive, &request))?;
                (opened, KeptBlobs::Copied)
            }
        };
        let layers = match opened.layers {
            OpenedLayers::Indexed(layers) => layers,
            OpenedLayers::Blobs(blobs) => {
                let layers = opened.image.layers.iter();
                let read = layers.map(|layer| read_layer(made, layer, &*blobs, kept, index));
                read.collect::<Result<_, _>>()?
            }
            OpenedLayers::Folder(..) => return Err(SlimError::Cannot("a folder is no image".to_owned())),
        };
        let image = opened.image;
        Ok(ReadImage { image, layers })
    }
}

/// Reads one layer. A blob of the original was already read, so its digest is verified without decompressing it again.
fn read_layer(
    made: &NewImage<'_>,
    layer: &LayerDescriptor,
    blobs: &dyn BlobStore,
    kept: KeptBlobs,
    options: &IndexOptions,
) -> Result<LayerIndex, SlimError> {
    let known =
        made.original.layers.iter().find(|known| {
            layer.digest.as_ref() == Some(&known.digest) && layer.diff_id.as_ref() == Some(&known.diff_id)
        });
    if let Some(known) = known.filter(|_| kept == KeptBlobs::Elsewhere) {
        return Ok(known.clone());
    }
    let digest = layer.digest.as_ref().or(layer.diff_id.as_ref());
    let what = digest.map(ToString::to_string).unwrap_or_default();
    let blob = InterruptibleReader(blobs.open(layer)?);
    if let Some(known) = known {
        let mut verified = VerifiedReader::new(
            blob,
            format!("layer {what}"),
            known.digest.clone(),
            known.compressed_bytes,
        )
        .map_err(SlimError::Cannot)?;
        return match io::copy(&mut verified, &mut io::sink()) {
            Ok(_) => Ok(known.clone()),
            Err(source) => Err(ImageError::Io { what, source }.into()),
        };
    }
    let expected = ExpectedBlob {
        digest: layer.digest.as_ref(),
        size: layer.size,
        diff_id: layer.diff_id.as_ref(),
    };
    index_layer(&what, blob, &expected, options).map_err(|error| SlimError::Image(error.into()))
}
