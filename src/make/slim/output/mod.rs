//! Where a new image is put, and how it gets there whole or not at all.

mod access;
mod archive;
mod engine;
mod image_output;
mod layout;
mod layout_documents;
mod registry;
mod written_image;

pub(crate) use access::OutputAccess;
pub use image_output::ImageOutput;
pub(crate) use written_image::ReadImage;
