//! Makes an image serve a phase: the CUPTI files to add, and the search path to them.

mod error;
mod library_reason;
mod target;

pub(crate) mod build_check;
pub(crate) mod builder_stage;
mod conda_environment;
pub(crate) mod copy_plan;
pub(crate) mod copy_source;
pub(crate) mod file_ways;
mod granted_rights;
pub(crate) mod image_system;
pub(crate) mod install_context;
pub(crate) mod install_folder;
pub(crate) mod install_method;
mod made_rootfs;
pub(crate) mod method_choice;
pub(crate) mod misleading_names;
pub(crate) mod opened_paths;
mod package_ways;
pub(crate) mod phase_recipe;
mod predicted_audit;
mod programs;
pub(crate) mod python_target;
pub(crate) mod recipe;
pub(crate) mod removal;
pub(crate) mod required_libraries;
pub(crate) mod search_path_setup;
pub(crate) mod target_release;
pub(crate) mod wanted_cupti;

pub(crate) use error::{MethodObstacle, RemedyError};

#[cfg(test)]
mod tests;
