//! Apptainer and Singularity images (sif, `pkg/sif/sif.go`, `descriptor.go`): a file with a squashfs, and the config of
//! the container image it was built from.
#![expect(clippy::disallowed_methods, reason = "an image source reads the host")]

mod squashfs;
mod squashfs_walk;
mod start_scripts;

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use serde_json::{Value, json};
use squashfs::{Squashfs, number_at, size_at};
use squashfs_walk::walk_squashfs;
use start_scripts::with_start_scripts;

use crate::config::{ImageConfig, read_image_config};
use crate::foreign_file::describe_foreign_file;
use crate::image::Image;
use crate::image_error::ImageError;
use crate::platform::Platform;
use crate::source::{ImageDocuments, ImageSource, KeepFile, OpenRequest, OpenedImage, OpenedLayers};
use crate::source_kind::SourceKind;

/// Follows the line that makes the file executable.
const MAGIC: &[u8] = b"SIF_MAGIC\0";
const MAGIC_AT: usize = 32;
const HEADER: usize = 128;
/// The size of an object descriptor, and how many are read: a genuine file has four to ten.
const DESCRIPTOR: usize = 585;
const DESCRIPTORS: usize = 1024;
/// The data object types that are used.
const PARTITION: u64 = 0x4004;
const JSON: u64 = 0x4006;
const OCI_INDEX: u64 = 0x400a;
/// Partition types, and file system types.
const PRIMARY: u64 = 2;
const OVERLAY: u64 = 4;
const SQUASHFS: u64 = 1;

/// The architectures by number, from 1 (`pkg/sif/arch.go`).
const ARCHITECTURES: [&str; 13] = [
    "386", "amd64", "arm", "arm64", "ppc64", "ppc64le", "mips", "mipsle", "mips64", "mips64le", "s390x", "riscv64",
    "loong64",
];

/// An image in one file. A bare squashfs, such as enroot's, counts too.
#[derive(Debug, Clone)]
pub(crate) struct SifFile {
    /// The reference as the user wrote it.
    pub reference: String,
    /// A path on the host.
    pub file: PathBuf,
}

impl ImageSource for SifFile {
    fn open(&self, request: &OpenRequest<'_>) -> Result<OpenedImage, ImageError> {
        let what = self.file.display().to_string();
        let file = File::open(&self.file).map_err(ImageError::io(&what))?;
        let found = self.find(&file, request)?;
        if let Some(platform) = &found.platform {
            crate::manifest::expect_platform(&self.reference, platform, request.platform)?;
        }
        let (start, bytes) = found.partition;
        let squashfs = Squashfs::open(file, start, bytes, request.limits()).map_err(|error| match error.kind() {
            io::ErrorKind::Unsupported => ImageError::not_an_image(&what, format!("{error}; {UNPACK}")),
            _ => ImageError::io(&what)(error),
        })?;
        request.progress.start(0, None);
        let index = walk_squashfs(&what, &squashfs, request)?;
        request.progress.finish(0);
        let platform = found
            .platform
            .or_else(|| request.platform.cloned())
            .unwrap_or_else(Platform::host);
        let mut image = Image::of_root(&self.reference, SourceKind::Sif, platform);
        let is_known = found.config.is_some();
        image.config = with_start_scripts(found.config.unwrap_or_default(), &index, is_known);
        Ok(OpenedImage {
            image,
            documents: ImageDocuments::default(),
            layers: OpenedLayers::Indexed(vec![index]),
            home: None,
        })
    }

    fn list_platforms(&self, request: &OpenRequest<'_>) -> Result<Vec<Platform>, ImageError> {
        let file = File::open(&self.file).map_err(ImageError::io(self.file.display()))?;
        Ok(self.find(&file, request)?.platform.into_iter().collect())
    }

    fn open_reopenable(&self, _request: &OpenRequest<'_>, _keep: KeepFile<'_>) -> Result<OpenedImage, ImageError> {
        Err(self.refused("its layers are merged into one file system; name the image that it was built from"))
    }
}

/// How to read such a file anyway.
const UNPACK: &str = "unpack it with apptainer build --sandbox DIR FILE, and name rootfs:DIR";

/// The image inside the file.
struct FoundSquashfs {
    /// The offset and size of the squashfs.
    partition: (u64, u64),
    platform: Option<Platform>,
    /// The config of the original container image.
    config: Option<ImageConfig>,
}

impl SifFile {
    fn refused(&self, reason: &str) -> ImageError {
        ImageError::not_an_image(self.file.display().to_string(), reason)
    }

    fn find(&self, file: &File, request: &OpenRequest<'_>) -> Result<FoundSquashfs, ImageError> {
        let io_error = ImageError::io(self.file.display());
        let bytes = file.metadata().map_err(&io_error)?.len();
        let mut header = [0; HEADER];
        file.read_exact_at(&mut header, 0).map_err(&io_error)?;
        if header.starts_with(squashfs::MAGIC) {
            return Ok(FoundSquashfs {
                partition: (0, bytes),
                platform: None,
                config: None,
            });
        }
        if !header.get(MAGIC_AT..).is_some_and(|rest| rest.starts_with(MAGIC)) {
            let words = describe_foreign_file(&header).unwrap_or("it is neither a SIF nor a squashfs");
            return Err(self.refused(words));
        }
        let objects = read_objects(file, &header).map_err(&io_error)?;
        let of_kind = |kind| objects.iter().filter(move |object| object.kind == kind);
        let partition = |role| of_kind(PARTITION).find(|object| object.role == role);
        let Some(primary) = partition(PRIMARY) else {
            let why = match of_kind(OCI_INDEX).next() {
                Some(_) => {
                    "it is an OCI-SIF, which holds layers instead of a file system; name the image in its registry"
                }
                None => "no file system in it is the primary one; it was cut short, or holds data only",
            };
            return Err(self.refused(why));
        };
        if primary.file_system != SQUASHFS {
            return Err(self.refused(&format!("its file system is encrypted, or no squashfs; {UNPACK}")));
        }
        if partition(OVERLAY).is_some() {
            return Err(self.refused(&format!("it holds an overlay, which is not read; {UNPACK}")));
        }
        let config = of_kind(JSON).find(|object| object.name == b"oci-config.json");
        Ok(FoundSquashfs {
            partition: (primary.offset, primary.bytes.min(bytes.saturating_sub(primary.offset))),
            platform: primary.platform(),
            config: config.map(|json| self.read_config(file, json, request)).transpose()?,
        })
    }

    /// The config of the original container image: `.singularity.d/env/10-docker2singularity.sh` sets the same
    /// variables. Its user is ignored, because a process runs as whoever starts it.
    fn read_config(&self, file: &File, json: &SifObject, request: &OpenRequest<'_>) -> Result<ImageConfig, ImageError> {
        let what = format!("oci-config.json in {}", self.file.display());
        let limit = request.limits().document;
        if json.bytes > limit {
            return Err(ImageError::TooLarge { what, limit });
        }
        let mut bytes = vec![0; usize::try_from(json.bytes).unwrap_or_default()];
        file.read_exact_at(&mut bytes, json.offset)
            .map_err(ImageError::io(&what))?;
        let inner: Value =
            serde_json::from_slice(&bytes).map_err(|error| ImageError::not_an_image(&what, error.to_string()))?;
        let whole = json!({"os": "linux", "config": inner, "rootfs": {"diff_ids": []}}).to_string();
        let (_, config) = read_image_config(&what, whole.as_bytes())?;
        Ok(ImageConfig { user: None, ..config })
    }
}

/// An object in the file.
struct SifObject {
    kind: u64,
    offset: u64,
    bytes: u64,
    name: Vec<u8>,
    /// For a partition: its file system, its role and its architecture number.
    file_system: u64,
    role: u64,
    architecture: [u8; 2],
}

impl SifObject {
    /// The platform of a partition.
    fn platform(&self) -> Option<Platform> {
        let number: usize = std::str::from_utf8(&self.architecture).ok()?.parse().ok()?;
        let architecture = ARCHITECTURES.get(number.checked_sub(1)?)?;
        Platform::parse(&format!("linux/{architecture}")).ok()
    }
}

/// Reads the list of objects; a truncated list is shorter.
fn read_objects(file: &File, header: &[u8]) -> io::Result<Vec<SifObject>> {
    let place = number_at::<8>(header, 96).unwrap_or_default();
    let count = size_at::<8>(header, 88).unwrap_or_default().min(DESCRIPTORS);
    let mut list = vec![0; count * DESCRIPTOR];
    file.read_exact_at(&mut list, place)?;
    Ok(list.chunks_exact(DESCRIPTOR).filter_map(read_object).collect())
}

fn read_object(bytes: &[u8]) -> Option<SifObject> {
    let is_used = bytes.get(4) == Some(&1);
    let name = bytes.get(73..201)?;
    let extra = bytes.get(201..)?;
    is_used.then_some(SifObject {
        kind: number_at::<4>(bytes, 0)?,
        offset: number_at::<8>(bytes, 17)?,
        bytes: number_at::<8>(bytes, 25)?,
        name: name.split(|&byte| byte == 0).next()?.to_vec(),
        file_system: number_at::<4>(extra, 0)?,
        role: number_at::<4>(extra, 4)?,
        architecture: extra.get(8..10)?.try_into().ok()?,
    })
}

/// Whether a file is a sif or a squashfs, by its first bytes.
pub(crate) fn is_sif(file: &mut File) -> bool {
    let mut start = [0; MAGIC_AT + MAGIC.len()];
    file.read_exact(&mut start).is_ok() && (start.starts_with(squashfs::MAGIC) || start.ends_with(MAGIC))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Write as _;
    use std::path::PathBuf;

    use super::SifFile;
    use crate::{ImageError, ImageSource as _, OpenRequest, OpenedLayers};
    use image_linkage::layer::{IndexOptions, LayerEntry, LayerIndex};
    use image_linkage::limits::Limits;

    /// Output of `mksquashfs -b 4096 -all-root -no-exports` for nine names.
    const SMALL: &[u8] = include_bytes!("../testdata/small.squashfs");

    fn open(bytes: &[u8], limits: Limits) -> Result<LayerIndex, ImageError> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        let source = SifFile {
            reference: "sif:x".to_owned(),
            file: PathBuf::from(file.path()),
        };
        let index = IndexOptions {
            limits,
            ..IndexOptions::default()
        };
        let opened = source.open(&OpenRequest {
            platform: None,
            index: &index,
            progress: &(),
            cache: None,
        })?;
        let OpenedLayers::Indexed(mut layers) = opened.layers else {
            panic!("a squashfs is one layer");
        };
        Ok(layers.remove(0))
    }

    #[test]
    fn a_squashfs_is_indexed_with_links_holes_and_modes() {
        let index = open(SMALL, Limits::default()).unwrap();
        let shown = |entry: &LayerEntry| match entry {
            LayerEntry::Directory(access, _) => format!("{:o} {}:{}", access.mode, access.uid, access.gid),
            LayerEntry::File(file) => format!("{} bytes {:o} kept {:?}", file.bytes, file.mode, file.kept.as_deref()),
            LayerEntry::Symlink(target) => String::from_utf8_lossy(target).into_owned(),
            other => format!("{other:?}"),
        };
        let entries: BTreeMap<_, _> = index.entries.iter().collect();
        let entries: Vec<String> = entries
            .iter()
            .map(|(path, entry)| format!("{path} {}", shown(entry)))
            .collect();
        assert_eq!(
            entries,
            [
                "/empty 755 0:0",
                "/etc 755 0:0",
                "/etc/ld.so.conf 5 bytes 644 kept Some([47, 111, 112, 116, 10])",
                "/fifo Special",
                "/lib usr/lib",
                "/usr 755 0:0",
                "/usr/lib 755 0:0",
                "/usr/lib/blocks.bin 10240 bytes 644 kept None",
                // The setuid bit has no effect under Apptainer.
                "/usr/lib/hole.bin 20000 bytes 755 kept None",
                "/usr/lib/twin.bin 10240 bytes 644 kept None",
            ]
        );
        assert_eq!((index.problems, index.bytes), (vec![], 30_245));
    }

    #[test]
    fn damage_anywhere_is_an_error_or_a_problem_and_never_a_panic() {
        for at in 0..SMALL.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut bytes = SMALL.to_vec();
                bytes[at] ^= flip;
                let _ = open(&bytes, Limits::default());
            }
            assert!(
                open(&SMALL[..at], Limits::default()).map_or(true, |index| !index.problems.is_empty()),
                "{at}"
            );
        }
    }

    #[test]
    fn a_squashfs_past_the_limits_is_an_error_that_names_the_limit() {
        let refused = |limits: Limits| open(SMALL, limits).unwrap_err().to_string();
        let entries = refused(Limits {
            layer_entries: 3,
            ..Limits::default()
        });
        assert!(
            entries.ends_with("it holds more than the limit of 3 files and folders (layer-entries)"),
            "{entries}"
        );
        let names = refused(Limits {
            layer_names: 9,
            ..Limits::default()
        });
        assert!(
            names.ends_with("its names exceed the limit of 9 bytes (layer-names)"),
            "{names}"
        );
        let bytes = refused(Limits {
            layer_bytes: 100,
            ..Limits::default()
        });
        assert!(
            bytes.ends_with("it decompresses to more than the limits (layer-bytes, layer-ratio)"),
            "{bytes}"
        );
    }
}
