//! The images that builders make from Dockerfiles. `testdata/cases/dockerfile.yaml` asks about their text.

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
#[path = "../support/processes/mod.rs"]
mod processes;
#[path = "../support/registry_parts.rs"]
mod registry_parts;
#[path = "../support/session.rs"]
mod session;
#[path = "../support/mod.rs"]
mod support;

mod builds;
mod dockerfile_generated;
mod project_phases;
mod project_targets;
