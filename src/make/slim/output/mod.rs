//! The outputs of a new image. Each is complete or unchanged.

mod archive;
mod engine;
mod image_output;
mod layout;
mod layout_documents;
mod registry;
mod written_image;

pub use image_output::ImageOutput;
pub(crate) use written_image::ReadImage;

use crate::make::whole_file::ExistingOutput;
use image_source::registry::RegistryOptions;

/// How outputs are accessed.
pub(crate) struct OutputAccess<'a> {
    pub registry: &'a RegistryOptions,
    /// Whether an existing output may be replaced.
    pub existing: ExistingOutput,
}
