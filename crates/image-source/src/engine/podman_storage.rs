//! Podman's local storage (containers/storage: images.go, layers.go). Its layers are unpacked like Docker's.
#![expect(clippy::disallowed_methods, reason = "an image source reads the host")]

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use image_linkage::digest::Digest;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::unpacked_layers::{EngineStorage, UnpackedLayer, UnpackedLayers};

/// The maximum bytes of the list of all images or layers.
const LIST_BYTES: u64 = 64 << 20;

#[derive(Deserialize)]
struct StoredImage {
    id: String,
    /// The ID of its top layer.
    layer: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct StoredLayer {
    id: String,
    parent: Option<String>,
    diff_digest: Option<Digest>,
}

impl EngineStorage {
    /// The config file of an image. Its digest is the image's ID.
    pub(super) fn podman_config(&self, id: &Digest) -> PathBuf {
        // A name with a colon is base64-encoded (images.go, `makeBigDataBaseName`).
        let name = format!("={}", STANDARD.encode(id.to_string()));
        self.podman_folder("images").join(id.digest()).join(name)
    }

    /// The layers of an image with these diff IDs; `None` if one is unreadable.
    pub(super) fn podman_layers(&self, id: &Digest, diff_ids: &[Digest]) -> Option<UnpackedLayers> {
        // In rootless storage, files of other users in the image may be unreadable.
        if fs::metadata(&self.docker_root_dir).ok()?.uid() != 0 {
            return None;
        }
        let images: Vec<StoredImage> = read_list(&self.podman_folder("images").join("images.json"))?;
        let layers: Vec<StoredLayer> = read_list(&self.podman_folder("layers").join("layers.json"))?;
        let by_id: HashMap<&str, &StoredLayer> = layers.iter().map(|layer| (&*layer.id, layer)).collect();
        let image = images.iter().find(|image| image.id == id.digest())?;
        let mut above = image.layer.as_deref();
        let unpacked = diff_ids.iter().rev().map(|diff_id| {
            let layer = by_id.get(above?)?;
            above = layer.parent.as_deref();
            let files = self.files_folder(&layer.id)?;
            let split = self.podman_folder("layers").join(format!("{}.tar-split.gz", layer.id));
            let unpacked = UnpackedLayer::open(diff_id, split, files)?;
            (layer.diff_digest.as_ref() == Some(diff_id)).then_some(unpacked)
        });
        let mut unpacked: Vec<_> = unpacked.collect::<Option<_>>()?;
        unpacked.reverse();
        above.is_none().then_some(UnpackedLayers(unpacked))
    }

    /// A storage directory such as `vfs-layers`.
    fn podman_folder(&self, what: &str) -> PathBuf {
        self.docker_root_dir.join(format!("{}-{what}", self.driver))
    }
}

fn read_list<T: DeserializeOwned>(file: &Path) -> Option<T> {
    serde_json::from_reader(File::open(file).ok()?.take(LIST_BYTES)).ok()
}
