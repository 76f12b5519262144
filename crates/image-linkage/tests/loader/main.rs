//! Compares the simulated loader with real ones.

#![allow(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    dead_code,
    reason = "tests drive real programs on the host, may panic, and share more than each of them uses"
)]

#[path = "../support/credential_case.rs"]
mod credential_case;
#[path = "../support/loader_case.rs"]
mod loader_case;
#[path = "../support/loader_compare.rs"]
mod loader_compare;
#[path = "../support/loader_generate.rs"]
mod loader_generate;
#[path = "../support/loader_judge.rs"]
mod loader_judge;
#[path = "../support/loader_kept.rs"]
mod loader_kept;
#[path = "../support/loader_objects.rs"]
mod loader_objects;
#[path = "../support/loader_ours.rs"]
mod loader_ours;
#[path = "../support/loader_tools.rs"]
mod loader_tools;
#[path = "../support/loader_tree.rs"]
mod loader_tree;
#[path = "../support/loader_world.rs"]
mod loader_world;

use testkit::parts as support;

mod loader_caches;
mod loader_credentials;
mod loader_generated;
mod loader_listed;
mod loader_musl;
mod loader_other;
