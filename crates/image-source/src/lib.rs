//! Images and the places they come from.
//!
//! Every source gives the same view: an [`Image`], and either blobs that can be opened in any order or, where
//! the source can be read only once, layers that were indexed while they passed.

pub mod archive;
pub mod config;
pub mod docker_archive;
pub mod engine;
pub mod host_path_kind;
mod http_client;
pub mod manifest;
pub mod oci_archive;
pub mod oci_layout;
pub mod platform;
pub mod reference;
pub mod registry;
mod registry_reference;
pub mod rootfs_dir;
pub mod source;
pub mod verify;

pub use config::ImageConfig;
pub use image_linkage::digest::Digest;
pub use platform::Platform;
pub use registry_reference::RegistryReference;
pub use source::{
    BlobStore, ImageDocuments, ImageError, ImageSource, OpenRequest, OpenedImage, OpenedLayers,
    ReadProgress,
};

/// An image: what its manifest and config say. Layers stand in the order in which they are applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The reference as the user wrote it.
    pub reference: String,
    /// The kind of source.
    pub source: SourceKind,
    /// The digest of the platform's manifest; `None` where the source has no manifest of its own (a folder,
    /// an archive of Docker before 25).
    pub digest: Option<Digest>,
    /// The platform that was audited.
    pub platform: Platform,
    /// What the image config says.
    pub config: ImageConfig,
    /// The layers, lowest first.
    pub layers: Vec<LayerDescriptor>,
}

/// One layer as the manifest and the config describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
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

impl LayerDescriptor {
    /// Whether the layer is foreign by its media type (image-spec, layer.md, "Non-Distributable Layers"): its bytes may
    /// not be in the registry.
    pub fn is_foreign(&self) -> bool {
        self.media_type.contains("nondistributable") || self.media_type.contains("foreign")
    }
}

/// The kind of source, by the name that reports use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SourceKind {
    /// A registry that speaks the OCI distribution specification.
    Docker,
    /// The socket of a Docker Engine.
    DockerDaemon,
    /// The socket of Podman's Docker-compatible service.
    Podman,
    /// The output of `docker save`.
    DockerArchive,
    /// An OCI image layout in a folder.
    Oci,
    /// An OCI image layout in a tar archive.
    OciArchive,
    /// An unpacked root file system.
    Rootfs,
}

impl SourceKind {
    /// The name used in reports and as the scheme of a reference.
    pub fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::DockerDaemon => "docker-daemon",
            Self::Podman => "podman",
            Self::DockerArchive => "docker-archive",
            Self::Oci => "oci",
            Self::OciArchive => "oci-archive",
            Self::Rootfs => "rootfs",
        }
    }
}
