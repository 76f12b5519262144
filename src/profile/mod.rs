//! Profiles: data on what a phase of a project needs, and on the drivers of hosts.

pub mod driver;
mod phase;

pub use phase::Phase;
