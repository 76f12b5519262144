//! What the host decides for the tools of an image: notes beside the verdicts, with the drivers that the CUDA of
//! the image asks for.

use std::collections::BTreeSet;

use super::profilers::{ReadinessState, ToolAssessment};
use crate::facts::ImageFacts;
use crate::knowledge::host::HostCondition;
use crate::knowledge::minimum_driver::MinimumDriver;

/// The notes on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostNotes {
    /// The conditions that bear on a tool that is applicable.
    pub conditions: Vec<&'static HostCondition>,
    /// The versions of CUDA that the copies of CUPTI are of, else that the image names itself.
    pub cuda: Vec<String>,
    /// The oldest drivers for them.
    pub drivers: Vec<MinimumDriver>,
}

/// Gathers the notes for an image and what was said of the tools.
pub fn gather_host_notes(facts: &ImageFacts, entries: &[ToolAssessment<'_>]) -> HostNotes {
    let applicable = entries
        .iter()
        .filter(|entry| entry.here.as_is.state != ReadinessState::NotApplicable);
    let asked: BTreeSet<&String> = applicable.flat_map(|entry| &entry.profiler.profile.host).collect();
    let conditions = facts.tables.host.iter();
    let cuda = cuda(facts);
    let mut drivers: Vec<MinimumDriver> = cuda
        .iter()
        .flat_map(|version| facts.tables.drivers_for(version))
        .cloned()
        .collect();
    // Two updates of one release can have the same row of drivers.
    drivers.dedup();
    HostNotes {
        conditions: conditions.filter(|condition| asked.contains(&condition.id)).collect(),
        cuda,
        drivers,
    }
}

fn cuda(facts: &ImageFacts) -> Vec<String> {
    // CUPTI is what talks to the driver: its release counts before what a variable says.
    let of_copies: BTreeSet<String> = facts
        .own_copies()
        .filter_map(|copy| Some(copy.version.as_ref()?.0.clone()))
        .collect();
    if !of_copies.is_empty() {
        return of_copies.into_iter().collect();
    }
    let named = facts.image.config.env("CUDA_VERSION");
    // The variable is the image's own text and may hold control characters.
    let named = named.map(|version| image_linkage::escape::escape_bytes(version.as_bytes()));
    named.into_iter().collect()
}
