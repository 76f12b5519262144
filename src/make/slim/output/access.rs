//! How outputs are accessed.

use crate::make::whole_file::ExistingOutput;
use image_source::registry::RegistryOptions;

pub(crate) struct OutputAccess<'a> {
    pub registry: &'a RegistryOptions,
    /// Whether an existing output may be replaced.
    pub existing: ExistingOutput,
}
