//! A patch as a Dockerfile, with a reason for each line.

pub(crate) mod build_check;
pub(crate) mod builder;
pub(crate) mod builder_stage;
mod cloud_build;
mod config_instructions;
pub(crate) mod image_name;
mod install;
mod instruction;
mod phase;
pub(crate) mod project;
pub(crate) mod removal;
mod steps;
mod target;
pub(crate) mod vertex;
mod without_shell;

pub(crate) use phase::write_phase;
pub(crate) use target::{DockerfileTarget, describe_target};
