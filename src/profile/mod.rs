//! Profiles: data on the APIs of CUPTI, on files that may be dead weight, on what a phase of a project needs, and on
//! profiling tools and the hosts they meet.

pub mod advice;
pub mod api;
pub mod baggage;
pub mod driver;
pub mod host;
pub mod packages;
mod phase;
mod profiler;

pub use phase::{COLUMNS, Phase, Weights, Wish, Wishes};
pub use profiler::{Condition, CuptiNeed, Exclusion, Known, Overhead, Profiler, ProfilerFile};

/// Whether a name is the one that data speaks of; a final `*` in it stands for any rest.
pub fn named_like(name: &[u8], pattern: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(stem) => name.starts_with(stem.as_bytes()),
        None => name == pattern.as_bytes(),
    }
}
