//! Tar archives of images, as written by `docker save`, `podman save`, skopeo and `docker buildx`.
//!
//! A file is scanned once, and its layers are opened in place. An archive that cannot be read twice (standard input, an
//! engine's response, a compressed archive) is read in one pass, and its layers are indexed as they arrive. In both
//! cases the same code chooses the image from the documents.

mod catalog;
mod decompressed_archive;
mod docker_manifest;
mod documents;
mod image_choice;
mod members;
mod oci_index;
mod passed_archive;
mod scanned_archive;
mod wanted_image;

pub(crate) use decompressed_archive::{DecompressedArchive, is_compressed};
pub(crate) use documents::{DocumentStore, OpenedDocument, missing_member, name_member};
pub(crate) use image_choice::{choose_layout_image, list_layout_platforms};
pub(crate) use members::{ArchiveMembers, SeekFile, SkipRead, SkipStream};
pub(crate) use passed_archive::list_stream_platforms;
pub use passed_archive::open_stream;
pub(crate) use scanned_archive::{list_file_platforms, open_file, open_reopenable_file};
pub use wanted_image::{PreferredDocument, WantedImage};
