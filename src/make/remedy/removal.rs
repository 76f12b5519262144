//! Removes dead weight from an image: a minimal list of paths, and the sizes before and after.

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

/// The removed paths, and the savings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
    #[serde(serialize_with = "quote::serialize_paths")]
    pub sites: Vec<RootPath>,
    /// Whether the image has dpkg's file lists.
    pub has_dpkg_lists: bool,
    /// The losses when a build copies the remaining files into one layer, as sentences.
    pub losses: Vec<String>,
}

/// Paths that are removed for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct RemovalGroup {
    pub kind: &'static str,
    pub because: String,
    pub bytes: u64,
    /// Files, links, and folders without other contents.
    #[serde(serialize_with = "quote::serialize_shell_paths")]
    pub paths: Vec<RootPath>,
}

/// How to remove the files of `drop` from an image; `None` if there are none.
pub(crate) fn plan_removal(facts: &ImageFacts, drop: &[PlanItem]) -> Option<RemovalPlan> {
    // The classic builder restores files removed from a volume after the step.
    let drop: Vec<&PlanItem> = drop.iter().filter(|item| !is_in_volume(facts, item)).collect();
    if drop.is_empty() {
        return None;
    }
    let rootfs = &facts.contexts.as_is.rootfs;
    let gone: BTreeSet<RootPath> = drop.iter().copied().flat_map(paths_of).cloned().collect();
    let (whole, kept) = whole_folders(rootfs, &gone);
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
        after: kept.tar.bytes,
        layers: facts.layers.len(),
        has_dpkg_lists: rootfs.lookup(b"/var/lib/dpkg/info").is_ok(),
        losses: losses(&kept),
    })
}

/// Removes paths that a Dockerfile cannot contain; a line break would end the instruction. Returns their number.
fn leave_unwritable(groups: &mut Vec<RemovalGroup>) -> usize {
    let count = |groups: &[RemovalGroup]| groups.iter().map(|group| group.paths.len()).sum::<usize>();
    let all = count(groups);
    for group in groups.iter_mut() {
        group.paths.retain(|path| quote::is_writable(path.as_bytes()));
    }
    groups.retain(|group| !group.paths.is_empty());
    all - count(groups)
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

/// Whether a removable file, or a link to it, is in a volume of the image.
pub(super) fn is_in_volume(facts: &ImageFacts, item: &PlanItem) -> bool {
    let mut paths = paths_of(item).map(ToString::to_string);
    paths.any(|path| volume_over(facts, path.trim_start_matches('/')).is_some())
}

fn paths_of(item: &PlanItem) -> impl Iterator<Item = &RootPath> {
    std::iter::once(&item.path).chain(&item.links)
}

/// The highest folder that is removed whole and contains the path, or the path itself.
fn highest(whole: &BTreeSet<RootPath>, path: &RootPath) -> RootPath {
    let folders = path.folders().filter(|folder| whole.contains(folder));
    folders.last().unwrap_or_else(|| path.clone())
}

/// The files that are not removed.
#[derive(Default)]
struct KeptFiles {
    tar: TarSize,
    /// FIFOs and device nodes.
    special: Vec<RootPath>,
    /// Files and folders with an access control list.
    guarded: Vec<RootPath>,
}

/// The losses of `COPY --from`, seen with both builders of Docker 20.10. `BuildKit` 0.11 keeps FIFOs and devices
/// (github.com/tonistiigi/fsutil, commit 331e532).
fn losses(kept: &KeptFiles) -> Vec<String> {
    let loss = |paths: &[RootPath], words: &str| {
        let first = paths.first()?;
        let more = match paths.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        Some(format!("{words}: {first}{more}"))
    };
    let special = "BuildKit before 0.11 drops FIFOs and turns device nodes into empty files, but the classic builder and \
                   cupti-audit slim keep them";
    let guarded = "Docker 20.10 drops access control lists from the layers it builds, but cupti-audit slim keeps them";
    let losses = [loss(&kept.special, special), loss(&kept.guarded, guarded)];
    losses.into_iter().flatten().collect()
}

/// The folders whose contents are all removed, and the other files.
fn whole_folders(rootfs: &Rootfs, gone: &BTreeSet<RootPath>) -> (BTreeSet<RootPath>, KeptFiles) {
    let (mut losing, mut kept) = (BTreeSet::new(), BTreeSet::new());
    let mut files = KeptFiles::default();
    rootfs.visit(|path, id, node| {
        // Sum the kept files and not the removed ones: a removed file may occupy space in several layers.
        let goes = gone.contains(path);
        if !goes {
            files.tar.take(rootfs, path, id);
            // A container gets its own /dev.
            if matches!(node.kind, NodeKind::Special) && !path.starts_with(&RootPath::from("dev")) {
                files.special.push(path.clone());
            }
            if rootfs.access(id).is_some_and(|(_, list)| list.is_some()) {
                files.guarded.push(path.clone());
            }
        }
        // An empty folder does not keep its parent.
        if !matches!(node.kind, NodeKind::Directory(_)) {
            let holders = if goes { &mut losing } else { &mut kept };
            // Stop at a known folder: all its parents are known too.
            path.folders().all(|folder| holders.insert(folder));
        }
    });
    (&losing - &kept, files)
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use super::{highest, losses, whole_folders};
    use image_linkage::layer::{AccessList, FileFacts, LayerEntry, LayerIndex};
    use image_linkage::path::RootPath;

    #[test]
    fn a_loss_is_said_unless_the_file_goes_or_is_a_device_of_the_container() {
        // One named user, and the mask that it requires.
        let list = b"\x02\0\0\0\x02\0\x04\0\xe8\x03\0\0\x10\0\x04\0\xff\xff\xff\xff";
        let guarded = FileFacts {
            access_list: AccessList::read(list).map(Arc::new),
            ..FileFacts::default()
        };
        let mut layer = LayerIndex::empty();
        for path in ["dev/null", "a/fifo", "srv/fifo"] {
            layer.entries.insert(&RootPath::from(path), LayerEntry::Special);
        }
        let guarded = LayerEntry::File(Arc::new(guarded));
        layer.entries.insert(&RootPath::from("srv/guarded"), guarded);
        let (rootfs, _) = image_linkage::rootfs::merge_layers([&layer]);
        let said = |gone: &[&str]| {
            let gone = gone.iter().map(|path| RootPath::from(*path)).collect();
            let said = losses(&whole_folders(&rootfs, &gone).1);
            said.iter()
                .map(|loss| loss.rsplit(": ").next().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(said(&[]), ["/a/fifo and 1 more", "/srv/guarded"]);
        assert_eq!(said(&["a/fifo"]), ["/srv/fifo", "/srv/guarded"]);
        assert_eq!(said(&["a/fifo", "srv/fifo", "srv/guarded"]), [""; 0]);
    }

    #[test]
    fn a_folder_goes_as_a_whole_only_if_nothing_in_it_stays() {
        let mut layer = LayerIndex::empty();
        for path in ["a/x/1", "a/x/y/2", "a/stays", "b/z/3", "a-b/4"] {
            let file = LayerEntry::File(Arc::default());
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
