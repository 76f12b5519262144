//! `slim`: the files that a new image loses and gains, and a check that all programs still load their libraries.

#![allow(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    dead_code,
    reason = "tests drive real programs on the host, may panic, and share more than each of them uses"
)]

#[path = "../support/archive_layer.rs"]
mod archive_layer;
#[path = "../support/cupti_parts.rs"]
mod cupti_parts;
#[path = "../support/engine.rs"]
mod docker;
#[path = "../support/interrupt.rs"]
mod interrupt;
#[path = "../support/processes/mod.rs"]
mod processes;
#[path = "../support/registry_parts.rs"]
mod registry_parts;
#[path = "../support/registry_server.rs"]
mod registry_server;
#[path = "../support/session.rs"]
mod session;
#[path = "../support/small_engine.rs"]
mod small_engine;
#[path = "../support/mod.rs"]
mod support;

mod gpu_code;
mod real_slim;
mod slim;
mod slim_generated;
