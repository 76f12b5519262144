//! What makes an image serve a phase: the files of CUPTI to bring into it, and the search path that leads to them.

mod error;
mod library_reason;
pub(crate) mod library_stems;
mod target;

pub(crate) mod build_check;
pub(crate) mod builder_stage;
pub mod copy_plan;
pub(crate) mod copy_source;
mod image_system;
pub mod install_folder;
pub mod install_method;
pub(crate) mod method_choice;
pub(crate) mod recipe;
pub(crate) mod removal;
pub(crate) mod required_libraries;
pub(crate) mod search_path_setup;
mod target_release;
mod wanted_cupti;

pub use error::{MethodObstacle, RemedyError};
pub use library_reason::{LibraryReason, LibraryReasons};
