//! An image whose layers can be opened again: what can be read only once is put into a file first.
#![expect(
    clippy::disallowed_methods,
    reason = "an archive that can be read only once is kept in a file"
)]

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use tempfile::NamedTempFile;

use super::SlimError;
use super::interrupt;
use crate::judge::facts::{self, ImageFacts, ReadLayers};
use crate::judge::image_reading::{self, ReadOptions};
use image_linkage::digest::VerifiedReader;
use image_linkage::layer::decompress::DecompressedReader;
use image_linkage::layer::{LayerEntry, LayerIndex};
use image_linkage::path::RootPath;
use image_linkage::rootfs;
use image_source::archive::{DecompressedArchive, is_compressed};
use image_source::engine::{EngineEnvironment, EngineImage, EngineKind};
use image_source::reference::{self, ImageReference};
use image_source::{
    BlobStore, Image, ImageDocuments, ImageError, OpenedLayers, SourceKind, host_path_kind,
};

/// The bytes of a blob that are read at a time.
const CHUNK: usize = 128 << 10;

/// An image that was read, and its blobs.
pub struct OriginalImage {
    /// What the manifest and the config say.
    pub image: Image,
    /// The documents that say it.
    pub documents: ImageDocuments,
    /// What the layers hold, one index for each.
    pub layers: Vec<LayerIndex>,
    /// The registry and the repository, of an image in one.
    pub home: Option<(String, String)>,
    blobs: Box<dyn BlobStore>,
    /// The file that an archive was put into; it goes with the image.
    _kept: Option<NamedTempFile>,
}

impl OriginalImage {
    /// Reads the image that `written` names; what can be read only once is kept in `folder`.
    ///
    /// Errors: As a source says, and for a folder, which has no layers.
    pub fn read(
        written: &str,
        options: &ReadOptions<'_>,
        folder: &Path,
    ) -> Result<Self, SlimError> {
        let target = reference::parse_reference(written, host_path_kind::path_kind)?;
        let home = match &target {
            ImageReference::Registry(name) => {
                Some((name.registry().to_owned(), name.repository().to_owned()))
            }
            _ => None,
        };
        let (target, kept) = make_reopenable(target, written, options, folder)?;
        let opened = image_reading::open_image(target, written, options)?;
        let OpenedLayers::Blobs(blobs) = opened.layers else {
            return Err(SlimError::Cannot(format!(
                "{written} is a folder and has no layers that could be kept; name an image"
            )));
        };
        let layers = image_reading::read_blobs(&opened.image, &*blobs, options)?;
        let layers = layers
            .into_iter()
            .map(|layer| {
                layer.map_err(|gap| SlimError::Cannot(format!("{}: {}", gap.what, gap.why)))
            })
            .collect::<Result<_, _>>()?;
        let source = kept.as_ref().and(engine_kind(written));
        let mut image = opened.image;
        image.source = source.unwrap_or(image.source);
        Ok(Self {
            image,
            documents: opened.documents,
            layers,
            home,
            blobs,
            _kept: kept,
        })
    }

    /// The facts of the image.
    pub fn facts(&self, options: &ReadOptions<'_>) -> ImageFacts {
        let layers = self.layers.iter().cloned().map(Ok).collect();
        facts::gather_facts(
            self.image.clone(),
            ReadLayers { layers },
            options.knowledge,
            &options.conditions,
        )
    }

    /// The blob of a layer as it is stored; it fails at its end if it is not what was read before.
    ///
    /// Errors: Why it cannot be opened.
    pub fn blob(&self, number: usize) -> Result<Box<dyn Read + Send>, SlimError> {
        let (Some(layer), Some(index)) = (self.image.layers.get(number), self.layers.get(number))
        else {
            return Err(SlimError::Cannot(format!(
                "there is no layer {}",
                number + 1
            )));
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
    /// Errors: As [`OriginalImage::blob`].
    pub fn tar(&self, number: usize) -> Result<impl Read + Send + use<>, SlimError> {
        let blob = BufReader::with_capacity(CHUNK, self.blob(number)?);
        Ok(SizedTar {
            inner: DecompressedReader::new(blob),
            left: self.layers.get(number).map_or(0, |index| index.bytes),
        })
    }

    /// Where the bytes of a file of the merged file system lie: in which layer, at which path of it.
    pub fn locate_file(&self, path: &RootPath) -> Option<(usize, RootPath)> {
        let (merged, _) = rootfs::merge_layers(&self.layers);
        let found = merged.lookup_link(&path.absolute()).ok()?;
        let mut number = merged.node(found.node).layer;
        let mut at = found.path;
        // A hard link may lead to a file of a layer below, where it may be one again.
        loop {
            match self.layers.get(number)?.entries.get(&at) {
                Some(LayerEntry::File(_)) => return Some((number, at)),
                Some(LayerEntry::Hardlink(target)) if *target != at => at = target.clone(),
                _ => number = number.checked_sub(1)?,
            }
        }
    }
}

/// A tar of a known size. That the blob is another one is only seen at its end, which might never come.
struct SizedTar<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for SizedTar<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        self.left = self.left.checked_sub(n as u64).ok_or_else(|| {
            io::Error::other("it holds more than when it was read before; the source has changed")
        })?;
        Ok(n)
    }
}

impl std::fmt::Debug for OriginalImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Original")
            .field(&self.image.reference)
            .finish()
    }
}

/// The kind of a source that was put into a file.
fn engine_kind(written: &str) -> Option<SourceKind> {
    let kinds = [SourceKind::DockerDaemon, SourceKind::Podman];
    let is_it = |kind: &SourceKind| written.starts_with(&format!("{}:", kind.name()));
    kinds.into_iter().find(is_it)
}

/// A target that can be opened again and again, and the file that it was put into for that.
fn make_reopenable(
    target: ImageReference,
    written: &str,
    options: &ReadOptions<'_>,
    folder: &Path,
) -> Result<(ImageReference, Option<NamedTempFile>), SlimError> {
    let engine = |brand, name: &str| EngineImage {
        reference: written.to_owned(),
        name: name.to_owned(),
        brand,
        environment: EngineEnvironment::from_env(),
    };
    let saved = match &target {
        ImageReference::DockerDaemon(name) => {
            let mut saved = engine(EngineKind::Docker, name)
                .open_save_stream(&image_reading::open_request(options))?;
            keep(&mut saved, written, folder)?
        }
        ImageReference::Podman(name) => {
            let mut saved = engine(EngineKind::Podman, name)
                .open_save_stream(&image_reading::open_request(options))?;
            keep(&mut saved, written, folder)?
        }
        ImageReference::Stdin => {
            let mut plain = DecompressedArchive::new(io::stdin(), &options.index.limits);
            keep(&mut plain, written, folder)?
        }
        ImageReference::DockerArchive { file, .. } | ImageReference::OciArchive { file, .. } => {
            return match compressed(file)? {
                Some(stream) => {
                    let mut plain = DecompressedArchive::new(stream, &options.index.limits);
                    let kept = keep(&mut plain, written, folder)?;
                    let file = kept.path().to_owned();
                    let target = match target {
                        ImageReference::OciArchive { tag, .. } => {
                            ImageReference::OciArchive { file, tag }
                        }
                        ImageReference::DockerArchive { reference, .. } => {
                            ImageReference::DockerArchive { file, reference }
                        }
                        other => other,
                    };
                    Ok((target, Some(kept)))
                }
                None => Ok((target, None)),
            };
        }
        _ => return Ok((target, None)),
    };
    let target = ImageReference::DockerArchive {
        file: saved.path().to_owned(),
        reference: None,
    };
    Ok((target, Some(saved)))
}

/// The file, if it is compressed as a whole.
fn compressed(path: &Path) -> Result<Option<File>, SlimError> {
    let io_error = |source| ImageError::Io {
        what: path.display().to_string(),
        source,
    };
    let mut file = File::open(path).map_err(io_error)?;
    let is_compressed = is_compressed(&mut file).map_err(io_error)?;
    let again = File::open(path).map_err(io_error)?;
    Ok(is_compressed.then_some(again))
}

fn keep(from: &mut dyn Read, written: &str, folder: &Path) -> Result<NamedTempFile, SlimError> {
    let copied = NamedTempFile::new_in(folder).and_then(|mut file| {
        interrupt::copy_interruptible(from, &mut file)?;
        Ok(file)
    });
    copied.map_err(|source| {
        let what = format!("{written}, as it is kept in {}", folder.display());
        ImageError::Io { what, source }.into()
    })
}

/// Whether a layer lies uncompressed only because engines save it so.
pub(super) fn is_saved_plain(kind: SourceKind) -> bool {
    matches!(
        kind,
        SourceKind::DockerDaemon | SourceKind::Podman | SourceKind::DockerArchive
    )
}
