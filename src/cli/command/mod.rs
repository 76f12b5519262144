//! The commands, each in a file of its own.

mod advise;
mod audit;
mod command_error;
mod dockerfile;
mod fill_arguments;
mod image_reader;
mod layer_cache;
mod output_file;
mod profilers;
mod project_config;
mod report_outputs;
mod rules;
mod schema;
mod slim;
mod terminal;
mod tree;

pub(super) use advise::run_advise;
pub(super) use audit::run_audit;
pub(super) use command_error::CommandError;
pub(super) use dockerfile::run_dockerfile;
pub(super) use layer_cache::run_cache;
pub(super) use profilers::run_profilers;
pub(super) use rules::run_rules;
pub(super) use schema::run_schema;
pub(super) use slim::run_slim;
pub(super) use terminal::refuse_arguments;
pub(super) use tree::run_tree;
