//! The paths that a build removes for the dead weight of a patch.

use std::collections::BTreeSet;

use crate::facts::software::cuda_runtime::site_packages_of;
use crate::judge::plan::PlanItem;
use crate::make::quote;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, Rootfs};

/// The file of an item, and the links to it.
pub(crate) fn paths_of(item: &PlanItem) -> impl Iterator<Item = &RootPath> {
    std::iter::once(&item.path).chain(&item.links)
}

/// The folders whose contents are all removed with these items.
pub(crate) fn whole_folders(rootfs: &Rootfs, drops: &[PlanItem]) -> BTreeSet<RootPath> {
    let gone: BTreeSet<&RootPath> = drops.iter().flat_map(paths_of).collect();
    let (mut losing, mut kept) = (BTreeSet::new(), BTreeSet::new());
    rootfs.visit(|path, _, node| {
        // An empty folder does not keep its parent.
        if !matches!(node.kind, NodeKind::Directory(_)) {
            let holders = if gone.contains(path) { &mut losing } else { &mut kept };
            // Stop at a known folder: all its parents are known too.
            path.folders().all(|folder| holders.insert(folder));
        }
    });
    &losing - &kept
}

/// The highest folder that is removed whole and contains the path, or the path itself.
pub(crate) fn highest(whole: &BTreeSet<RootPath>, path: &RootPath) -> RootPath {
    let folders = path.folders().filter(|folder| whole.contains(folder));
    folders.last().unwrap_or_else(|| path.clone())
}

/// The paths that a build removes from the file system with the patch. Others stay, as a Dockerfile cannot contain their
/// names: a line break would end the instruction.
pub(crate) fn removed_paths(rootfs: &Rootfs, drops: &[PlanItem]) -> BTreeSet<RootPath> {
    let whole = whole_folders(rootfs, drops);
    let paths = drops.iter().flat_map(paths_of).map(|path| highest(&whole, path));
    paths.filter(|path| quote::is_writable(path.as_bytes())).collect()
}

/// The Python package folders that lose some of these paths; a build updates their lists of files.
pub(crate) fn changed_sites<'p>(paths: impl IntoIterator<Item = &'p RootPath>) -> BTreeSet<RootPath> {
    let sites = paths.into_iter().filter_map(site_packages_of);
    sites
        .filter(|site| quote::require_literal("a path", &site.absolute()).is_ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use super::{highest, whole_folders};
    use crate::judge::plan::PlanItem;
    use image_linkage::layer::{LayerEntry, LayerIndex};
    use image_linkage::path::RootPath;

    #[test]
    fn a_folder_goes_as_a_whole_only_if_nothing_in_it_stays() {
        let mut layer = LayerIndex::empty();
        for path in ["a/x/1", "a/x/y/2", "a/stays", "b/z/3", "a-b/4"] {
            let file = LayerEntry::File(Arc::default());
            layer.entries.insert(&RootPath::from(path), file);
        }
        let (rootfs, _) = image_linkage::rootfs::merge_layers([&layer]);
        let gone = ["a/x/1", "a/x/y/2", "b/z/3"].map(RootPath::from);
        let item = |path: &RootPath| PlanItem {
            path: path.clone(),
            kind: "headers",
            bytes: 0,
            layer: 0,
            links: Vec::new(),
            because: String::new(),
        };
        let whole = whole_folders(&rootfs, &gone.each_ref().map(item));
        let named: Vec<String> = gone.iter().map(|path| highest(&whole, path).to_string()).collect();
        assert_eq!(named, ["/a/x", "/a/x", "/b"]);
        assert_eq!(whole_folders(&rootfs, &[]), BTreeSet::new());
    }
}
