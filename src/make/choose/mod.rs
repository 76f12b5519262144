//! Finds the patch that makes an image serve a phase: [`methods`] propose, in order, and [`choice`] takes the first
//! proposal whose result passes an audit.

pub(crate) mod choice;
pub(crate) mod complete;
pub(crate) mod conda_environment;
pub(crate) mod copy_source;
mod error;
pub(crate) mod image_system;
pub(crate) mod layer_choice;
pub(crate) mod methods;
mod misleading_names;
pub(crate) mod predict;
mod programs;
pub(crate) mod python_target;
pub(crate) mod request;
mod required_libraries;
pub(crate) mod search_path;
pub(crate) mod target;
pub(crate) mod target_release;
pub(crate) mod wanted_cupti;

pub(crate) use error::{Obstacle, PatchError};

#[cfg(test)]
mod tests;
