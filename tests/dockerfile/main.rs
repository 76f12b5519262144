//! Dockerfiles: their text, and the images that builders make from them.

#![allow(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    dead_code,
    reason = "tests drive real programs on the host, may panic, and share more than each of them uses"
)]

#[path = "../support/builder.rs"]
mod builder;
#[path = "../support/cupti_parts.rs"]
mod cupti_parts;
#[path = "../support/engine.rs"]
mod docker;
#[path = "../support/hadolint.rs"]
mod hadolint;
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

mod dockerfile;
mod dockerfile_builds;
mod dockerfile_generated;
mod odd_images;
mod project_phases;
mod project_targets;
mod vertex_jobs;
