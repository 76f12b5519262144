//! An image as described by manifest and config.

use image_linkage::digest::Digest;
use serde::{Deserialize, Serialize};

use crate::config::ImageConfig;
use crate::platform::Platform;
use crate::source_kind::SourceKind;

/// The description of an image in manifest and config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The reference as written by the user.
    pub reference: String,
    /// The source.
    pub source: SourceKind,
    /// The digest of the platform's manifest; `None` if the source has none (a directory, an archive of Docker before
    /// 25).
    pub digest: Option<Digest>,
    /// The image's names by digest in registries, as known to the engine.
    pub repo_digests: Vec<String>,
    /// The chosen platform, according to the config if it says one.
    pub platform: Platform,
    /// How a container starts.
    pub config: ImageConfig,
    /// The layers, lowest first.
    pub layers: Vec<LayerDescriptor>,
}

/// One layer as described by manifest and config.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerDescriptor {
    /// The digest of the stored blob; `None` in an archive of Docker before 25.
    pub digest: Option<Digest>,
    /// The digest of the uncompressed tar; `None` only for a directory.
    pub diff_id: Option<Digest>,
    /// The media type in the manifest.
    pub media_type: String,
    /// The size of the stored blob in bytes, if declared.
    pub size: Option<u64>,
    /// The history entry of the layer.
    pub created_by: Option<String>,
}

impl Image {
    /// An image for a bare root file system: one layer and an empty config.
    pub(crate) fn of_root(reference: &str, source: SourceKind, platform: Platform) -> Self {
        let layer = LayerDescriptor {
            digest: None,
            diff_id: None,
            media_type: "rootfs".to_owned(),
            size: None,
            created_by: None,
        };
        Self {
            reference: reference.to_owned(),
            source,
            digest: None,
            repo_digests: Vec::new(),
            platform,
            config: ImageConfig::default(),
            layers: vec![layer],
        }
    }
}

impl LayerDescriptor {
    /// Whether the media type marks a foreign layer (image-spec, layer.md, "Non-Distributable Layers"), whose bytes may
    /// be missing in the registry.
    pub fn is_foreign(&self) -> bool {
        // OCI types contain `nondistributable`, Docker's contain `foreign`.
        self.media_type.contains("nondistributable") || self.media_type.contains("foreign")
    }
}
