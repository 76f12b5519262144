//! The outputs of a new image. Each is complete or unchanged.

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
