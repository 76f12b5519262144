//! An image without its dead weight: the paths to remove, as few as will do, and the sizes before and after.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::install_folder::volume_over;
use crate::facts::ImageFacts;
use crate::facts::software::cuda_runtime::site_packages_of;
use crate::facts::weight::dead_weight::CountedContents;
use crate::judge::plan::PlanItem;
use crate::make::quote;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeId, NodeKind, Rootfs};

/// What is removed, and what that saves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct RemovalPlan {
    /// What is removed, by reason.
    pub groups: Vec<RemovalGroup>,
    /// The paths with names that no Dockerfile can hold, which stay.
    pub unwritable: usize,
    /// The bytes of all layers as they are, uncompressed.
    pub before: u64,
    /// The bytes of the one layer that is left, uncompressed.
    pub after: u64,
    /// The number of layers as they are.
    pub layers: usize,
    /// The folders of Python packages that lose files, whose lists are kept true.
    #[serde(serialize_with = "quote::serialize_paths")]
    pub sites: Vec<RootPath>,
    /// Whether dpkg's lists of files are in the image.
    pub has_dpkg_lists: bool,
}

/// Paths that are removed for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct RemovalGroup {
    pub kind: &'static str,
    pub because: String,
    pub bytes: u64,
    /// The paths: files, links, and folders that hold nothing else.
    #[serde(serialize_with = "quote::serialize_shell_paths")]
    pub paths: Vec<RootPath>,
}

/// How the files of `drop` are removed from an image; `None` when they are none.
pub(crate) fn plan_removal(facts: &ImageFacts, drop: &[PlanItem]) -> Option<RemovalPlan> {
    // What the classic builder removes from a volume is there again behind the step.
    let drop: Vec<&PlanItem> = drop.iter().filter(|item| !is_in_volume(facts, item)).collect();
    if drop.is_empty() {
        return None;
    }
    let rootfs = &facts.contexts.as_is.rootfs;
    let gone: BTreeSet<RootPath> = drop.iter().copied().flat_map(paths_of).cloned().collect();
    let (whole, left) = whole_folders(rootfs, &gone);
    let mut groups: BTreeMap<(&'static str, &str), RemovalGroup> = BTreeMap::new();
    for item in drop {
        let key = (item.kind, item.because.as_str());
        let group = groups.entry(key).or_insert_with(|| RemovalGroup {
            kind: item.kind,
            because: item.because.clone(),
            bytes: 0,
            paths: Vec::new(),
        });
        group.bytes += item.bytes;
        group.paths.extend(paths_of(item).map(|path| highest(&whole, path)));
    }
    let mut groups = name_once(groups.into_values());
    let unwritable = leave_unwritable(&mut groups);
    let sites: BTreeSet<RootPath> = groups
        .iter()
        .flat_map(|group| group.paths.iter().filter_map(site_packages_of))
        .filter(|site| quote::require_literal("a path", &site.absolute()).is_ok())
        .collect();
    Some(RemovalPlan {
        groups,
        unwritable,
        sites: sites.into_iter().collect(),
        before: facts.layers.iter().map(|layer| layer.bytes).sum(),
        after: left,
        layers: facts.layers.len(),
        has_dpkg_lists: rootfs.lookup(b"/var/lib/dpkg/info").is_ok(),
    })
}

/// Takes out what no Dockerfile can hold, as a line break in a name would end the instruction. Gives the number of paths.
fn leave_unwritable(groups: &mut Vec<RemovalGroup>) -> usize {
    let count = |groups: &[RemovalGroup]| groups.iter().map(|group| group.paths.len()).sum::<usize>();
    let all = count(groups);
    for group in groups.iter_mut() {
        group.paths.retain(|path| quote::is_writable(path.as_bytes()));
    }
    groups.retain(|group| !group.paths.is_empty());
    all - count(groups)
}

/// Said where a folder goes for several reasons, of which the first is told.
const BESIDE: &str = "; with unneeded files beside it";

/// The groups with each path in one of them: a folder that goes as a whole may hold files of several kinds.
fn name_once(groups: impl Iterator<Item = RemovalGroup>) -> Vec<RemovalGroup> {
    let mut named: BTreeMap<RootPath, usize> = BTreeMap::new();
    let mut kept: Vec<RemovalGroup> = Vec::new();
    for mut group in groups {
        group.paths.sort();
        group.paths.dedup();
        let first = group.paths.first().and_then(|path| named.get(path)).copied();
        group.paths.retain(|path| !named.contains_key(path));
        let whole = first.filter(|_| group.paths.is_empty());
        if let Some(other) = whole.and_then(|number| kept.get_mut(number)) {
            other.bytes += group.bytes;
            if !other.because.ends_with(BESIDE) {
                other.because += BESIDE;
            }
        } else {
            named.extend(group.paths.iter().map(|path| (path.clone(), kept.len())));
            kept.push(group);
        }
    }
    kept
}

/// Whether a file that may go, or a link to it, lies in a volume of the image.
pub(super) fn is_in_volume(facts: &ImageFacts, item: &PlanItem) -> bool {
    let mut paths = paths_of(item).map(ToString::to_string);
    paths.any(|path| volume_over(facts, path.trim_start_matches('/')).is_some())
}

fn paths_of(item: &PlanItem) -> impl Iterator<Item = &RootPath> {
    std::iter::once(&item.path).chain(&item.links)
}

/// The highest folder that goes as a whole and holds the path, or the path itself.
fn highest(whole: &BTreeSet<RootPath>, path: &RootPath) -> RootPath {
    let folders = path.folders().filter(|folder| whole.contains(folder));
    folders.last().unwrap_or_else(|| path.clone())
}

/// The folders that hold nothing but what is gone, and the bytes that a tar of the rest takes.
fn whole_folders(rootfs: &Rootfs, gone: &BTreeSet<RootPath>) -> (BTreeSet<RootPath>, u64) {
    let (mut losing, mut kept) = (BTreeSet::new(), BTreeSet::new());
    let mut tar = TarSize::default();
    rootfs.visit(|path, id, node| {
        // What stays is weighed, not what goes: a file may be in several layers, and its bytes in all of them.
        let goes = gone.contains(path);
        if !goes {
            tar.take(rootfs, path, id);
        }
        // An empty folder keeps no other from going.
        if !matches!(node.kind, NodeKind::Directory(_)) {
            let holders = if goes { &mut losing } else { &mut kept };
            // Above a folder that is known all are known.
            path.folders().all(|folder| holders.insert(folder));
        }
    });
    (&losing - &kept, tar.bytes)
}

/// The size of a tar (POSIX.1, pax Interchange Format): a block of 512 bytes per entry, contents padded to blocks.
#[derive(Default)]
struct TarSize {
    bytes: u64,
    counted: CountedContents,
}

impl TarSize {
    fn take(&mut self, rootfs: &Rootfs, path: &RootPath, id: NodeId) {
        const BLOCK: u64 = 512;
        // A name or a target of more than 100 bytes takes two more blocks.
        let long = path.as_bytes().len() > 100;
        self.bytes += BLOCK * if long { 3 } else { 1 };
        if let NodeKind::File(facts) = &rootfs.node(id).kind
            // A tar holds the content of the first of several hard links alone.
            && self.counted.is_new(facts)
        {
            self.bytes += facts.bytes.div_ceil(BLOCK) * BLOCK;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{highest, whole_folders};
    use image_linkage::layer::{LayerEntry, LayerIndex};
    use image_linkage::path::RootPath;

    #[test]
    fn a_folder_goes_as_a_whole_only_if_nothing_in_it_stays() {
        let mut layer = LayerIndex::empty();
        for path in ["a/x/1", "a/x/y/2", "a/stays", "b/z/3", "a-b/4"] {
            let file = LayerEntry::File(std::sync::Arc::default());
            layer.entries.insert(&RootPath::from(path), file);
        }
        let (rootfs, _) = image_linkage::rootfs::merge_layers([&layer]);
        let gone = ["a/x/1", "a/x/y/2", "b/z/3"].map(RootPath::from);
        let (whole, _) = whole_folders(&rootfs, &BTreeSet::from(gone.clone()));
        let named: Vec<String> = gone.iter().map(|path| highest(&whole, path).to_string()).collect();
        assert_eq!(named, ["/a/x", "/a/x", "/b"]);
        let (whole, _) = whole_folders(&rootfs, &BTreeSet::new());
        assert_eq!(whole, BTreeSet::new());
    }
}
