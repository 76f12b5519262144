//! How the places of images are reached.

use crate::make::whole_file::ExistingOutput;
use image_source::engine::EngineEnvironment;
use image_source::registry::RegistryOptions;

/// How places are reached.
pub(crate) struct OutputAccess<'a> {
    /// How registries are spoken to.
    pub registry: &'a RegistryOptions,
    /// Where the engine listens.
    pub engine: EngineEnvironment,
    /// Whether what is there may be replaced.
    pub existing: ExistingOutput,
}
