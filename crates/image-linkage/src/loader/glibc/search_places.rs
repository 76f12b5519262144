//! The directories visited by the searches of one process. Thousands of searches share a few lists of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::elf::ByteString;
use crate::loader::link_map::LinkMaps;
use crate::loader::trace::SearchStage;
use crate::rootfs::{LookupError, NodeId, NodeKind};

/// The directories of a process, each stored once, and lists of their numbers.
#[derive(Clone, Default)]
pub(super) struct SearchPlaces {
    numbers: BTreeMap<Arc<[u8]>, usize>,
    directories: Vec<SearchDirectory>,
    lists: BTreeMap<SearchStage, SearchList>,
}

/// A list of directory numbers.
#[derive(Clone)]
pub(super) struct SearchList {
    pub numbers: Arc<[usize]>,
    /// Whether a search found all of them missing.
    pub is_absent: bool,
}

#[derive(Clone)]
struct SearchDirectory {
    path: Arc<[u8]>,
    /// The content, once a search has looked.
    place: Option<SearchPlace>,
    /// Whether a search has reported the error.
    is_reported: bool,
}

/// The state of a directory in a search path.
#[derive(Clone)]
pub(super) enum SearchPlace {
    /// Missing, for this reason.
    Absent(LookupError),
    /// The existing hardware subdirectories and then the directory itself, in search order.
    There(Arc<[SearchFolder]>),
}

/// A directory in which a name is tried.
pub(super) struct SearchFolder {
    /// The path with a trailing `/`.
    pub path: Vec<u8>,
    /// `None` for a relative one, because the working directory may change.
    node: Option<NodeId>,
}

/// The maximum lengths of a path and of a name on Linux (`PATH_MAX`, `NAME_MAX`).
const LONGEST: (usize, usize) = (4096, 255);

impl SearchFolder {
    /// Whether the name is certainly missing. Avoids a walk from the root.
    pub(super) fn lacks(&self, maps: &LinkMaps<'_>, name: &[u8]) -> bool {
        let fits = name.len() <= LONGEST.1 && self.path.len() + name.len() < LONGEST.0;
        // Without search permission the error is EACCES, so only skip the walk for users who can read everything.
        let Some(node) = self.node.filter(|_| fits && maps.identity.effective.reads_all) else {
            return false;
        };
        maps.setup.rootfs.child(node, name).is_none()
    }
}

impl SearchPlaces {
    /// The directories of a search stage. `expand` computes them the first time.
    pub(super) fn list(&mut self, how: SearchStage, expand: impl FnOnce() -> Vec<ByteString>) -> SearchList {
        if let Some(list) = self.lists.get(&how) {
            return list.clone();
        }
        let list = SearchList {
            numbers: expand().into_iter().map(|directory| self.number(&directory)).collect(),
            is_absent: false,
        };
        self.lists.insert(how, list.clone());
        list
    }

    fn number(&mut self, directory: &[u8]) -> usize {
        if let Some(number) = self.numbers.get(directory) {
            return *number;
        }
        let path: Arc<[u8]> = directory.into();
        self.numbers.insert(Arc::clone(&path), self.directories.len());
        self.directories.push(SearchDirectory {
            path,
            place: None,
            is_reported: false,
        });
        self.directories.len() - 1
    }

    /// A directory and its state.
    pub(super) fn place(&mut self, maps: &LinkMaps<'_>, number: usize) -> (Arc<[u8]>, SearchPlace) {
        let Some(directory) = self.directories.get_mut(number) else {
            return (Arc::default(), SearchPlace::Absent(LookupError::NotFound));
        };
        let path = Arc::clone(&directory.path);
        let place = directory
            .place
            .get_or_insert_with(|| look_up_place(maps, &path))
            .clone();
        (path, place)
    }

    /// Marks a directory as missing from now on.
    pub(super) fn mark_missing(&mut self, number: usize) {
        if let Some(directory) = self.directories.get_mut(number) {
            directory.place = Some(SearchPlace::Absent(LookupError::NotFound));
            directory.is_reported = true;
        }
    }

    /// Whether this is the first report that a directory is missing.
    pub(super) fn is_first_report(&mut self, number: usize) -> bool {
        let directory = self.directories.get_mut(number);
        directory.is_some_and(|directory| !std::mem::replace(&mut directory.is_reported, true))
    }

    /// Records that all directories of a search stage are missing.
    pub(super) fn mark_absent(&mut self, how: SearchStage) {
        if let Some(list) = self.lists.get_mut(&how) {
            list.is_absent = true;
        }
    }
}

/// Looks up a directory. A relative one is always tried, because the working directory may change.
fn look_up_place(maps: &LinkMaps<'_>, path: &[u8]) -> SearchPlace {
    let itself = match find_directory(maps, path) {
        Ok(node) => node,
        Err(error) => return SearchPlace::Absent(error),
    };
    // Missing subdirectories are not traced: in any image nearly all are missing.
    let subdirectories = maps.setup.linker.subdirectories.iter().filter_map(|below| {
        let path = [path, below].concat();
        let node = find_directory(maps, &path).ok()?;
        Some(SearchFolder { path, node })
    });
    let path = path.to_vec();
    SearchPlace::There(subdirectories.chain([SearchFolder { path, node: itself }]).collect())
}

/// The node of an absolute directory, or the lookup error.
fn find_directory(maps: &LinkMaps<'_>, path: &[u8]) -> Result<Option<NodeId>, LookupError> {
    if !path.starts_with(b"/") {
        return Ok(None);
    }
    let rootfs = maps.setup.rootfs;
    let found = rootfs.lookup_as(path, &maps.identity.effective)?;
    match rootfs.node(found.node).kind {
        NodeKind::Directory(_) => Ok(Some(found.node)),
        _ => Err(LookupError::NotDirectory),
    }
}
