//! The commands, each in a file of its own.

mod advise;
mod audit;
mod check;
mod command_error;
mod diff;
mod dockerfile;
mod fill_arguments;
mod image_reader;
mod layer_cache;
mod output_file;
mod profilers;
mod profiles;
mod project_config;
mod report_outputs;
mod rules;
mod setup;
mod slim;
mod terminal;
mod tree;
mod version;

pub(super) use advise::run_advise;
pub(super) use audit::{run_audit, run_links};
pub(super) use check::run_check;
pub(super) use command_error::CommandError;
pub(super) use diff::run_diff;
pub(super) use dockerfile::run_dockerfile;
pub(super) use layer_cache::run_cache;
pub(super) use profilers::run_profilers;
pub(super) use profiles::run_profiles;
pub(super) use rules::run_rules;
pub(super) use setup::{run_completions, run_config, run_man, run_schema};
pub(super) use slim::run_slim;
pub(super) use terminal::refuse_arguments;
pub(super) use tree::run_tree;
pub(super) use version::show_version;
