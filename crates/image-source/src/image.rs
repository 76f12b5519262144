//! An image as its manifest and its config describe it.

use image_linkage::digest::Digest;
use serde::{Deserialize, Serialize};

use crate::config::ImageConfig;
use crate::platform::Platform;
use crate::source_kind::SourceKind;

/// What a manifest and a config say of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The reference as the user wrote it.
    pub reference: String,
    /// Where it was read from.
    pub source: SourceKind,
    /// The digest of the platform's manifest; `None` where the source has no manifest of its own (a folder,
    /// an archive of Docker before 25).
    pub digest: Option<Digest>,
    /// The names by digest that registries have the image under, as far as an engine knows.
    pub repo_digests: Vec<String>,
    /// The platform that was chosen, by the config where it says one.
    pub platform: Platform,
    /// What a container's process would start with.
    pub config: ImageConfig,
    /// The layers in the order in which they are applied, lowest first.
    pub layers: Vec<LayerDescriptor>,
}

/// One layer as the manifest and the config describe it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerDescriptor {
    /// The digest of the blob as stored, usually compressed; `None` in an archive of Docker before 25.
    pub digest: Option<Digest>,
    /// The digest of the uncompressed tar; `None` only for a folder.
    pub diff_id: Option<Digest>,
    /// The media type as written in the manifest.
    pub media_type: String,
    /// The size of the blob as stored, in bytes, where the source declares it.
    pub size: Option<u64>,
    /// The history entry that made the layer.
    pub created_by: Option<String>,
}

impl Image {
    /// An image that is a root file system and no more: one layer, and a config that says nothing.
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
    /// Whether the layer is foreign by its media type (image-spec, layer.md, "Non-Distributable Layers"): its bytes may
    /// not be in the registry.
    pub fn is_foreign(&self) -> bool {
        // OCI says `nondistributable` and Docker `foreign`, in the middle of types that end in the compression.
        self.media_type.contains("nondistributable") || self.media_type.contains("foreign")
    }
}
