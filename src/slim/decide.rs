//! What is done to an image: what is brought, what goes, and what each layer becomes.

use std::collections::{BTreeMap, BTreeSet};

use super::SlimError;
use super::original::Original;
use super::supplier::Supplier;
use crate::facts::ImageFacts;
use crate::layer::rewrite::{self, Cut};
use crate::layer::{Entry, LayerIndex};
use crate::path::RootPath;
use crate::plan::{Item, Plan, Verdict};
use crate::profile::Phase;
use crate::remedy::bring::{self, Bring, Means};
use crate::rootfs;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropping {
    /// What the phase does not need goes.
    Drop,
    /// Everything stays.
    Keep,
}

/// What is done to an image.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    /// What is brought; `None` where the image serves the phase, or nothing can be brought.
    pub bring: Option<Bring>,
    /// The files that go, each with the links that lead to it.
    pub drop: Vec<Item>,
    /// The files that could go and stay all the same, each with the reason.
    pub stays: Vec<(RootPath, String)>,
    /// What is left out of each layer, by its number; layers that stay as they are have no entry.
    pub cuts: BTreeMap<usize, Cut>,
}

impl Decision {
    /// Whether nothing is done.
    pub fn is_nothing(&self) -> bool {
        self.bring.is_none() && self.cuts.is_empty()
    }

    /// The paths that go, links included.
    pub fn gone(&self) -> BTreeSet<RootPath> {
        let items = self.drop.iter();
        items
            .flat_map(|item| std::iter::once(&item.path).chain(&item.links))
            .cloned()
            .collect()
    }

    /// What the layers hold afterwards, without those that are added.
    pub fn apply(&self, layers: &[LayerIndex]) -> Vec<LayerIndex> {
        let cut = |(number, layer): (usize, &LayerIndex)| match self.cuts.get(&number) {
            Some(cut) => cut.apply(layer),
            None => layer.clone(),
        };
        layers.iter().enumerate().map(cut).collect()
    }
}

/// Decides what is done to an image, of which `plan` is that of the phase.
///
/// # Errors
/// Why what it lacks cannot be brought.
pub fn decide(
    original: &Original,
    facts: &ImageFacts,
    phase: &Phase,
    plan: &Plan,
    supplier: Option<&Supplier>,
    dropping: Dropping,
) -> Result<Decision, SlimError> {
    let mut decision = Decision::default();
    // An image that serves the phase needs nothing, wherever it could be had from.
    if let Some(supplier) = supplier.filter(|_| plan.verdict != Verdict::Pass) {
        let brought = bring::bring(&supplier.facts, phase, facts, Means::Cache)?;
        decision.bring = Some(brought);
    }
    if dropping == Dropping::Drop {
        leave_out(&mut decision, &original.layers, plan);
    }
    Ok(decision)
}

/// Decides which files go and what that makes of the layers.
fn leave_out(decision: &mut Decision, layers: &[LayerIndex], plan: &Plan) {
    decision.drop.clone_from(&plan.drop);
    let needed = linked_from_above(layers, &decision.gone());
    decision.drop.retain(|item| {
        let why = std::iter::once(&item.path)
            .chain(&item.links)
            .find_map(|path| needed.get(path));
        if let Some(why) = why {
            decision.stays.push((item.path.clone(), why.clone()));
        }
        why.is_none()
    });
    let gone = decision.gone();
    for (number, layer) in layers.iter().enumerate() {
        let cut = Cut::of(layer, &gone);
        if !cut.is_empty() {
            decision.cuts.insert(number, cut);
        }
    }
    uncovered(decision, layers, &gone);
}

/// What goes and is the target of a hard link of a layer above, which would then lead nowhere.
fn linked_from_above(
    layers: &[LayerIndex],
    gone: &BTreeSet<RootPath>,
) -> BTreeMap<RootPath, String> {
    let mut needed = BTreeMap::new();
    for layer in layers {
        for (path, entry) in &layer.entries {
            let Entry::Hardlink(target) = entry else {
                continue;
            };
            let stays = !gone.contains(path);
            if stays && gone.contains(target) && rewrite::content(layer, target).is_none() {
                let why = format!("{path} is a hard link to it from a layer above");
                needed.insert(target.clone(), why);
            }
        }
    }
    needed
}

/// Where a directory of a layer below comes to light in the place of a file that goes, it is deleted as the file had
/// deleted it.
fn uncovered(decision: &mut Decision, layers: &[LayerIndex], gone: &BTreeSet<RootPath>) {
    if gone.is_empty() {
        return;
    }
    let (merged, _) = rootfs::merge(&decision.apply(layers));
    for path in gone {
        if merged.lookup_link(&path.absolute()).is_err() {
            continue;
        }
        let holds = |cut: &Cut| cut.gone.contains(path);
        let mut cuts = decision.cuts.values_mut().rev();
        if let Some(cut) = cuts.find(|cut| holds(cut)) {
            cut.whiteouts.insert(path.clone());
        }
    }
}
