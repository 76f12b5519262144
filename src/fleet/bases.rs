//! Finds the origin of a finding: another image of the fleet that is the base and has it already.

use std::collections::{BTreeMap, BTreeSet};

use super::image_result::{ImageFinding, ImageResult};

/// The layer chains of the fleet's images.
pub(super) struct KnownBases<'a> {
    /// The first name of the image with exactly this layer chain and a finding of this rule.
    ends: BTreeMap<(u64, &'a str), &'a str>,
    /// The repositories of the images with this layer chain, for each layer with a finding.
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

    /// The origin of a finding in a base: the smallest image of the fleet below this one, or a layer shared with other
    /// repositories. `None` if the image itself causes it.
    pub(super) fn responsible(&self, result: &ImageResult, finding: &ImageFinding) -> Option<String> {
        let layer = finding.layer?;
        let below = result
            .chain
            .get(layer..result.chain.len().checked_sub(1)?)
            .unwrap_or_default();
        // A finding in the last layer is the image's own, even if another image has exactly these layers.
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
