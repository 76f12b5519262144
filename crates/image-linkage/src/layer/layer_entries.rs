//! The entries of a layer, grouped by folder so that files share its path.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::index::LayerEntry;
use crate::name_map::NameMap;
use crate::path::RootPath;

/// The entries of a layer, by path.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LayerEntries {
    /// Never contains an empty folder.
    folders: BTreeMap<RootPath, NameMap<LayerEntry>>,
    len: usize,
}

impl LayerEntries {
    /// The entry at a path in the form of [`RootPath::as_bytes`].
    pub fn get(&self, path: &[u8]) -> Option<&LayerEntry> {
        let (folder, name) = split_name(path);
        Some(self.folders.get(folder)?.get(name)?.1)
    }

    pub(crate) fn get_mut(&mut self, path: &RootPath) -> Option<&mut LayerEntry> {
        let (folder, name) = split_name(path.as_bytes());
        self.folders.get_mut(folder)?.get_mut(name)
    }

    /// Inserts an entry. Returns the previous one.
    pub fn insert(&mut self, path: &RootPath, entry: LayerEntry) -> Option<LayerEntry> {
        let (folder, name) = split_name(path.as_bytes());
        let before = match self.folders.get_mut(folder) {
            Some(names) => names.insert(name, entry),
            None => self.folders.entry(path.parent()).or_default().insert(name, entry),
        };
        self.len += usize::from(before.is_none());
        before
    }

    /// Inserts entries into a folder.
    pub(crate) fn extend<'n>(&mut self, folder: RootPath, entries: impl Iterator<Item = (&'n [u8], LayerEntry)>) {
        let names = self.folders.entry(folder).or_default();
        for (name, entry) in entries {
            self.len += usize::from(names.insert(name, entry).is_none());
        }
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, path: &RootPath) -> Option<LayerEntry> {
        let (folder, name) = split_name(path.as_bytes());
        let names = self.folders.get_mut(folder)?;
        let gone = names.remove(name)?;
        if names.is_empty() {
            self.folders.remove(folder);
        }
        self.len -= 1;
        Some(gone)
    }

    /// All paths below `path`.
    pub(crate) fn paths_below(&self, path: &RootPath) -> Vec<RootPath> {
        // Deeper folders are contiguous from `path/\x01` on: a name contains no NUL, so that is the smallest one.
        let first = [path.as_bytes(), b"/\x01"].concat();
        let further = self
            .folders
            .range::<[u8], _>((Bound::Included(&*first), Bound::Unbounded))
            .take_while(|(folder, _)| folder.starts_with(path));
        let own = self.folders.get_key_value(path.as_bytes());
        own.into_iter()
            .chain(further)
            .flat_map(paths)
            .map(|(path, _)| path)
            .collect()
    }

    /// The non-empty folders in path order, parents first, each with its entries by name.
    pub(crate) fn folders(&self) -> impl Iterator<Item = (&RootPath, &NameMap<LayerEntry>)> {
        self.folders.iter()
    }

    /// The entries, sorted by folder and name.
    pub fn iter(&self) -> impl Iterator<Item = (RootPath, &LayerEntry)> {
        self.folders.iter().flat_map(paths)
    }

    /// The hard links and their targets, in the order of [`Self::iter`].
    pub(crate) fn hard_links(&self) -> impl Iterator<Item = (RootPath, &RootPath)> {
        self.folders.iter().flat_map(|(folder, names)| {
            // Do not build the paths of other entries.
            names.iter().filter_map(move |(name, entry)| match entry {
                LayerEntry::Hardlink(target) => Some((folder.child(name), target)),
                _ => None,
            })
        })
    }

    /// The kept files and their content, in the order of [`Self::iter`].
    pub fn kept_files(&self) -> impl Iterator<Item = (RootPath, &[u8])> {
        self.folders.iter().flat_map(|(folder, names)| {
            names.iter().filter_map(move |(name, entry)| match entry {
                LayerEntry::File(facts) => facts.kept.as_deref().map(|kept| (folder.child(name), kept)),
                _ => None,
            })
        })
    }

    /// The paths, in the order of [`Self::iter`].
    pub(crate) fn keys(&self) -> impl Iterator<Item = RootPath> {
        self.iter().map(|(path, _)| path)
    }

    /// The entries, in the order of [`Self::iter`].
    pub fn values(&self) -> impl Iterator<Item = &LayerEntry> {
        let all = self.folders.values().flat_map(NameMap::iter);
        all.map(|(_, entry)| entry)
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

fn paths<'a>(
    (folder, names): (&'a RootPath, &'a NameMap<LayerEntry>),
) -> impl Iterator<Item = (RootPath, &'a LayerEntry)> {
    names.iter().map(|(name, entry)| (folder.child(name), entry))
}

/// Splits a path into folder and name.
fn split_name(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(at) => (
            path.get(..at).unwrap_or_default(),
            path.get(at + 1..).unwrap_or_default(),
        ),
        None => (b"", path),
    }
}
