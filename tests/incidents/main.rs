//! Incidents that users reported: the symptom is real, the audit names its cause, and the printed fix works.

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
