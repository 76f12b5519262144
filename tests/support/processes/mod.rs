//! Images whose processes really run: the generator, the judge and the comparison.

pub mod audit;
pub mod base;
pub mod compare;
pub mod damaged;
pub mod engine_images;
pub mod features;
pub mod generate;
pub mod kept;
pub mod layers;
pub mod objects;
pub mod pythons;
pub mod runner;
pub mod spec;
mod starts;
pub mod users;
pub mod world;

use crate::session;

/// Whether the test may mount in its own mount namespace.
fn may_mount() -> bool {
    session::is_allowed()
}
