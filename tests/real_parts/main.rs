//! Compares the program's results with NVIDIA's libraries, Debian's loader and real Pythons.

#![allow(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    dead_code,
    reason = "tests drive real programs on the host, may panic, and share more than each of them uses"
)]

#[path = "../support/chroot.rs"]
mod chroot;
#[path = "../support/cupti_parts.rs"]
mod cupti_parts;
#[path = "../support/engine.rs"]
mod docker;
#[path = "../support/environment.rs"]
mod environment;
#[path = "../support/facts_of_root.rs"]
mod facts_of_root;
#[path = "../support/judge.rs"]
mod judge;
#[path = "../../crates/image-linkage/tests/support/loader_ours.rs"]
mod loader_ours;
#[path = "../support/plain_image.rs"]
mod plain_image;
#[path = "../support/real_objects.rs"]
mod real_objects;
#[path = "../support/session.rs"]
mod session;
#[path = "../support/mod.rs"]
mod support;

mod fixtures;
mod loader_debian;
mod real_cupti;
mod real_environments;
mod real_errors;
mod real_import;
mod real_names;
mod real_nvperf;
mod real_packages;
mod real_snippets;
mod real_symbols;
mod real_vertex;
