//! An image whose layers can be opened repeatedly. A source that can only be read once is saved to a file first.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::SlimError;
use super::interrupt;
use super::staging_files::StagingFile;
use crate::facts::{self, ImageFacts, ReadLayers};
use crate::judge::image_reading::ReadOptions;
use image_linkage::digest::VerifiedReader;
use image_linkage::layer::{self, DecompressedReader};
use image_linkage::layer::{LayerEntry, LayerIndex, LayerProblem, ProblemKind};
use image_linkage::limits::Limits;
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;
use image_source::{BlobStore, Image, ImageDocuments, ImageError, OpenedImage, OpenedLayers, RegistryReference};

/// The number of blob bytes read at a time.
const CHUNK: usize = 128 << 10;

/// An image that was read, and its blobs.
pub(crate) struct OriginalImage {
    /// The data of the manifest and the config.
    pub image: Image,
    /// The manifest and the config as stored.
    pub documents: ImageDocuments,
    /// The contents of the layers, one index each.
    pub layers: Vec<LayerIndex>,
    /// The registry name of a registry image.
    pub home: Option<RegistryReference>,
    blobs: Box<dyn BlobStore>,
    /// The saved copy of an archive, deleted together with the image.
    _kept: Option<NamedTempFile>,
}

impl OriginalImage {
    /// Reads the image that `written` names. A source that can only be read once is saved to `folder`.
    ///
    /// Errors: Those of the source. A folder is an error, because it has no layers, and so is a file that was not read,
    /// because the audit of no new image would pass.
    pub(crate) fn read(written: &str, options: &ReadOptions<'_>, folder: &Path) -> Result<Self, SlimError> {
        let (opened, kept) = open_reopenable(written, options, folder)?;
        let read = Self::new(opened, kept, options)?;
        let mut problems = read.layers.iter().flat_map(|layer| &layer.problems);
        match problems.find(|problem| problem.kind == ProblemKind::Unread) {
            Some(LayerProblem { path, what, .. }) => Err(SlimError::Cannot(format!(
                "{written} was not read whole: {path}: {what}"
            ))),
            None => Ok(read),
        }
    }

    /// Reads the layers of an image from [`open_reopenable`].
    ///
    /// Errors: Why a layer cannot be read. A folder has none.
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
                    "{written} has no layers that could be kept; name an image"
                )));
            }
        };
        // The first of several reads: a layer is read again to rewrite it, and to copy it to its place.
        let mut layers: Vec<LayerIndex> = Vec::new();
        for layer in image_source::read_layers(
            &opened.image,
            &interrupt::InterruptibleBlobs(&*blobs),
            &options.open_request(),
        )? {
            // An audit reports a gap, but a rewritten layer must not be incomplete.
            layers.push(layer.map_err(|unread| SlimError::Cannot(format!("{}: {}", unread.what, unread.why)))?);
        }
        let mut documents = opened.documents;
        if documents.config.is_empty() {
            documents.config = minimal_config(&opened.image, &layers);
        }
        Ok(Self {
            image: opened.image,
            documents,
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

    /// The stored blob of a layer. Reading fails at its end if it has changed since the first read.
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

    /// The tar of a layer. Reading fails if it is longer than at the first read.
    ///
    /// Errors: Why its blob cannot be opened.
    pub(crate) fn tar(&self, number: usize) -> Result<impl Read + Send + use<>, SlimError> {
        let blob = BufReader::with_capacity(CHUNK, self.blob(number)?);
        Ok(SizedTar {
            inner: DecompressedReader::new(blob),
            left: self.layers.get(number).map_or(0, |index| index.bytes),
        })
    }

    /// Extracts files of a layer to the host, and returns their places in `folder`: `name`, the layer and a number, so that
    /// a name from the image never becomes a host path. Files that are stored as sparse files are left out.
    ///
    /// Errors: The layer cannot be read, or a file cannot be written.
    pub(super) fn extract_files(
        &self,
        layer: usize,
        stored: &BTreeSet<RootPath>,
        limits: &Limits,
        (folder, name): (&Path, &str),
    ) -> Result<BTreeMap<RootPath, PathBuf>, SlimError> {
        let place = |path: &RootPath| {
            let number = stored.iter().position(|stored| stored == path).unwrap_or(0);
            folder.join(format!("{name}-{layer}-{number}"))
        };
        let mut files: BTreeMap<RootPath, StagingFile> = BTreeMap::new();
        let sparse = layer::extract_files(self.tar(layer)?, stored, limits, |path, piece| {
            if piece.is_empty() {
                // A later member of the same path replaces the earlier one.
                files.insert(path.clone(), StagingFile::create(place(path))?);
            }
            files.get_mut(path).map_or(Ok(()), |file| file.write_all(piece))
        })
        .map_err(SlimError::Cannot)?;
        let whole = files.into_keys().filter(|path| !sparse.contains(path));
        Ok(whole.map(|path| (path.clone(), place(&path))).collect())
    }

    /// The layer number and the path in that layer of the bytes of a file; `merged` is the merged file system of all
    /// layers.
    pub(crate) fn locate_file(&self, merged: &Rootfs, path: &RootPath) -> Option<(usize, RootPath)> {
        let found = merged.lookup_link(&path.absolute()).ok()?;
        let mut number = merged.node(found.node).layer;
        let mut at = found.path;
        // A hard link may point to a file in a lower layer, which may again be a hard link.
        loop {
            let (stored, entry) = self.layers.get(number)?.follow_hardlink(&at);
            let (stored, is_file) = (stored.clone(), matches!(entry, Some(LayerEntry::File(_))));
            if is_file {
                return Some((number, stored));
            }
            at = stored;
            number = number.checked_sub(1)?;
        }
    }
}

/// The config of an archive of a root file system, which has none (image-spec, config.md, required fields).
fn minimal_config(image: &Image, layers: &[LayerIndex]) -> Vec<u8> {
    let diff_ids: Vec<&str> = layers.iter().map(|layer| layer.diff_id.as_ref()).collect();
    let platform = &image.platform;
    let config = serde_json::json!({
        "architecture": platform.architecture,
        "os": platform.os,
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    });
    config.to_string().into_bytes()
}

/// Opens an image so that its layers can be read repeatedly. A source that can only be read once is saved to a file in
/// `folder`.
///
/// Errors: Those of the source.
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

/// A tar of a known size. A changed blob is only detected at its end, which might never come.
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
