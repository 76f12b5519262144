//! The one trait that all image sources implement, and what they hand over.

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

/// A place an image comes from.
pub trait ImageSource {
    /// Reads the manifest and the config of the image that `request` asks for, verified against their
    /// digests, and says how its layers can be had.
    fn open(&self, request: &OpenRequest<'_>) -> Result<OpenedImage, ImageError>;

    /// The platforms that the source would choose from, with nothing read beyond what choosing takes. None, where it
    /// holds one image that does not say its platform.
    fn list_platforms(&self, request: &OpenRequest<'_>) -> Result<Vec<Platform>, ImageError>;

    /// Opens the image so that its layers can be opened more than once: a source that can be read only once gives its
    /// bytes to `keep` and is read from there.
    fn open_reopenable(&self, request: &OpenRequest<'_>, keep: KeepFile<'_>) -> Result<OpenedImage, ImageError>;
}

/// Puts bytes into a file and says where it is.
pub(crate) type KeepFile<'a> = &'a mut dyn FnMut(&mut dyn Read) -> Result<PathBuf, ImageError>;

/// What every source is asked with.
#[derive(Clone, Copy)]
pub struct OpenRequest<'a> {
    /// The platform to choose from an index; `None` means linux on the host's architecture, and any
    /// platform where the source holds only one.
    pub platform: Option<&'a Platform>,
    /// The bounds on what is read, and what is looked for in layers that a source indexes itself.
    pub index: &'a IndexOptions,
    /// Told of the bytes of layers that a one-pass source reads.
    pub progress: &'a dyn ReadProgress,
    /// The indexes of layers that were read before with the same `index`; `None` reads every layer.
    pub cache: Option<&'a dyn KnownLayers>,
}

impl<'a> OpenRequest<'a> {
    /// The bounds on what is read.
    pub(crate) fn limits(&self) -> &'a Limits {
        &self.index.limits
    }
}

/// An image and its layers.
pub struct OpenedImage {
    /// What the manifest and the config say.
    pub image: Image,
    /// The documents that say it.
    pub documents: ImageDocuments,
    /// The layers' bytes, or what was read from them.
    pub layers: OpenedLayers,
    /// The name in a registry, of an image that is in one.
    pub home: Option<RegistryReference>,
}

/// The documents of an image as they are stored, for who writes it again with something changed.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ImageDocuments {
    /// The image config; empty for a folder, which has none.
    pub config: Vec<u8>,
    /// The manifest of the platform, where the source has one of its own.
    pub manifest: Option<Vec<u8>>,
    /// What the index of a layout says of the image beside its descriptor.
    pub annotations: BTreeMap<String, String>,
}

/// What was kept of layers and of an engine's images. What cannot be kept is no error: it is read again.
pub trait KnownLayers: Sync {
    /// The index of a layer that was read before: by its digest where the source states one, else by its diff id. One
    /// that differs from the descriptor in anything is none, so that reading the layer tells what is wrong.
    fn find(&self, layer: &LayerDescriptor) -> Option<LayerIndex>;

    /// Keeps the index of a layer that was read to its end.
    fn keep(&self, index: &LayerIndex);

    /// What was kept of the image that an engine knows by `id`.
    fn find_image(&self, id: &Digest) -> Option<KnownImage>;

    /// Keeps what the archive of an engine's image says, whose layers were kept.
    fn keep_image(&self, id: &Digest, image: &Image, documents: &ImageDocuments);
}

/// What an engine's archive said of an image, beside its layers' bytes.
#[derive(Debug, Serialize, Deserialize)]
pub struct KnownImage {
    /// The digest of the manifest, where the archive has one.
    pub digest: Option<Digest>,
    /// The documents as they were.
    pub documents: ImageDocuments,
    /// The layers, the lowest first.
    pub layers: Vec<LayerDescriptor>,
}

/// How the layers of an opened image can be had.
pub enum OpenedLayers {
    /// Blobs can be opened in any order and from several threads.
    Blobs(Box<dyn BlobStore>),
    /// The source was read in one pass, and its layers indexed while they passed: one index per
    /// [`Image::layers`], in that order.
    Indexed(Vec<LayerIndex>),
    /// A folder of the host, which has no layers, and what it holds.
    Folder(PathBuf, Box<LayerIndex>),
}

/// Opens the blobs of one image.
pub trait BlobStore: Send + Sync {
    /// Opens the blob of `layer` at its start, bytes as stored. The bytes are not verified yet: who reads
    /// them compares size and digest at the end ([`super::verify`]).
    fn open(&self, layer: &LayerDescriptor) -> Result<Box<dyn Read + Send>, ImageError>;

    /// Looks for the blob of a layer whose bytes are known, where that costs no request.
    ///
    /// Errors: As [`BlobStore::open`]: a folder that lacks a blob holds no image, whatever is known of the blob.
    fn find(&self, _layer: &LayerDescriptor) -> Result<(), ImageError> {
        Ok(())
    }
}

/// Told what a long read has done so far. Layers are numbered from 0 in the order in which they apply, or
/// in the order of arrival for a source that is read in one pass.
pub trait ReadProgress: Sync {
    /// Nothing comes for a while, because `what` is the case.
    fn wait(&self, _what: &str) {}
    /// A layer's blob is about to be read; `bytes` is its stored size, where it is known.
    fn start(&self, layer: usize, bytes: Option<u64>);
    /// `bytes` more bytes of the stored blob were read.
    fn advance(&self, layer: usize, bytes: u64);
    /// The layer has been read to its end.
    fn finish(&self, layer: usize);
}

/// Tells of the bytes that are read through it.
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

/// Says nothing: for `--quiet`.
impl ReadProgress for () {
    fn start(&self, _layer: usize, _bytes: Option<u64>) {}
    fn advance(&self, _layer: usize, _bytes: u64) {}
    fn finish(&self, _layer: usize) {}
}
