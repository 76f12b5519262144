//! Notes on what the host must provide for the tools of an image, including the minimum drivers for its CUDA.

use std::collections::BTreeSet;

use super::profilers::{ReadinessState, ToolAssessment};
use crate::facts::ImageFacts;
use crate::knowledge::host::HostCondition;
use crate::knowledge::minimum_driver::MinimumDriver;

/// The notes on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostNotes {
    /// The conditions that affect an applicable tool.
    pub conditions: Vec<&'static HostCondition>,
    /// The CUDA versions of the copies of CUPTI, or else the version that the image declares.
    pub cuda: Vec<String>,
    /// The oldest drivers for these versions.
    pub drivers: Vec<MinimumDriver>,
}

/// Gathers the notes for an image and its assessed tools.
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
    // Two updates of one release can share a driver row.
    drivers.dedup();
    HostNotes {
        conditions: conditions.filter(|condition| asked.contains(&condition.id)).collect(),
        cuda,
        drivers,
    }
}

fn cuda(facts: &ImageFacts) -> Vec<String> {
    // CUPTI talks to the driver, so its release takes precedence over a variable.
    let of_copies: BTreeSet<String> = facts
        .own_copies()
        .filter_map(|copy| Some(copy.version.as_ref()?.0.clone()))
        .collect();
    if !of_copies.is_empty() {
        return of_copies.into_iter().collect();
    }
    let named = facts.image.config.env("CUDA_VERSION").into_iter();
    // The variable is untrusted text and may contain control characters.
    named
        .map(|version| image_linkage::escape::escape_bytes(version.as_bytes()))
        .collect()
}
