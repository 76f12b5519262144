//! What is done to an image: what is brought, what goes, and what each layer becomes.

use std::collections::{BTreeMap, BTreeSet};

use super::SlimError;
use super::original_image::OriginalImage;
use super::supplier::CuptiSupplier;
use super::twin_files::{TwinFiles, find_twin_files};
use crate::judge::facts::ImageFacts;
use crate::judge::plan::{Plan, PlanItem};
use crate::knowledge::Phase;
use crate::make::remedy::copy_plan::{self, CopyPlan};
use crate::make::remedy::install_folder::CacheUpdate;
use image_linkage::layer::rewrite::{self, LayerCut};
use image_linkage::layer::{InstalledList, LayerEntry, LayerIndex};
use image_linkage::path::RootPath;
use image_linkage::rootfs;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DropMode {
    /// What the phase does not need goes.
    Drop,
    Keep,
}

/// What is done to an image.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SlimDecision {
    /// What is brought; `None` where the image serves the phase, or nothing can be brought.
    pub bring: Option<CopyPlan>,
    /// The files that go, each with the links that lead to it.
    pub drop: Vec<PlanItem>,
    /// The files that could go and stay all the same, each with the reason.
    pub stays: Vec<(RootPath, String)>,
    /// Copies of one file that are stored once.
    pub twins: Vec<TwinFiles>,
    /// What is left out of each layer, by its number; layers that stay as they are have no entry.
    pub cuts: BTreeMap<usize, LayerCut>,
}

impl SlimDecision {
    pub(crate) fn is_nothing(&self) -> bool {
        self.bring.is_none() && self.cuts.is_empty()
    }

    /// The paths that go, links included.
    pub(crate) fn removed_paths(&self) -> BTreeSet<RootPath> {
        let items = self.drop.iter();
        items
            .flat_map(|item| std::iter::once(&item.path).chain(&item.links))
            .cloned()
            .collect()
    }

    /// The lists of installed files that may lose lines.
    pub(crate) fn changed_lists<'l>(&'l self, layers: &'l [LayerIndex]) -> impl Iterator<Item = &'l RootPath> {
        let cut = self.cuts.keys().filter_map(|&number| layers.get(number));
        let paths = cut.flat_map(|layer| layer.entries.keys());
        paths.filter(|path| InstalledList::of_path(path).is_some())
    }

    /// What the layers hold afterwards, without those that are added.
    pub(crate) fn apply(&self, layers: &[LayerIndex]) -> Vec<LayerIndex> {
        let cut = |(number, layer): (usize, &LayerIndex)| match self.cuts.get(&number) {
            Some(cut) => cut.apply(layer),
            None => layer.clone(),
        };
        layers.iter().enumerate().map(cut).collect()
    }
}

/// Decides what is done to an image, of which `plan` is that of the phase.
///
/// Errors: Why what it lacks cannot be brought.
pub(crate) fn decide_changes(
    original: &OriginalImage,
    facts: &ImageFacts,
    phase: &Phase,
    plan: &Plan,
    supplier: Option<&CuptiSupplier>,
    dropping: DropMode,
) -> Result<SlimDecision, SlimError> {
    let mut decision = SlimDecision::default();
    // An image that has what the phase demands needs nothing, wherever it could be had from.
    if let Some(supplier) = supplier.filter(|_| plan.lacks_cupti(facts)) {
        let brought = copy_plan::plan_copy(&supplier.facts, phase, facts, CacheUpdate::Cache)?;
        decision.bring = Some(brought);
    }
    if dropping == DropMode::Drop {
        leave_out(&mut decision, &original.layers, plan);
    }
    Ok(decision)
}

/// Decides which files go and what that makes of the layers.
fn leave_out(decision: &mut SlimDecision, layers: &[LayerIndex], plan: &Plan) {
    decision.drop.clone_from(&plan.drop);
    let needed = linked_from_above(layers, &decision.removed_paths());
    decision.drop.retain(|item| {
        let why = std::iter::once(&item.path)
            .chain(&item.links)
            .find_map(|path| needed.get(path));
        if let Some(why) = why {
            decision.stays.push((item.path.clone(), why.clone()));
        }
        why.is_none()
    });
    let gone = decision.removed_paths();
    for (number, layer) in layers.iter().enumerate() {
        let mut cut = LayerCut::for_paths(layer, &gone);
        for twins in find_twin_files(layer, |path| !gone.contains(path)) {
            let all = twins.links.iter().chain([&twins.file]);
            cut.twins.extend(all.map(|path| (path.clone(), twins.file.clone())));
            decision.twins.push(twins);
        }
        if !cut.is_empty() {
            cut.unlisted.clone_from(&gone);
            decision.cuts.insert(number, cut);
        }
    }
    uncovered(decision, layers, &gone);
}

/// What goes and is the target of a hard link that would then lead nowhere: one of a layer above, or one that names its
/// target through a link of a folder.
fn linked_from_above(layers: &[LayerIndex], gone: &BTreeSet<RootPath>) -> BTreeMap<RootPath, String> {
    let mut needed = BTreeMap::new();
    if gone.is_empty() {
        return needed;
    }
    let (merged, _) = rootfs::merge_layers(layers);
    let real = |target: &RootPath| Some(merged.lookup_link(&target.absolute()).ok()?.path);
    for layer in layers {
        for (path, entry) in &layer.entries {
            let LayerEntry::Hardlink(target) = entry else {
                continue;
            };
            // A link to a file of its own layer takes that file over when the layer is written again.
            if gone.contains(path) || rewrite::resolve_hardlink(layer, target).is_some() {
                continue;
            }
            // The target as it is written, and as the merged file system has it behind links of folders.
            let targets = std::iter::once(target.clone()).chain(real(target));
            for target in targets.filter(|target| gone.contains(target)) {
                let why = format!("{path} is a hard link to it from elsewhere");
                needed.insert(target, why);
            }
        }
    }
    needed
}

/// Where a directory of a layer below comes to light in the place of a file that goes, it is deleted
/// as the file had deleted it.
fn uncovered(decision: &mut SlimDecision, layers: &[LayerIndex], gone: &BTreeSet<RootPath>) {
    if gone.is_empty() {
        return;
    }
    let (merged, _) = rootfs::merge_layers(&decision.apply(layers));
    for path in gone {
        if merged.lookup_link(&path.absolute()).is_err() {
            continue;
        }
        let holds = |cut: &LayerCut| cut.gone.contains(path);
        // In the highest layer that held it: a whiteout hides what lies below it alone.
        let mut cuts = decision.cuts.values_mut().rev();
        if let Some(cut) = cuts.find(|cut| holds(cut)) {
            cut.whiteouts.insert(path.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use testkit::layer::Layer;

    use super::{SlimDecision, leave_out};
    use crate::judge::plan::{Plan, PlanItem, Verdict};
    use image_linkage::layer::{self, ExpectedBlob, IndexOptions, LayerIndex};
    use image_linkage::path::RootPath;
    use image_linkage::rootfs;

    /// What is decided when the files at `paths` may go, and what the file system holds afterwards.
    fn without(layers: &[Layer], paths: &[&str]) -> (SlimDecision, Vec<String>) {
        let read = |layer: &Layer| {
            let tar = layer.tar();
            layer::index_layer("x", tar.as_slice(), &ExpectedBlob::default(), &IndexOptions::default()).unwrap()
        };
        let layers: Vec<LayerIndex> = layers.iter().map(read).collect();
        let item = |path: &&str| PlanItem {
            path: RootPath::from(*path),
            kind: "static",
            bytes: 1,
            layer: 0,
            links: Vec::new(),
            because: String::new(),
        };
        let plan = Plan {
            phase: String::new(),
            summary: String::new(),
            verdict: Verdict::Pass,
            because: Vec::new(),
            keep: Vec::new(),
            drop: paths.iter().map(item).collect(),
            unmet: Vec::new(),
            is_misled: false,
        };
        let mut decision = SlimDecision::default();
        leave_out(&mut decision, &layers, &plan);
        let (rootfs, _) = rootfs::merge_layers(&decision.apply(&layers));
        let mut left = Vec::new();
        rootfs.visit(|path, _, _| left.push(path.to_string()));
        (decision, left)
    }

    #[test]
    fn a_file_goes_from_every_layer_that_holds_it() {
        let layers = [
            Layer::new().file("a/x", "1").file("a/y", "1"),
            Layer::new().file("b", "1"),
            Layer::new().file("a/x", "12"),
        ];
        let (decision, left) = without(&layers, &["a/x"]);
        assert_eq!(decision.cuts.keys().copied().collect::<Vec<_>>(), [0, 2]);
        assert_eq!(left, ["/a", "/a/y", "/b"]);
    }

    #[test]
    fn what_a_file_had_hidden_stays_hidden() {
        let layers = [
            Layer::new().dir("a/x").file("a/x/old", "1"),
            Layer::new().file("a/x", "1"),
        ];
        let (decision, left) = without(&layers, &["a/x"]);
        let whiteouts: Vec<String> = decision.cuts[&1].whiteouts.iter().map(ToString::to_string).collect();
        assert_eq!(whiteouts, ["/a/x"]);
        assert_eq!(left, ["/a"]);
    }

    #[test]
    fn a_file_that_a_layer_above_links_to_stays() {
        let layers = [
            Layer::new().file("a", "1").file("b", "1"),
            Layer::new().hardlink("c", "a"),
        ];
        let (decision, left) = without(&layers, &["a", "b"]);
        let why = "/c is a hard link to it from elsewhere".to_owned();
        assert_eq!(decision.stays, [(RootPath::from("a"), why)]);
        assert_eq!(left, ["/a", "/c"]);
        assert_eq!(without(&layers, &["a", "c"]).1, ["/b"]);
        let through = Layer::new()
            .symlink("lib", "usr/lib")
            .file("usr/lib/x", "1")
            .hardlink("c", "lib/x");
        let (decision, _) = without(&[through], &["usr/lib/x"]);
        assert_eq!((decision.stays.len(), decision.cuts.len()), (1, 0));
    }
}
