//! Images and the sources they come from.
//!
//! Every source gives an [`Image`]. A source with random access also gives blobs in any order; one that can be read
//! only once gives layers that were indexed on the way.

mod archive;
mod archive_file;
mod config;
mod engine;
mod foreign_file;
mod host_path_kind;
mod image;
mod image_budget;
mod image_error;
mod image_user;
mod manifest;
mod oci_layout;
mod open_image;
mod platform;
mod read_layers;
mod reference;
pub mod registry;
mod registry_reference;
mod root_index;
mod rootfs_archive;
mod rootfs_dir;
mod sif_file;
mod source;
mod source_kind;
mod verify;

pub use archive::{PreferredDocument, WantedImage, open_stream};
pub use archive_file::ArchiveFile;
pub use config::{ContainerSettings, Healthcheck, ImageConfig, read_image_config, split_env};
pub use engine::{EngineEnvironment, EngineImage, EngineKind};
pub use host_path_kind::path_kind;
pub use image::{Image, LayerDescriptor};
pub use image_error::ImageError;
pub use image_linkage::digest::Digest;
pub use image_user::find_user;
pub use oci_layout::OciLayout;
pub use open_image::{host_file, list_platforms, open_image, open_reopenable_image};
pub use platform::Platform;
pub use read_layers::{UnreadLayer, in_parallel, read_layers};
pub use reference::PathKind;
pub use registry_reference::RegistryReference;
pub use rootfs_dir::{RootfsDir, open_running_root};
pub use source::{
    BlobStore, ImageDocuments, ImageSource, KnownImage, KnownLayers, OpenRequest, OpenedImage, OpenedLayers,
    ReadProgress,
};
pub use source_kind::SourceKind;
pub use verify::read_small_file;
