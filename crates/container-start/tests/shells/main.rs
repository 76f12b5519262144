//! Compares the reading of container commands with real shells and tools.

#![allow(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "the judge is a real shell, run in a root; tests may panic"
)]

mod case_file;
mod comparison;
mod real_root;
mod real_run;

mod changed_files;
mod real_shells;
mod syntax_trees;
