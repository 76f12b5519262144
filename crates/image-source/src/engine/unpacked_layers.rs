//! The layers of an engine on this machine, read from its own folder.
//!
//! `docker save` writes all layers to the disk before the first byte comes. The engine keeps a layer as a folder of its
//! files, and beside it all of its tar that is no file's content (moby, layer/filestore.go; vbatts/tar-split,
//! tar/storage/entry.go). So the tar comes out byte for byte, and is compared with its diff id like any other.
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

/// What an engine says of itself.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct EngineStorage {
    pub docker_root_dir: PathBuf,
    pub driver: String,
}

/// One layer as the engine keeps it.
pub(super) struct UnpackedLayer {
    diff_id: Digest,
    /// What of the tar is no content, compressed with gzip.
    split: PathBuf,
    /// The folder of the layer's files.
    files: PathBuf,
}

/// The layers of one image.
pub(super) struct UnpackedLayers(pub Vec<UnpackedLayer>);

impl EngineStorage {
    /// The config of an image, whose digest is the image's id; nothing where it cannot be read, as by most users, or
    /// where the engine keeps images in another way.
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

    /// The layers of an image, which have these diff ids; nothing where one cannot be read.
    pub(super) fn find_layers(&self, kind: EngineKind, id: &Digest, diff_ids: &[Digest]) -> Option<UnpackedLayers> {
        match kind {
            EngineKind::Docker => self.docker_layers(diff_ids),
            EngineKind::Podman => self.podman_layers(id, diff_ids),
        }
    }

    fn docker_layers(&self, diff_ids: &[Digest]) -> Option<UnpackedLayers> {
        let mut chain: Option<Digest> = None;
        let layers = diff_ids.iter().map(|diff_id| {
            // The chain id (image-spec, config.md, "Layer ChainID").
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

    /// Where a driver has the files of a layer; nothing for one that is not known, or an id that is no name.
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
        // A kernel before 5.6 cannot look below a folder alone, and then nothing is read there.
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

/// The bytes of one entry in the list of a tar's parts. Headers with all their records have one MiB, and what stands
/// behind the end is cut into pieces of that size.
const ENTRY_BYTES: u64 = 64 << 20;

/// One line of the list of a tar's parts.
#[derive(Deserialize)]
struct SplitEntry {
    /// 1 is a file, 2 what lies between files.
    #[serde(rename = "type")]
    kind: u8,
    name: Option<String>,
    /// The name in base64, where it is no UTF-8.
    name_raw: Option<String>,
    #[serde(default)]
    size: u64,
    payload: Option<String>,
}

/// A tar that is put together again.
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
        // A whiteout and a link have no content, and often no file.
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
    // Read it cannot be by everybody who may look into it.
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

/// Opens what a name of a tar stands for below `folder`, which is the root for every link on the way, as it was when the
/// engine unpacked the layer: a name from an image must lead to no file of the host.
#[cfg(target_os = "linux")]
fn open_below(folder: &OwnedFd, name: &[u8]) -> io::Result<File> {
    use rustix::fs::{ResolveFlags, openat2};
    // Not held up by a FIFO.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(openat2(folder, name, flags, Mode::empty(), ResolveFlags::IN_ROOT)?.into())
}

/// Only Linux can look below a folder alone; elsewhere an engine has its files in a virtual machine, and is asked for them.
#[cfg(not(target_os = "linux"))]
fn open_below(_: &OwnedFd, _: &[u8]) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}
