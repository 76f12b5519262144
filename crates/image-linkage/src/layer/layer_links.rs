//! The symbolic links of one layer, and the way through them to a directory.
//!
//! A name costs time in proportion to its length, however deep it is and however many links there are: the
//! hash of a path is made component by component, so that every directory on the way is looked up at once.

use std::collections::HashSet;
use std::hash::{BuildHasher, DefaultHasher, Hasher, RandomState};

use super::index::LayerEntry;
use super::layer_entries::LayerEntries;
use crate::path::{self, RootPath};

/// The components that all links of a layer together may lead through.
const STEPS: usize = 16_000_000;

/// The links of a layer so far.
#[derive(Debug, Default)]
pub(crate) struct LayerLinks {
    paths: HashSet<RootPath>,
    /// Their hashes, by components. What is no longer a link may still be here.
    hashes: HashSet<u64>,
    // At random, so that no layer can choose paths whose hashes meet.
    keys: RandomState,
    /// The components that links have led through.
    steps: usize,
}

/// A path on the way, with the state of its hash before each component.
struct HashedPath {
    path: Vec<u8>,
    hasher: DefaultHasher,
    above: Vec<(usize, DefaultHasher)>,
}

impl HashedPath {
    fn down(&mut self, part: &[u8]) {
        self.above.push((self.path.len(), self.hasher.clone()));
        if !self.path.is_empty() {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(part);
        self.hasher.write(part);
        // Without a mark between components, `a/bc` and `ab/c` would have one hash.
        self.hasher.write_u8(b'/');
    }

    fn up(&mut self) {
        if let Some((length, hasher)) = self.above.pop() {
            self.path.truncate(length);
            self.hasher = hasher;
        }
    }
}

impl LayerLinks {
    /// Adds or removes the link at `path`; says whether that changed anything.
    pub(crate) fn set(&mut self, path: &RootPath, is_link: bool) -> bool {
        // The hash stays behind: it costs a second look-up at most, and another path may share it.
        if !is_link {
            return self.paths.remove(path);
        }
        let mut trail = self.trail();
        path.split_components().for_each(|part| trail.down(part));
        self.hashes.insert(trail.hasher.finish());
        self.paths.insert(path.clone())
    }

    fn trail(&self) -> HashedPath {
        HashedPath {
            path: Vec::new(),
            hasher: self.keys.build_hasher(),
            above: Vec::new(),
        }
    }

    fn target<'a>(&self, trail: &HashedPath, entries: &'a LayerEntries) -> Option<&'a [u8]> {
        let path = trail.path.as_slice();
        let is_link = self.hashes.contains(&trail.hasher.finish()) && self.paths.contains(path);
        match entries.get(path).filter(|_| is_link) {
            Some(LayerEntry::Symlink(target)) => Some(target),
            _ => None,
        }
    }

    /// Resolves the links on the way to a directory; `None` past `limit` links.
    ///
    /// Errors: When the links of the layer have led through too many components.
    pub(crate) fn follow(
        &mut self,
        directory: &RootPath,
        entries: &LayerEntries,
        limit: usize,
    ) -> Result<Option<RootPath>, String> {
        if self.paths.is_empty() {
            return Ok(Some(directory.clone()));
        }
        let mut pending: Vec<&[u8]> = directory.split_components().rev().collect();
        let mut trail = self.trail();
        let mut followed = 0;
        while let Some(part) = pending.pop() {
            if part == b".." {
                trail.up();
                continue;
            }
            trail.down(part);
            let Some(target) = self.target(&trail, entries) else {
                continue;
            };
            followed += 1;
            // The kernel follows no more either, and an engine that unpacks gets ELOOP.
            if followed > limit {
                return Ok(None);
            }
            trail.up();
            if target.starts_with(b"/") {
                // An absolute target counts from the root of the image.
                trail = self.trail();
            }
            let parts: Vec<&[u8]> = path::split_components(target).collect();
            // Forty links with targets of thousands of components for each of a million names would take hours.
            self.steps += parts.len();
            if self.steps > STEPS {
                return Err(format!("the symbolic links lead through more than {STEPS} directories"));
            }
            pending.extend(parts.into_iter().rev());
        }
        Ok(Some(RootPath::new(&trail.path)))
    }
}
