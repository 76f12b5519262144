//! Image sources: archives, engines and registries, and their failures.

#![allow(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    clippy::print_stdout,
    clippy::unwrap_used,
    dead_code,
    reason = "tests drive real programs on the host, may panic, and share more than each of them uses"
)]

#[path = "../support/engine.rs"]
mod docker;
#[path = "../support/fleet_engines.rs"]
mod fleet_engines;
#[path = "../support/fleet_images.rs"]
mod fleet_images;
mod fleet_nights;
#[path = "../support/fleet_runs.rs"]
mod fleet_runs;
#[path = "../support/fleet_slurm.rs"]
mod fleet_slurm;
#[path = "../support/image_archive.rs"]
mod image_archive;
#[path = "../support/name_server.rs"]
mod name_server;
#[path = "../support/registry_parts.rs"]
mod registry_parts;
#[path = "../support/registry_server.rs"]
mod registry_server;
#[path = "../support/mod.rs"]
mod support;

mod archives;
mod engine;
mod pushed;
mod registry;
mod registry_faults;
mod sources;
