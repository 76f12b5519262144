//! Reads layers from the storage directory of a local engine.
//!
//! `docker save` writes all layers to disk before it sends the first byte. The engine stores a layer as a directory of
//! files, and separately all other bytes of its tar (moby, layer/filestore.go; vbatts/tar-split, tar/storage/entry.go).
//! From both the tar is reconstructed byte for byte and verified by its diff ID.
#![expect(clippy::disallowed_methods, reason = "an image source reads the host")]

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Take};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::MultiGzDecoder;
use image_linkage::digest::Digest;
use rustix::fs::{CWD, Mode, OFlags, openat};
use serde::Deserialize;

use super::kind::EngineKind;
use crate::image::LayerDescriptor;
use crate::image_error::ImageError;
use crate::source::BlobStore;
use crate::verify;

/// The engine's description of its storage.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct EngineStorage {
    pub docker_root_dir: PathBuf,
    pub driver: String,
}

/// One layer in the engine's storage.
pub(super) struct UnpackedLayer {
    diff_id: Digest,
    /// The gzip-compressed list of the tar's parts other than file content.
    split: PathBuf,
    /// The directory of the layer's files.
    files: PathBuf,
}

/// The layers of one image.
pub(super) struct UnpackedLayers(pub Vec<UnpackedLayer>);

impl EngineStorage {
    /// The config of an image, whose digest is the image's ID; `None` if it is unreadable, as for most users, or stored
    /// differently.
    pub(super) fn read_config(&self, kind: EngineKind, id: &Digest, limit: u64) -> Option<Vec<u8>> {
        let file = match kind {
            EngineKind::Docker => {
                let content = self.images().join("imagedb/content");
                content.join(id.algorithm()).join(id.digest())
            }
            EngineKind::Podman => self.podman_config(id),
        };
        let opened = File::open(&file).ok()?;
        verify::read_document(&file.display().to_string(), opened, Some(id), None, limit).ok()
    }

    /// The layers of an image with these diff IDs; `None` if one is unreadable.
    pub(super) fn find_layers(&self, kind: EngineKind, id: &Digest, diff_ids: &[Digest]) -> Option<UnpackedLayers> {
        match kind {
            EngineKind::Docker => self.docker_layers(diff_ids),
            EngineKind::Podman => self.podman_layers(id, diff_ids),
        }
    }

    fn docker_layers(&self, diff_ids: &[Digest]) -> Option<UnpackedLayers> {
        let mut chain: Option<Digest> = None;
        let layers = diff_ids.iter().map(|diff_id| {
            // The chain ID (image-spec, config.md, "Layer ChainID").
            let id = match &chain {
                None => diff_id.clone(),
                Some(below) => Digest::of(format!("{below} {diff_id}").as_bytes()),
            };
            let folder = self.images().join("layerdb").join(id.algorithm()).join(id.digest());
            chain = Some(id);
            let files = self.files_folder(&std::fs::read_to_string(folder.join("cache-id")).ok()?)?;
            UnpackedLayer::open(diff_id, folder.join("tar-split.json.gz"), files)
        });
        layers.collect::<Option<_>>().map(UnpackedLayers)
    }

    fn images(&self) -> PathBuf {
        self.docker_root_dir.join("image").join(&self.driver)
    }

    /// The directory of a layer's files; `None` for an unknown driver or an invalid ID.
    pub(super) fn files_folder(&self, id: &str) -> Option<PathBuf> {
        let root = self.docker_root_dir.join(&self.driver);
        let is_name = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        match self.driver.as_str() {
            "overlay" | "overlay2" | "fuse-overlayfs" if is_name => Some(root.join(id).join("diff")),
            "vfs" if is_name => Some(root.join("dir").join(id)),
            _ => None,
        }
    }
}

impl UnpackedLayer {
    /// A layer whose parts can be opened.
    pub(super) fn open(diff_id: &Digest, split: PathBuf, files: PathBuf) -> Option<Self> {
        File::open(&split).ok()?;
        // Before Linux 5.6 there is no openat2, and nothing is read.
        open_below(&open_folder(&files).ok()?, b".").ok()?;
        let diff_id = diff_id.clone();
        Some(Self { diff_id, split, files })
    }
}

impl BlobStore for UnpackedLayers {
    fn open(&self, layer: &LayerDescriptor) -> Result<Box<dyn Read + Send>, ImageError> {
        let mut all = self.0.iter();
        let Some(found) = all.find(|known| Some(&known.diff_id) == layer.diff_id.as_ref()) else {
            return Err(ImageError::NotFound("the engine has no such layer".to_owned()));
        };
        let opened = || -> io::Result<_> {
            Ok(SplitTar {
                entries: BufReader::new(MultiGzDecoder::new(File::open(&found.split)?)),
                files: open_folder(&found.files)?,
                part: TarPart::Between(Cursor::default()),
            })
        };
        let opened = opened().map_err(ImageError::io(found.files.display()))?;
        Ok(Box::new(opened))
    }
}

/// The maximum bytes of one entry. Headers with all records have one MiB, and trailing bytes are split into pieces of
/// that size.
const ENTRY_BYTES: u64 = 64 << 20;

/// One entry in the list of a tar's parts.
#[derive(Deserialize)]
struct SplitEntry {
    /// 1 is a file, 2 are bytes between files.
    #[serde(rename = "type")]
    kind: u8,
    name: Option<String>,
    /// The base64-encoded name, if it is not UTF-8.
    name_raw: Option<String>,
    #[serde(default)]
    size: u64,
    payload: Option<String>,
}

/// A tar reconstructed from its parts.
struct SplitTar {
    entries: BufReader<MultiGzDecoder<File>>,
    files: OwnedFd,
    part: TarPart,
}

enum TarPart {
    Between(Cursor<Vec<u8>>),
    Content(Take<File>),
}

impl SplitTar {
    /// The next part; `None` at the end.
    fn next_part(&mut self) -> io::Result<Option<TarPart>> {
        let mut line = Vec::new();
        (&mut self.entries).take(ENTRY_BYTES).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(None);
        }
        let entry: SplitEntry = serde_json::from_slice(&line)?;
        let decoded = |text: &str| STANDARD.decode(text).map_err(io::Error::other);
        if entry.kind != 1 {
            let between = decoded(&entry.payload.unwrap_or_default())?;
            return Ok(Some(TarPart::Between(Cursor::new(between))));
        }
        // Whiteouts and links have no content and often no file.
        if entry.size == 0 {
            return Ok(Some(TarPart::Between(Cursor::default())));
        }
        let name = match entry.name_raw {
            Some(raw) => decoded(&raw)?,
            None => entry.name.unwrap_or_default().into_bytes(),
        };
        let file = open_below(&self.files, &name)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("the engine keeps no file where the tar has one"));
        }
        Ok(Some(TarPart::Content(file.take(entry.size))))
    }
}

impl Read for SplitTar {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            let n = match &mut self.part {
                TarPart::Between(bytes) => bytes.read(buf)?,
                TarPart::Content(file) => match file.read(buf)? {
                    0 if file.limit() > 0 && !buf.is_empty() => {
                        return Err(io::Error::other("a file of the engine has become shorter"));
                    }
                    n => n,
                },
            };
            if n > 0 || buf.is_empty() {
                return Ok(n);
            }
            match self.next_part()? {
                Some(part) => self.part = part,
                None => return Ok(0),
            }
        }
    }
}

fn open_folder(folder: &Path) -> io::Result<OwnedFd> {
    // The user may have only search permission.
    #[cfg(target_os = "linux")]
    let access = OFlags::PATH;
    #[cfg(not(target_os = "linux"))]
    let access = OFlags::RDONLY;
    Ok(openat(
        CWD,
        folder,
        access | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?)
}

/// Opens the file for a tar name with `folder` as the root for all links, as when the engine unpacked the layer. A name
/// from an image must never lead to a host file.
#[cfg(target_os = "linux")]
fn open_below(folder: &OwnedFd, name: &[u8]) -> io::Result<File> {
    use rustix::fs::{ResolveFlags, openat2};
    // Do not block on a FIFO.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(openat2(folder, name, flags, Mode::empty(), ResolveFlags::IN_ROOT)?.into())
}

/// Only Linux has openat2. Elsewhere engines run in a virtual machine, and the API is used.
#[cfg(not(target_os = "linux"))]
fn open_below(_: &OwnedFd, _: &[u8]) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}
