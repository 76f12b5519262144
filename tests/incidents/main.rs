//! Incidents that users met: is the symptom real, is the cause named, and does what is printed cure it?

#![allow(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    dead_code,
    reason = "tests drive real programs on the host, may panic, and share more than each of them uses"
)]

#[path = "../support/mod.rs"]
mod support;

mod case;
mod check;
mod dockerfile;
mod host;
mod image;
mod incidents;
mod kit;
mod matrix;
mod run;
