//! Which layer takes away what a lower one has of the files that a package lists.

use std::collections::BTreeMap;

use super::package_files::{is_package_list, listed_parts};
use image_linkage::layer::LayerIndex;
use image_linkage::path::RootPath;

/// The layer that takes a file away, counted from 0 at the bottom, by the path of the file.
pub type FileRemovals = BTreeMap<RootPath, usize>;

/// The libraries and modules of packages that a whiteout or an opaque mark hides. Once the layers lie on top of each other,
/// nothing tells it.
pub(crate) fn find_removals(layers: &[Option<&LayerIndex>]) -> FileRemovals {
    let hides = |layer: &LayerIndex| !layer.whiteouts.is_empty() || !layer.opaque.is_empty();
    let last = layers.iter().rposition(|layer| layer.is_some_and(hides));
    let mut found = FileRemovals::new();
    // A list is in a layer below the removal, or in one that came with it and that was not written anew.
    for layer in layers.iter().take(last.map_or(0, |last| last + 1)).flatten() {
        let lists = layer.entries.kept_files().filter(|(path, _)| is_package_list(path));
        for (list, content) in lists {
            let parts = listed_parts(&list, content);
            let gone = parts
                .into_iter()
                .filter_map(|path| Some((removal_of(layers, &path)?, path)));
            found.extend(gone.map(|(layer, path)| (path, layer)));
        }
    }
    found
}

/// The highest layer that hides the file at `path`, where a lower one has it.
fn removal_of(layers: &[Option<&LayerIndex>], path: &RootPath) -> Option<usize> {
    let hides = |layer: &LayerIndex| {
        let mut folders = path.folders();
        layer.whiteouts.contains(path)
            || folders.any(|folder| layer.whiteouts.contains(&folder) || layer.opaque.contains(&folder))
    };
    let number = layers.iter().rposition(|layer| layer.is_some_and(hides))?;
    let has = |layer: &&LayerIndex| layer.entries.get(path.as_bytes()).is_some();
    layers.iter().take(number).flatten().any(has).then_some(number)
}
