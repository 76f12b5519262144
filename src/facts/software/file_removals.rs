//! Finds the layers that remove files of packages from lower layers.

use std::collections::BTreeMap;

use super::package_files::{is_package_list, listed_parts};
use image_linkage::layer::LayerIndex;
use image_linkage::path::RootPath;

/// The layer that removes a file, counted from 0 at the bottom, by file path.
pub type FileRemovals = BTreeMap<RootPath, usize>;

/// Finds libraries and modules of packages that a whiteout or an opaque directory hides. The merged file system no
/// longer shows this.
pub(crate) fn find_removals(layers: &[Option<&LayerIndex>]) -> FileRemovals {
    let last = layers
        .iter()
        .rposition(|layer| layer.is_some_and(|layer| !layer.whiteouts.is_empty() || !layer.opaque.is_empty()));
    let mut found = FileRemovals::new();
    // The list is in a layer at or below the removal.
    for layer in layers.iter().take(last.map_or(0, |last| last + 1)).flatten() {
        let lists = layer.entries.kept_files().filter(|(path, _)| is_package_list(path));
        for (list, content) in lists {
            for path in listed_parts(&list, content) {
                if let Some(layer) = removal_of(layers, &path) {
                    found.insert(path, layer);
                }
            }
        }
    }
    found
}

/// The highest layer that hides the file at `path`, if a lower one contains it.
fn removal_of(layers: &[Option<&LayerIndex>], path: &RootPath) -> Option<usize> {
    let number = layers
        .iter()
        .rposition(|layer| layer.is_some_and(|layer| hides(layer, path)))?;
    let mut lower = layers.iter().take(number).flatten();
    lower.find(|layer| layer.entries.get(path.as_bytes()).is_some())?;
    Some(number)
}

fn hides(layer: &LayerIndex, path: &RootPath) -> bool {
    let mut folders = path.folders();
    layer.whiteouts.contains(path)
        || folders.any(|folder| layer.whiteouts.contains(&folder) || layer.opaque.contains(&folder))
}
