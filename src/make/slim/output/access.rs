//! How the places of images are reached.

use crate::make::whole_file::ExistingOutput;
use image_source::registry::RegistryOptions;

pub(crate) struct OutputAccess<'a> {
    pub registry: &'a RegistryOptions,
    /// Whether what is there may be replaced.
    pub existing: ExistingOutput,
}
