//! Removes dead weight in a build: a minimal list of paths, and the sizes before and after.

use std::collections::{BTreeMap, BTreeSet};

use crate::facts::ImageFacts;
use crate::facts::weight::dead_weight::CountedContents;
use crate::judge::plan::PlanItem;
use crate::make::patch::ImagePatch;
use crate::make::patch::apply::patch_layer;
use crate::make::patch::drops::{changed_sites, highest, paths_of, whole_folders};
use crate::make::quote;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeId, NodeKind, Rootfs};

/// The removed paths, and the savings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemovalPlan {
    /// The removed paths, grouped by reason.
    pub groups: Vec<RemovalGroup>,
    /// The number of paths that stay because a Dockerfile cannot contain their names.
    pub unwritable: usize,
    /// The uncompressed size of all current layers in bytes.
    pub before: u64,
    /// The uncompressed size of the resulting single layer in bytes.
    pub after: u64,
    /// The number of current layers.
    pub layers: usize,
    /// The Python package folders that lose files; their RECORD lists are updated.
    pub sites: Vec<RootPath>,
    /// Whether the image has dpkg's file lists.
    pub has_dpkg_lists: bool,
}

/// Paths that are removed for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemovalGroup {
    pub kind: &'static str,
    pub because: String,
    pub bytes: u64,
    /// Files, links, and folders without other contents.
    pub paths: Vec<RootPath>,
}

/// How to remove the dead weight after a patch that `adds` as many bytes; `None` if there is none.
pub(super) fn plan_removal(facts: &ImageFacts, patch: &ImagePatch, adds: u64) -> Option<RemovalPlan> {
    let drops = patch.drops.as_slice();
    if drops.is_empty() {
        return None;
    }
    let rootfs = &facts.contexts.as_is.rootfs;
    // A folder may have new files. The prediction has applied the same layer, so there is no obstacle.
    let layer = patch_layer(patch, rootfs).unwrap_or_default();
    let whole = whole_folders(&rootfs.with_layer(facts.layers.sizes.len(), &layer.index()), drops);
    let mut groups: BTreeMap<(&'static str, &str), RemovalGroup> = BTreeMap::new();
    for item in drops {
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
    let mut named = name_once(groups.into_values());
    let unwritable = leave_unwritable(&mut named);
    let sites = changed_sites(named.iter().flat_map(|group| &group.paths));
    Some(RemovalPlan {
        groups: named,
        unwritable,
        sites: sites.into_iter().collect(),
        before: facts.layers.sizes.iter().map(|layer| layer.bytes).sum(),
        after: bytes_without(rootfs, drops) + adds,
        layers: facts.layers.sizes.len(),
        has_dpkg_lists: rootfs.lookup(b"/var/lib/dpkg/info").is_ok(),
    })
}

/// Removes paths that a Dockerfile cannot contain; a line break would end the instruction. Returns their number.
fn leave_unwritable(groups: &mut Vec<RemovalGroup>) -> usize {
    let mut unwritable = 0;
    for group in groups.iter_mut() {
        let all = group.paths.len();
        group.paths.retain(|path| quote::is_writable(path.as_bytes()));
        unwritable += all - group.paths.len();
    }
    groups.retain(|group| !group.paths.is_empty());
    unwritable
}

/// Appended if a folder is removed for several reasons and only the first is given.
const BESIDE: &str = "; with unneeded files beside it";

/// The groups without duplicate paths: a folder that is removed whole may contain files of several kinds.
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

/// The size of a tar of the files that stay. Removed files are not subtracted, as one may be in several layers.
fn bytes_without(rootfs: &Rootfs, drops: &[PlanItem]) -> u64 {
    let gone: BTreeSet<&RootPath> = drops.iter().flat_map(paths_of).collect();
    let mut tar = TarSize::default();
    rootfs.visit(|path, id, _| {
        if !gone.contains(path) {
            tar.take(rootfs, path, id);
        }
    });
    tar.bytes
}

/// The size of a tar (POSIX.1, pax Interchange Format): 512 bytes per entry, with contents padded to blocks of that
/// size.
#[derive(Default)]
struct TarSize {
    bytes: u64,
    counted: CountedContents,
}

impl TarSize {
    fn take(&mut self, rootfs: &Rootfs, path: &RootPath, id: NodeId) {
        const BLOCK: u64 = 512;
        // A name or target over 100 bytes takes two more blocks.
        let long = path.as_bytes().len() > 100;
        self.bytes += BLOCK * if long { 3 } else { 1 };
        if let NodeKind::File(facts) = &rootfs.node(id).kind
            // A tar contains the content of the first hard link only.
            && self.counted.is_new(rootfs, id)
        {
            self.bytes += facts.bytes.div_ceil(BLOCK) * BLOCK;
        }
    }
}
