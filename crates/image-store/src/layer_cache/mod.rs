//! Caches layer indexes, so that no layer is read twice.
//!
//! An index is stored under its diff id. A second file per blob digest points to it, so an image in a registry and the
//! same image in an engine share one index. Only fully read layers are stored, under the digests of the bytes read.

mod file_kind;
mod sealed_folder;

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::OnceLock;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use file_kind::FileKind;
use image_linkage::digest::Digest;
use image_linkage::layer::LayerIndex;
use image_linkage::layer::{read_index, write_index};
use image_source::{Image, ImageDocuments, KnownImage, KnownLayers, LayerDescriptor};
pub use sealed_folder::{CacheContent, KEPT_BYTES};
use sealed_folder::{SealedFolder, list_folder, remove_files};

/// Our subfolder of the cache folder, which others may use too.
const FOLDER: &str = "layers";
/// The compression level of an index. Higher levels save a tenth and take three times as long.
const LEVEL: i32 = 1;
/// The limit on a decompressed index; this program writes no larger one.
const INDEX_BYTES: u64 = 4 << 30;

/// The indexes made with one set of options. Any number of processes may share the folder.
pub struct LayerCache {
    files: SealedFolder,
    /// Why writing stopped.
    failure: OnceLock<String>,
}

/// The content of a layer's blob.
#[derive(Serialize, Deserialize)]
struct BlobContent {
    diff_id: Digest,
    /// The stored size of the blob.
    bytes: u64,
}

impl LayerCache {
    /// Opens the indexes below `folder` that were made with the options of `fingerprint`
    /// ([`IndexOptions::fingerprint`](image_linkage::layer::IndexOptions::fingerprint)).
    ///
    /// Errors: Why the folder cannot be made, or that others may write to it.
    pub fn open(folder: &Path, fingerprint: &Digest) -> io::Result<Self> {
        let files = SealedFolder::open(&folder.join(FOLDER), fingerprint.digest())?;
        Ok(Self {
            files,
            failure: OnceLock::new(),
        })
    }

    /// Why the cache stopped writing, if it did.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    fn find_tar(&self, diff_id: &Digest) -> Option<LayerIndex> {
        let name = FileKind::Tar.file_name(diff_id);
        let sealed = self.files.read(&name)?;
        let index = decompress_index(&sealed).filter(|index| index.diff_id == *diff_id);
        if index.is_none() {
            self.files.remove(&name);
        }
        index
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        postcard::from_bytes(&self.files.read(name)?).ok()
    }

    fn write(&self, name: &str, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        // Only the first failure is reported; a full disk stays full.
        if self.failure.get().is_some() {
            return;
        }
        if let Err(error) = self.files.write(name, fill) {
            let folder = self.files.folder().display();
            let failure = format!("{folder} cannot be written, so that nothing more is kept: {error}");
            self.failure.get_or_init(|| failure);
        }
    }
}

impl KnownLayers for LayerCache {
    fn find(&self, layer: &LayerDescriptor) -> Option<LayerIndex> {
        let index = match (&layer.digest, &layer.diff_id) {
            (Some(digest), _) => {
                let blob: BlobContent = self.read(&FileKind::Blob.file_name(digest))?;
                let mut index = self.find_tar(&blob.diff_id)?;
                (index.digest, index.compressed_bytes) = (digest.clone(), blob.bytes);
                index
            }
            // Layers without a digest are hashed with SHA-256 only.
            (None, Some(diff_id)) if diff_id.algorithm() == "sha256" => self.find_tar(diff_id)?,
            _ => return None,
        };
        let same_size = layer.size.is_none_or(|size| size == index.compressed_bytes);
        let same_tar = layer.diff_id.as_ref().is_none_or(|diff_id| *diff_id == index.diff_id);
        (same_size && same_tar).then_some(index)
    }

    fn keep(&self, index: &LayerIndex) {
        let blob = BlobContent {
            diff_id: index.diff_id.clone(),
            bytes: index.compressed_bytes,
        };
        self.write(&FileKind::Tar.file_name(&index.diff_id), |to| compress_index(index, to));
        // Written last, because it points to the other file.
        self.write(&FileKind::Blob.file_name(&index.digest), |to| write_value(&blob, to));
    }

    fn find_image(&self, id: &Digest) -> Option<KnownImage> {
        self.read(&FileKind::Image.file_name(id))
    }

    fn keep_image(&self, id: &Digest, image: &Image, documents: &ImageDocuments) {
        let known = KnownImage {
            digest: image.digest.clone(),
            documents: documents.clone(),
            layers: image.layers.clone(),
        };
        self.write(&FileKind::Image.file_name(id), |to| write_value(&known, to));
    }
}

impl Drop for LayerCache {
    fn drop(&mut self) {
        // The size limit is enforced once per run; the next run does it after a kill.
        self.files.bound(KEPT_BYTES);
    }
}

/// Writes an index in its cached form.
///
/// Errors: Those of `to`.
fn compress_index(index: &LayerIndex, to: impl Write) -> io::Result<()> {
    let mut compressed = zstd::Encoder::new(to, LEVEL)?;
    write_index(index, &mut compressed)?;
    compressed.finish().map(drop)
}

/// Reads a cached index; `None` if it is invalid.
fn decompress_index(kept: &[u8]) -> Option<LayerIndex> {
    let decompressed = zstd::Decoder::new(kept).ok()?;
    read_index(&mut decompressed.take(INDEX_BYTES)).ok()
}

/// The total content of all caches below `folder`, for any options.
pub fn list_cache(folder: &Path) -> CacheContent {
    list_folder(&folder.join(FOLDER))
}

/// Whether a folder has been used as a cache.
pub fn is_cache(folder: &Path) -> bool {
    folder.join(FOLDER).is_dir()
}

/// Removes the least recently used indexes until at most `bytes` remain, and leftovers of killed runs. The second value
/// lists the removal errors.
pub fn prune_cache(folder: &Path, bytes: u64) -> (CacheContent, Vec<io::Error>) {
    remove_files(&folder.join(FOLDER), bytes)
}

fn write_value(value: &impl Serialize, to: &mut dyn Write) -> io::Result<()> {
    let bytes = postcard::to_stdvec(value).map_err(io::Error::other)?;
    to.write_all(&bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::LayerCache;
    use image_linkage::digest::Digest;
    use image_linkage::layer::LayerIndex;
    use image_source::{KnownLayers as _, LayerDescriptor};

    fn layer(digest: Option<&Digest>, diff_id: Option<&Digest>, size: Option<u64>) -> LayerDescriptor {
        LayerDescriptor {
            digest: digest.cloned(),
            diff_id: diff_id.cloned(),
            media_type: String::new(),
            size,
            created_by: None,
        }
    }

    #[test]
    fn a_layer_is_found_only_if_all_its_digests_and_sizes_match() {
        let dir = tempfile::tempdir().unwrap();
        let [blob, tar, other] = ["blob", "tar", "other"].map(|text| Digest::of(text.as_bytes()));
        let cache = LayerCache::open(dir.path(), &other).unwrap();
        let kept = LayerIndex {
            digest: blob.clone(),
            compressed_bytes: 10,
            diff_id: tar.clone(),
            bytes: 20,
            ..LayerIndex::empty()
        };
        cache.keep(&kept);
        let sha512: Digest = format!("sha512:{}", "0".repeat(128)).parse().unwrap();
        cache.keep(&LayerIndex {
            diff_id: sha512.clone(),
            ..kept.clone()
        });
        cache.keep(&kept);
        let plain = LayerIndex {
            digest: tar.clone(),
            compressed_bytes: 20,
            ..kept.clone()
        };
        for (asked, found) in [
            (layer(Some(&blob), Some(&tar), Some(10)), Some(&kept)),
            (layer(Some(&blob), None, None), Some(&kept)),
            // As in an engine: without a digest, and uncompressed.
            (layer(None, Some(&tar), Some(20)), Some(&plain)),
            (layer(None, Some(&tar), None), Some(&plain)),
            (layer(None, Some(&tar), Some(10)), None),
            // A diff id with another algorithm matches no tar that was hashed here.
            (layer(None, Some(&sha512), None), None),
            (layer(Some(&blob), Some(&tar), Some(11)), None),
            (layer(Some(&blob), Some(&other), Some(10)), None),
            // Nobody has seen that this blob contains that tar.
            (layer(Some(&other), Some(&tar), Some(10)), None),
            (layer(None, None, None), None),
        ] {
            assert_eq!(cache.find(&asked).as_ref(), found, "{asked:?}");
        }
        // Other options give another index.
        let elsewhere = LayerCache::open(dir.path(), &tar).unwrap();
        assert_eq!(elsewhere.find(&layer(Some(&blob), None, None)), None);
        assert_eq!(cache.failure(), None);
    }

    #[test]
    fn a_cache_that_cannot_be_written_says_why_and_stops_writing() {
        let dir = tempfile::tempdir().unwrap();
        let cache = LayerCache::open(dir.path(), &Digest::of(b"")).unwrap();
        std::os::unix::fs::symlink("/dev/null", dir.path().join("layers")).unwrap();
        cache.keep(&LayerIndex::empty());
        let failure = cache.failure().unwrap();
        assert!(failure.contains("nothing more is kept: Not a directory"), "{failure}");
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the cache is on the host")]
    fn a_fifo_in_the_place_of_an_index_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let cache = LayerCache::open(dir.path(), &Digest::of(b"")).unwrap();
        let kept = LayerIndex::empty();
        let asked = layer(Some(&kept.digest), None, None);
        cache.keep(&kept);
        assert_eq!(cache.find(&asked).as_ref(), Some(&kept));
        let mut folders = vec![dir.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if entry.is_dir() {
                    folders.push(entry);
                } else {
                    fs::remove_file(&entry).unwrap();
                    rustix::fs::mkfifoat(rustix::fs::CWD, &entry, rustix::fs::Mode::RUSR).unwrap();
                }
            }
        }
        // Opening a FIFO without a writer would block forever.
        assert_eq!(cache.find(&asked), None);
        cache.keep(&kept);
        assert_eq!(cache.find(&asked).as_ref(), Some(&kept));
    }
}
