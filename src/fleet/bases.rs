//! Where a finding comes from: the image of the fleet that others begin from and that has it already.

use std::collections::{BTreeMap, BTreeSet};

use super::image_result::{ImageFinding, ImageResult};

/// Which images end with which layers.
pub(super) struct KnownBases<'a> {
    /// By what stands for all layers of an image and a rule that finds something in it: its first name.
    ends: BTreeMap<(u64, &'a str), &'a str>,
    /// By what stands for the layers up to one that a finding points to: the repositories of the images that have them.
    sharing: BTreeMap<u64, BTreeSet<String>>,
}

impl<'a> KnownBases<'a> {
    pub(super) fn of(results: &'a [ImageResult]) -> Self {
        let mut known = Self {
            ends: BTreeMap::new(),
            sharing: BTreeMap::new(),
        };
        for result in results {
            if let (Some(end), Some(name)) = (result.chain.last(), result.names.first()) {
                for finding in &result.findings {
                    // The smallest name wins, in whatever order the results come.
                    let there = known.ends.entry((*end, &finding.rule)).or_insert(name);
                    *there = (*there).min(name);
                }
            }
            for place in result.findings.iter().filter_map(|finding| place_of(result, finding)) {
                known.sharing.entry(place).or_default().extend(result.repositories());
            }
        }
        known
    }

    /// What brings a finding into an image, unless that is the image itself: the smallest image of the fleet that it begins
    /// from and that has it, or a layer that other repositories have as well.
    pub(super) fn responsible(&self, result: &ImageResult, finding: &ImageFinding) -> Option<String> {
        let layer = finding.layer?;
        let below = result
            .chain
            .get(layer..result.chain.len().checked_sub(1)?)
            .unwrap_or_default();
        // What the last layer brings is the image's own, also where another image has no more than these layers.
        let place = below.first()?;
        let base = below
            .iter()
            .find_map(|end| self.ends.get(&(*end, finding.rule.as_str())));
        let is_shared = self
            .sharing
            .get(place)
            .is_some_and(|repositories| repositories.len() > 1);
        base.map(|name| (*name).to_owned())
            .or_else(|| is_shared.then(|| format!("layer {}", finding.layer_name)))
    }
}

fn place_of(result: &ImageResult, finding: &ImageFinding) -> Option<u64> {
    result.chain.get(finding.layer?).copied()
}
