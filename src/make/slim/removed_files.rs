//! The files removed from an image, and the resulting change to each layer.

use std::collections::{BTreeMap, BTreeSet};

use super::decision::SlimDecision;
use super::twin_files::find_twin_files;
use crate::facts::dead_weight_kind;
use crate::judge::plan::PlanItem;
use crate::knowledge::KnowledgeTables;
use crate::make::patch::drops::paths_of;
use image_linkage::layer::{LayerCut, resolve_hardlink};
use image_linkage::layer::{LayerEntry, LayerIndex};
use image_linkage::path::RootPath;
use image_linkage::rootfs::{self, Rootfs};

/// Decides which of the dropped files go and how the layers change; `merged` is their file system.
pub(super) fn leave_out(
    decision: &mut SlimDecision,
    layers: &[LayerIndex],
    merged: &Rootfs,
    tables: &'static KnowledgeTables,
) {
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

/// The dead weight in a layer, of any kind, that is not visible in the merged file system.
fn hidden_files(layers: &[LayerIndex], merged: &Rootfs, tables: &'static KnowledgeTables) -> Vec<PlanItem> {
    let mut hidden = Vec::new();
    for (number, layer) in layers.iter().enumerate() {
        for (path, entry) in layer.entries.iter() {
            let LayerEntry::File(facts) = entry else { continue };
            let Some(kind) = dead_weight_kind(tables, &path, facts) else {
                continue;
            };
            let seen = merged
                .lookup_link(&path.absolute())
                .ok()
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

/// Keeps the target of a remaining hard link that cannot become the file itself.
fn keep_linked(decision: &mut SlimDecision, layers: &[LayerIndex], merged: &Rootfs) {
    // A kept file may itself be a hard link, whose target must then stay too.
    loop {
        let needed = linked_from_above(decision, layers, merged);
        let stays = |item: &PlanItem| paths_of(item).find_map(|path| needed.get(path)).cloned();
        let before = decision.removed_items().count();
        decision.hidden.retain(|item| stays(item).is_none());
        let (kept, drop) = std::mem::take(&mut decision.patch.drops)
            .into_iter()
            .partition(|item| stays(item).is_some());
        decision.patch.drops = drop;
        let kept: Vec<PlanItem> = kept;
        let why = kept.iter().filter_map(|item| Some((item.path.clone(), stays(item)?)));
        decision.stays.extend(why);
        if decision.removed_items().count() == before {
            return;
        }
    }
}

/// The removed files that an upper layer's hard link needs as its target.
fn linked_from_above(decision: &SlimDecision, layers: &[LayerIndex], merged: &Rootfs) -> BTreeMap<RootPath, String> {
    let mut needed = BTreeMap::new();
    let all: BTreeSet<&RootPath> = decision.removed_items().flat_map(paths_of).collect();
    if all.is_empty() {
        return needed;
    }
    for (number, layer) in layers.iter().enumerate() {
        let gone = decision.removed_from(number);
        for (path, entry) in layer.entries.iter() {
            let LayerEntry::Hardlink(target) = entry else {
                continue;
            };
            // If the target is in the same layer, rewriting the layer turns the link into the file.
            if gone.contains(&path) || resolve_hardlink(layer, target).is_some() {
                continue;
            }
            // The target as written, and its path in the merged file system with folder links resolved.
            let resolved = merged.lookup_link(&target.absolute()).ok().map(|found| found.path);
            let targets = std::iter::once(target.clone()).chain(resolved);
            for target in targets.filter(|target| all.contains(target)) {
                let why = format!("{path} is a hard link to it from elsewhere");
                needed.insert(target, why);
            }
        }
    }
    needed
}

/// If removing a file reveals a directory of a lower layer, the path gets a whiteout, because the file hid it.
fn uncovered(decision: &mut SlimDecision, layers: &[LayerIndex], gone: &BTreeSet<RootPath>) {
    if gone.is_empty() {
        return;
    }
    let (merged, _) = rootfs::merge_layers(decision.apply(layers));
    for path in gone {
        if merged.lookup_link(&path.absolute()).is_err() {
            continue;
        }
        // In the highest layer that contained the file: a whiteout only hides lower layers.
        let mut cuts = decision.cuts.values_mut().rev();
        if let Some(cut) = cuts.find(|cut| cut.gone.contains(path)) {
            cut.whiteouts.insert(path.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use testkit::layer::Layer;

    use super::{SlimDecision, leave_out};
    use crate::judge::plan::PlanItem;
    use crate::knowledge::Knowledge;
    use image_linkage::layer::{self, ExpectedBlob, IndexOptions, LayerIndex};
    use image_linkage::path::RootPath;
    use image_linkage::rootfs;

    /// The decision when the files at `paths` may go, and the paths that remain.
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
        let mut decision = SlimDecision::default();
        decision.patch.drops = paths.iter().map(item).collect();
        let (merged, _) = rootfs::merge_layers(&layers);
        leave_out(&mut decision, &layers, &merged, Knowledge::built_in().tables);
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

    /// The removed hidden files, each with its layer.
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
        // If an upper layer restores the path, only the lower file goes.
        let (decision, _) = without(&[below(), Layer::new().whiteout(cupti), below()], &[]);
        assert_eq!(hidden(&decision), [(0, "/opt/a/libcupti.so.12".to_owned())]);
        assert!(!decision.cuts.contains_key(&2));
        // A hard link in the same layer becomes the file; one in another layer keeps the file.
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
        // A file kept for such a link may be a hard link itself.
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
