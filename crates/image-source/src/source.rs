//! The trait of all image sources, and its results.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::image::{Image, LayerDescriptor};
use crate::image_error::ImageError;
use crate::platform::Platform;
use crate::registry_reference::RegistryReference;
use image_linkage::digest::Digest;
use image_linkage::layer::{IndexOptions, LayerIndex};
use image_linkage::limits::Limits;

/// A source of images.
pub trait ImageSource {
    /// Reads the manifest and the config of the requested image, verifies them against their digests, and returns
    /// access to its layers.
    fn open(&self, request: &OpenRequest<'_>) -> Result<OpenedImage, ImageError>;

    /// The platforms to choose from; reads only what that takes. Empty if the source has one image without a platform.
    fn list_platforms(&self, request: &OpenRequest<'_>) -> Result<Vec<Platform>, ImageError>;

    /// Opens the image so that its layers can be opened repeatedly. A source that can be read only once passes its
    /// bytes to `keep` and reads the resulting file.
    fn open_reopenable(&self, request: &OpenRequest<'_>, keep: KeepFile<'_>) -> Result<OpenedImage, ImageError>;
}

/// Writes bytes to a file and returns its path.
pub(crate) type KeepFile<'a> = &'a mut dyn FnMut(&mut dyn Read) -> Result<PathBuf, ImageError>;

/// The parameters of every source.
#[derive(Clone, Copy)]
pub struct OpenRequest<'a> {
    /// The platform to choose from an index. `None` means linux on the host's architecture, and any platform if there
    /// is only one.
    pub platform: Option<&'a Platform>,
    /// The limits, and what to look for in layers.
    pub index: &'a IndexOptions,
    /// Receives the progress of a source that reads layers in one pass.
    pub progress: &'a dyn ReadProgress,
    /// Layer indexes from earlier runs with the same `index` options; `None` reads every layer.
    pub cache: Option<&'a dyn KnownLayers>,
}

impl<'a> OpenRequest<'a> {
    /// The limits on what is read.
    pub(crate) fn limits(&self) -> &'a Limits {
        &self.index.limits
    }
}

/// An image and its layers.
pub struct OpenedImage {
    /// The contents of the manifest and the config.
    pub image: Image,
    /// The original documents.
    pub documents: ImageDocuments,
    /// The layers' bytes or indexes.
    pub layers: OpenedLayers,
    /// The registry name of an image in a registry.
    pub home: Option<RegistryReference>,
}

/// The original documents of an image, for writing a changed copy.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ImageDocuments {
    /// The image config; empty for a folder, which has none.
    pub config: Vec<u8>,
    /// The platform's manifest, if the source has one.
    pub manifest: Option<Vec<u8>>,
    /// The image's annotations in the index of a layout.
    pub annotations: BTreeMap<String, String>,
}

/// A cache of layers and of engine images. A failure to store is not an error: the data is read again.
pub trait KnownLayers: Sync {
    /// The cached index of a layer, by its digest if the source states one, else by its diff id. Any difference from
    /// the descriptor is a miss, so that reading the layer reports what is wrong.
    fn find(&self, layer: &LayerDescriptor) -> Option<LayerIndex>;

    /// Stores the index of a fully read layer.
    fn keep(&self, index: &LayerIndex);

    /// The cached image of an engine, by its `id`.
    fn find_image(&self, id: &Digest) -> Option<KnownImage>;

    /// Stores an engine's image whose layers are stored.
    fn keep_image(&self, id: &Digest, image: &Image, documents: &ImageDocuments);
}

/// An image in an engine's archive, without its layers' bytes.
#[derive(Debug, Serialize, Deserialize)]
pub struct KnownImage {
    /// The digest of the manifest, if the archive has one.
    pub digest: Option<Digest>,
    /// The original documents.
    pub documents: ImageDocuments,
    /// The layers, lowest first.
    pub layers: Vec<LayerDescriptor>,
}

/// Access to the layers of an opened image.
pub enum OpenedLayers {
    /// Blobs that can be opened in any order and from several threads.
    Blobs(Box<dyn BlobStore>),
    /// The source was read in one pass. One index per [`Image::layers`], in that order.
    Indexed(Vec<LayerIndex>),
    /// A host folder, which has no layers, and its index.
    Folder(PathBuf, Box<LayerIndex>),
}

/// Opens the blobs of one image.
pub trait BlobStore: Send + Sync {
    /// Opens the blob of `layer` at its start, as stored. The bytes are unverified: the reader must compare size and
    /// digest at the end ([`super::verify`]).
    fn open(&self, layer: &LayerDescriptor) -> Result<Box<dyn Read + Send>, ImageError>;

    /// Checks that the blob of a cached layer exists, if that needs no request.
    ///
    /// Errors: As [`BlobStore::open`]: a folder without a blob is not a complete image, even if the blob is cached.
    // Without a default: a store around another one would hide its answer.
    fn find(&self, layer: &LayerDescriptor) -> Result<(), ImageError>;
}

/// Receives the progress of a long read. Layers are numbered from 0 in the order in which they apply, or in order of
/// arrival if the source is read in one pass.
pub trait ReadProgress: Sync {
    /// Nothing happens for a while; `what` says why.
    fn wait(&self, _what: &str) {}
    /// A layer is about to be read; `bytes` is its stored size, if known.
    fn start(&self, layer: usize, bytes: Option<u64>);
    /// `bytes` more bytes of the stored blob were read.
    fn advance(&self, layer: usize, bytes: u64);
    /// The layer was read to its end.
    fn finish(&self, layer: usize);
}

/// Reports the bytes that are read through it.
pub(crate) struct ProgressReader<'a, R> {
    pub inner: R,
    pub number: usize,
    pub progress: &'a dyn ReadProgress,
}

impl<R: Read> Read for ProgressReader<'_, R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        self.progress.advance(self.number, n as u64);
        Ok(n)
    }
}

/// Ignores all progress, for `--quiet`.
impl ReadProgress for () {
    fn start(&self, _layer: usize, _bytes: Option<u64>) {}
    fn advance(&self, _layer: usize, _bytes: u64) {}
    fn finish(&self, _layer: usize) {}
}
