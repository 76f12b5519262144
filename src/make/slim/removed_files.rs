//! What goes from an image, and what that makes of each of its layers.

use std::collections::{BTreeMap, BTreeSet};

use super::decision::SlimDecision;
use super::twin_files::find_twin_files;
use crate::facts::dead_weight_kind;
use crate::judge::plan::{Plan, PlanItem};
use crate::knowledge::KnowledgeTables;
use image_linkage::layer::{LayerCut, resolve_hardlink};
use image_linkage::layer::{LayerEntry, LayerIndex};
use image_linkage::path::RootPath;
use image_linkage::rootfs::{self, Rootfs};

/// Decides which files go and what that makes of the layers, whose file system is `merged`.
pub(super) fn leave_out(
    decision: &mut SlimDecision,
    layers: &[LayerIndex],
    merged: &Rootfs,
    plan: &Plan,
    tables: &'static KnowledgeTables,
) {
    decision.drop.clone_from(&plan.drop);
    decision.hidden = hidden_files(layers, merged, tables);
    keep_linked(decision, layers, merged);
    let gone = decision.removed_paths();
    for (number, layer) in layers.iter().enumerate() {
        let mut cut = LayerCut::new(layer, &decision.removed_from(number));
        for twins in find_twin_files(layer, |path| !cut.gone.contains(path)) {
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

/// The dead weight of a layer, of whatever kind, that is not what the merged file system has in its place.
fn hidden_files(layers: &[LayerIndex], merged: &Rootfs, tables: &'static KnowledgeTables) -> Vec<PlanItem> {
    let mut hidden = Vec::new();
    for (number, layer) in layers.iter().enumerate() {
        for (path, entry) in layer.entries.iter() {
            let LayerEntry::File(facts) = entry else { continue };
            let Some(kind) = dead_weight_kind(tables, &path, facts) else {
                continue;
            };
            let seen = merged.lookup_link(&path.absolute()).ok();
            let seen = seen
                .filter(|found| found.path == path)
                .map(|found| merged.node(found.node));
            if seen.is_none_or(|node| node.layer != number) {
                hidden.push(PlanItem {
                    path: path.clone(),
                    kind: &kind.id,
                    bytes: facts.bytes,
                    layer: number,
                    links: Vec::new(),
                    because: "a layer above hides it, and its bytes are part of the image all the same".to_owned(),
                });
            }
        }
    }
    hidden
}

/// Keeps what a hard link leads to that stays and cannot take it over.
fn keep_linked(decision: &mut SlimDecision, layers: &[LayerIndex], merged: &Rootfs) {
    // What stays may be such a link itself, and what it leads to stays then, too.
    loop {
        let needed = linked_from_above(decision, layers, merged);
        let stays = |item: &PlanItem| {
            let mut paths = std::iter::once(&item.path).chain(&item.links);
            paths.find_map(|path| needed.get(path)).cloned()
        };
        let before = decision.removed_items().count();
        decision.hidden.retain(|item| stays(item).is_none());
        let (kept, drop) = std::mem::take(&mut decision.drop)
            .into_iter()
            .partition(|item| stays(item).is_some());
        decision.drop = drop;
        let kept: Vec<PlanItem> = kept;
        let why = kept.iter().filter_map(|item| Some((item.path.clone(), stays(item)?)));
        decision.stays.extend(why);
        if decision.removed_items().count() == before {
            return;
        }
    }
}

/// What goes and is the target of a hard link of a layer above, which would then lead nowhere.
fn linked_from_above(decision: &SlimDecision, layers: &[LayerIndex], merged: &Rootfs) -> BTreeMap<RootPath, String> {
    let mut needed = BTreeMap::new();
    let all: BTreeSet<&RootPath> = decision
        .removed_items()
        .flat_map(|item| std::iter::once(&item.path).chain(&item.links))
        .collect();
    if all.is_empty() {
        return needed;
    }
    let real = |target: &RootPath| Some(merged.lookup_link(&target.absolute()).ok()?.path);
    for (number, layer) in layers.iter().enumerate() {
        let gone = decision.removed_from(number);
        for (path, entry) in layer.entries.iter() {
            let LayerEntry::Hardlink(target) = entry else {
                continue;
            };
            // A link to a file of its own layer takes that file over when the layer is written again.
            if gone.contains(&path) || resolve_hardlink(layer, target).is_some() {
                continue;
            }
            // The target as it is written, and as the merged file system has it behind links of folders.
            let targets = std::iter::once(target.clone()).chain(real(target));
            for target in targets.filter(|target| all.contains(target)) {
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
    let (merged, _) = rootfs::merge_layers(decision.apply(layers));
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
    use crate::knowledge::Knowledge;
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
        let (merged, _) = rootfs::merge_layers(&layers);
        leave_out(&mut decision, &layers, &merged, &plan, Knowledge::built_in().tables);
        let (rootfs, _) = rootfs::merge_layers(decision.apply(&layers));
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

    /// What goes though nobody saw it, each with its layer.
    fn hidden(decision: &SlimDecision) -> Vec<(usize, String)> {
        let items = decision.hidden.iter();
        items.map(|item| (item.layer, item.path.to_string())).collect()
    }

    #[test]
    fn what_a_layer_above_deletes_or_replaces_goes_from_the_layer_that_holds_it() {
        let (cupti, other) = ("opt/a/libcupti.so.12", "opt/a/x");
        let below = || Layer::new().file(cupti, "1").file(other, "1");
        for (above, left) in [
            (Layer::new().whiteout(cupti).whiteout(other), &["/opt", "/opt/a"][..]),
            (Layer::new().whiteout("opt/a"), &["/opt"]),
            (
                Layer::new().opaque("opt/a").file("opt/a/y", "1"),
                &["/opt", "/opt/a", "/opt/a/y"],
            ),
            (Layer::new().file("opt/a", "1"), &["/opt", "/opt/a"]),
        ] {
            let (decision, now) = without(&[below(), above], &[]);
            assert_eq!(hidden(&decision), [(0, "/opt/a/libcupti.so.12".to_owned())]);
            assert_eq!(decision.cuts.keys().copied().collect::<Vec<_>>(), [0]);
            assert_eq!(now, left);
        }
        // Where it comes again, only the one below goes.
        let (decision, _) = without(&[below(), Layer::new().whiteout(cupti), below()], &[]);
        assert_eq!(hidden(&decision), [(0, "/opt/a/libcupti.so.12".to_owned())]);
        assert!(!decision.cuts.contains_key(&2));
        // A hard link of its layer takes it over, and one of another layer keeps it.
        let above = || Layer::new().whiteout(cupti);
        let (decision, now) = without(&[below().hardlink("opt/b", cupti), above()], &[]);
        assert_eq!((hidden(&decision).len(), now.contains(&"/opt/b".to_owned())), (1, true));
        let link = Layer::new().hardlink("opt/b", cupti);
        let (decision, now) = without(&[below(), link, above()], &[]);
        assert_eq!((hidden(&decision).len(), now.contains(&"/opt/b".to_owned())), (0, true));
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
        // One that stays for such a link may be one itself.
        let layers = [
            Layer::new().file("a", "1"),
            Layer::new().hardlink("b", "a").hardlink("c", "b"),
        ];
        let (decision, left) = without(&layers, &["a", "b"]);
        assert_eq!(
            (decision.stays.len(), left),
            (2, ["/a", "/b", "/c"].map(str::to_owned).to_vec())
        );
    }
}
