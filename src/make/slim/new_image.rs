//! A new image that is not yet in place: its documents, and the location of its layers' bytes.

use std::io::{Read, Write};
use std::path::PathBuf;

use super::blob_writer::WrittenBlob;
use super::decision::SlimDecision;
use super::new_manifest::MediaFamily;
use super::original_image::OriginalImage;
use super::staging_files::open_staging_file;
use super::{SlimError, interrupt};
use crate::make::patch::layer::AddedLayer;
use image_linkage::layer::{LayerCut, rewrite_layer};
use image_linkage::limits::Limits;
use image_linkage::path::RootPath;
use image_source::{Digest, Platform};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LayerStorage {
    /// Blobs with a digest. Unchanged layers keep theirs; new ones are compressed.
    Blobs,
    /// Plain tars, as in the output of `docker save`.
    Tars,
}

/// How an image is stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ImageForm {
    pub storage: LayerStorage,
    pub family: MediaFamily,
}

impl ImageForm {
    /// The form for a registry; `original` is the manifest of the original image.
    pub(crate) fn of_registry(original: Option<&[u8]>) -> Self {
        Self {
            storage: LayerStorage::Blobs,
            family: MediaFamily::of_manifest(original),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredLayer {
    /// The number of the original layer that it is or derives from; `None` for an added layer.
    pub of: Option<usize>,
    pub blob: WrittenBlob,
    pub media_type: String,
    pub origin: LayerOrigin,
}

/// The location of a layer's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LayerOrigin {
    /// An unchanged layer of the original image.
    Kept(usize),
    Staged(PathBuf),
    /// A layer of the original image that is rewritten on each read.
    Again(usize, LayerCut),
}

/// A new image that is not yet in place.
pub(crate) struct NewImage<'a> {
    pub original: &'a OriginalImage,
    pub(super) decision: &'a SlimDecision,
    pub platform: Platform,
    /// The layers, lowest first.
    pub layers: Vec<StoredLayer>,
    pub config: Vec<u8>,
    pub manifest: Vec<u8>,
    pub manifest_type: &'static str,
    /// The added layer; `None` if nothing was changed.
    pub added: Option<AddedLayer>,
    pub(super) limits: &'a Limits,
}

impl NewImage<'_> {
    /// The blob of a layer as it is stored.
    ///
    /// Errors: Why it cannot be opened.
    pub(crate) fn open_blob(&self, layer: &StoredLayer) -> Result<Box<dyn Read + Send>, SlimError> {
        match &layer.origin {
            LayerOrigin::Kept(number) => self.original.blob(*number),
            LayerOrigin::Staged(path) => Ok(Box::new(interrupt::InterruptibleReader(open_staging_file(path)?))),
            // Such layers only exist for outputs that take tars.
            LayerOrigin::Again(..) => Err(SlimError::Cannot(
                "a layer that is written again is no blob yet".to_owned(),
            )),
        }
    }

    /// Writes the tar of a layer to `out`.
    ///
    /// Errors: An error of the layer or `out`.
    pub(crate) fn write_tar(&self, layer: &StoredLayer, out: &mut dyn Write) -> Result<(), SlimError> {
        let copied = match &layer.origin {
            LayerOrigin::Kept(number) => interrupt::copy_interruptible(&mut self.original.tar(*number)?, out),
            LayerOrigin::Staged(path) => interrupt::copy_interruptible(&mut open_staging_file(path)?, out),
            LayerOrigin::Again(number, cut) => {
                let tar = self.original.tar(*number)?;
                let open = |path: &RootPath| self.decision.open_replacement(*number, path);
                let written = rewrite_layer(tar, cut, &open, self.limits, out);
                return written.map_err(|why| SlimError::Cannot(format!("layer {}: {why}", number + 1)));
            }
        };
        copied
            .map(drop)
            .map_err(|error| SlimError::Cannot(format!("layer {}: {error}", layer.blob.diff_id)))
    }

    /// The digest of the written config.
    pub(crate) fn config_digest(&self) -> Digest {
        Digest::of(&self.config)
    }

    /// The uncompressed size of all layers in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.layers.iter().map(|layer| layer.blob.bytes).sum()
    }
}
