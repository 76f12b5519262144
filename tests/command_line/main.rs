//! The output and the files of each command.

#![allow(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    dead_code,
    reason = "tests drive real programs on the host, may panic, and share more than each of them uses"
)]

#[path = "../support/engine.rs"]
mod docker;
#[path = "../support/documentation.rs"]
mod documentation;
#[path = "../support/hadolint.rs"]
mod hadolint;
#[path = "../support/interrupt.rs"]
mod interrupt;
#[path = "../support/registry_parts.rs"]
mod registry;
#[path = "../support/registry_server.rs"]
mod registry_server;
#[path = "../support/ci_site.rs"]
mod site;
#[path = "../support/small_engine.rs"]
mod small_engine;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/terminal_picture.rs"]
mod terminal_picture;

mod cases;
mod ci;
mod cli;
mod gate;
mod gpu_evidence;
mod pages;
mod reports;
mod rules;
mod wheel;
