//! Tests the CUPTI that an image's processes get, by kind of program, user and command.

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
#[path = "../support/plain_image.rs"]
mod plain_image;
#[path = "../support/processes/mod.rs"]
mod processes;
#[path = "../support/session.rs"]
mod session;
#[path = "../support/mod.rs"]
mod support;

mod odd_files;
mod processes_generated;
