//! How the places of images are reached, and whether what is there may be replaced.

use image_source::engine::EngineEnvironment;
use image_source::registry::RegistryOptions;

/// Whether what is there may be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExistingOutput {
    /// It stays, and nothing is written.
    Stays,
    /// It is replaced.
    Replaced,
}

/// How places are reached.
pub(crate) struct OutputAccess<'a> {
    /// How registries are spoken to.
    pub registry: &'a RegistryOptions,
    /// Where the engine listens.
    pub engine: EngineEnvironment,
    /// Whether what is there may be replaced.
    pub existing: ExistingOutput,
}
