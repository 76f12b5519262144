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
mod image;
mod manifest;
pub mod oci_archive;
pub mod oci_layout;
mod open_image;
mod platform;
mod read_layers;
pub mod reference;
pub mod registry;
mod registry_reference;
pub mod rootfs_dir;
pub mod source;
mod source_kind;
mod verify;

pub use config::ImageConfig;
pub use image::{Image, LayerDescriptor};
pub use image_linkage::digest::Digest;
pub use open_image::{list_platforms, open_image, open_reopenable_image};
pub use platform::Platform;
pub use read_layers::{UnreadLayer, read_layers};
pub use registry_reference::RegistryReference;
pub use source::{
    BlobStore, ImageDocuments, ImageError, ImageSource, KeepFile, OpenRequest, OpenedImage,
    OpenedLayers, ReadProgress,
};
pub use source_kind::SourceKind;
