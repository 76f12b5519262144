//! The symbolic links of one layer, and path resolution through them.
//!
//! Resolving a path takes time proportional to its length, independent of depth and of the number of links. The hash is
//! built component by component, so each directory is looked up without rehashing the prefix.

use std::collections::HashSet;
use std::hash::{BuildHasher, DefaultHasher, Hasher, RandomState};

use super::index::LayerEntry;
use super::layer_entries::LayerEntries;
use crate::path::{self, RootPath};

/// The maximum number of components that all links of a layer may expand to.
const STEPS: usize = 16_000_000;

/// The symbolic links of a layer so far.
#[derive(Debug, Default)]
pub(crate) struct LayerLinks {
    paths: HashSet<RootPath>,
    /// The hashes of their paths. May contain paths that are no longer links.
    hashes: HashSet<u64>,
    // Randomly keyed, so that a layer cannot choose colliding paths.
    keys: RandomState,
    /// The components expanded so far.
    steps: usize,
}

/// A path with the hash state before each component.
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
        // Without a separator, `a/bc` and `ab/c` would have the same hash.
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
    /// Adds or removes a link. Returns whether that changed anything.
    pub(crate) fn set(&mut self, path: &RootPath, is_link: bool) -> bool {
        // The hash stays: another path may share it, and it costs at most one extra lookup.
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

    /// Resolves the links in the path of a directory; `None` after more than `limit` links.
    ///
    /// Errors: The links of the layer expanded to too many components.
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
            // The kernel also stops here, and an engine that unpacks fails with ELOOP.
            if followed > limit {
                return Ok(None);
            }
            trail.up();
            if target.starts_with(b"/") {
                // An absolute target starts at the root of the image.
                trail = self.trail();
            }
            let parts: Vec<&[u8]> = path::split_components(target).collect();
            // Otherwise forty links with thousands of components for each of a million names would take hours.
            self.steps += parts.len();
            if self.steps > STEPS {
                return Err(format!("the symbolic links lead through more than {STEPS} directories"));
            }
            pending.extend(parts.into_iter().rev());
        }
        Ok(Some(RootPath::new(&trail.path)))
    }
}
