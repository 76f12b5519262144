//! An image whose layers can be opened again: what can be read only once is put into a file first.

use std::io::{self, BufReader, Read};
use std::path::Path;

use tempfile::NamedTempFile;

use super::SlimError;
use super::interrupt;
use crate::facts::{self, ImageFacts, ReadLayers};
use crate::judge::image_reading::ReadOptions;
use image_linkage::digest::VerifiedReader;
use image_linkage::layer::DecompressedReader;
use image_linkage::layer::{LayerEntry, LayerIndex};
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;
use image_source::{BlobStore, Image, ImageDocuments, ImageError, OpenedImage, OpenedLayers, RegistryReference};

/// The bytes of a blob that are read at a time.
const CHUNK: usize = 128 << 10;

/// An image that was read, and its blobs.
pub(crate) struct OriginalImage {
    /// What the manifest and the config say.
    pub image: Image,
    /// The documents that say it.
    pub documents: ImageDocuments,
    /// What the layers hold, one index for each.
    pub layers: Vec<LayerIndex>,
    /// The name in a registry, of an image in one.
    pub home: Option<RegistryReference>,
    blobs: Box<dyn BlobStore>,
    /// The file that an archive was put into; it goes with the image.
    _kept: Option<NamedTempFile>,
}

impl OriginalImage {
    /// Reads the image that `written` names; what can be read only once is kept in `folder`.
    ///
    /// Errors: As a source says, and for a folder, which has no layers.
    pub(crate) fn read(written: &str, options: &ReadOptions<'_>, folder: &Path) -> Result<Self, SlimError> {
        let (opened, kept) = open_reopenable(written, options, folder)?;
        Self::new(opened, kept, options)
    }

    /// The image that was opened by [`open_reopenable`], its layers read.
    ///
    /// Errors: Why a layer cannot be read; a folder has none.
    pub(super) fn new(
        opened: OpenedImage,
        kept: Option<NamedTempFile>,
        options: &ReadOptions<'_>,
    ) -> Result<Self, SlimError> {
        let written = &opened.image.reference;
        let blobs = match opened.layers {
            OpenedLayers::Blobs(blobs) => blobs,
            OpenedLayers::Folder(..) => {
                return Err(SlimError::Cannot(format!(
                    "{written} is a folder and has no layers that could be kept; name an image"
                )));
            }
            OpenedLayers::Indexed(_) => {
                return Err(SlimError::Cannot(format!(
                    "{written} can be read only once; save it to a file"
                )));
            }
        };
        // The first of several times: a layer is written again from its blob, and read once more for its place.
        let layers = image_source::read_layers(
            &opened.image,
            &interrupt::InterruptibleBlobs(&*blobs),
            &options.open_request(),
        )?;
        let layers = layers
            .into_iter()
            .map(|layer| {
                // An audit tells a gap; here the layer is to be written again, and half of it must not be.
                layer.map_err(|unread| SlimError::Cannot(format!("{}: {}", unread.what, unread.why)))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            image: opened.image,
            documents: opened.documents,
            layers,
            home: opened.home,
            blobs,
            _kept: kept,
        })
    }

    pub(crate) fn facts(&self, options: &ReadOptions<'_>) -> ImageFacts {
        let layers = self.layers.iter().cloned().map(Ok).collect();
        facts::gather_facts(
            self.image.clone(),
            ReadLayers { layers },
            options.knowledge,
            &options.conditions,
        )
    }

    /// That the bytes of all layers can go on with the image.
    ///
    /// Errors: When those of one are elsewhere.
    pub(crate) fn require_own_layers(&self) -> Result<(), SlimError> {
        // image-spec, layer.md, "Non-Distributable Layers": an archive does not hold such a blob.
        let mut layers = self.image.layers.iter().zip(&self.layers);
        match layers.find(|(layer, _)| layer.is_foreign()) {
            Some((_, index)) => {
                let text = format!("layer {} is foreign: its bytes are elsewhere", index.digest);
                Err(SlimError::Cannot(text))
            }
            None => Ok(()),
        }
    }

    /// The blob of a layer as it is stored; it fails at its end if it is not what was read before.
    ///
    /// Errors: Why it cannot be opened.
    pub(crate) fn blob(&self, number: usize) -> Result<Box<dyn Read + Send>, SlimError> {
        let (Some(layer), Some(index)) = (self.image.layers.get(number), self.layers.get(number)) else {
            return Err(SlimError::Cannot(format!("there is no layer {}", number + 1)));
        };
        let blob = self.blobs.open(layer)?;
        let what = format!("layer {}", index.digest);
        let size = index.compressed_bytes;
        let verified = VerifiedReader::new(blob, what, index.digest.clone(), size);
        Ok(Box::new(interrupt::InterruptibleReader(
            verified.map_err(SlimError::Cannot)?,
        )))
    }

    /// The tar of a layer; it fails when there is more of it than before.
    ///
    /// Errors: Why its blob cannot be opened.
    pub(crate) fn tar(&self, number: usize) -> Result<impl Read + Send + use<>, SlimError> {
        let blob = BufReader::with_capacity(CHUNK, self.blob(number)?);
        Ok(SizedTar {
            inner: DecompressedReader::new(blob),
            left: self.layers.get(number).map_or(0, |index| index.bytes),
        })
    }

    /// Where the bytes of a file of `merged`, the file system of the layers, lie: in which layer, at which path of it.
    pub(crate) fn locate_file(&self, merged: &Rootfs, path: &RootPath) -> Option<(usize, RootPath)> {
        let found = merged.lookup_link(&path.absolute()).ok()?;
        let mut number = merged.node(found.node).layer;
        let mut at = found.path;
        // A hard link may lead to a file of a layer below, where it may be one again.
        loop {
            match self.layers.get(number)?.entries.get(at.as_bytes()) {
                Some(LayerEntry::File(_)) => return Some((number, at)),
                Some(LayerEntry::Hardlink(target)) if *target != at => at = target.clone(),
                _ => number = number.checked_sub(1)?,
            }
        }
    }
}

/// Opens an image so that its layers can be read again; what can be read only once is kept in a file in `folder`.
///
/// Errors: As a source says.
pub(super) fn open_reopenable(
    written: &str,
    options: &ReadOptions<'_>,
    folder: &Path,
) -> Result<(OpenedImage, Option<NamedTempFile>), SlimError> {
    let mut kept = None;
    let mut keep = |from: &mut dyn Read| {
        let file = keep_in_file(from, written, folder)?;
        let path = file.path().to_owned();
        kept = Some(file);
        Ok(path)
    };
    let request = options.open_request();
    let opened = image_source::open_reopenable_image(written, &options.registry, &request, &mut keep)?;
    Ok((opened, kept))
}

/// A tar of a known size. That the blob is another one is only seen at its end, which might never come.
struct SizedTar<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for SizedTar<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        self.left = self
            .left
            .checked_sub(n as u64)
            .ok_or_else(|| io::Error::other("it holds more than when it was read before; the source has changed"))?;
        Ok(n)
    }
}

impl std::fmt::Debug for OriginalImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Original").field(&self.image.reference).finish()
    }
}

fn keep_in_file(from: &mut dyn Read, written: &str, folder: &Path) -> Result<NamedTempFile, ImageError> {
    let copied = NamedTempFile::new_in(folder).and_then(|mut file| {
        interrupt::copy_interruptible(from, &mut file)?;
        Ok(file)
    });
    copied.map_err(|source| {
        let what = format!("{written}, as it is kept in {}", folder.display());
        ImageError::Io { what, source }
    })
}
