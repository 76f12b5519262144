//! The load order of dependencies (glibc elf/dl-deps.c, `_dl_map_object_deps`).

use std::collections::BTreeSet;

/// The maximum objects of one process. Real ones have some hundreds.
const OBJECTS: usize = 4096;

/// The kind of a dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DependencyKind {
    /// `DT_NEEDED`: required.
    Needed,
    /// `DT_FILTER`: required, and placed before the object with the filter.
    Filter,
    /// `DT_AUXILIARY`: an optional filter.
    ///
    /// One that the same dlopen(3) has loaded before keeps its place here; glibc moves it in front of its filter.
    Auxiliary,
}

/// The objects whose dependencies are loaded, in order, with their depths.
pub(super) struct LoadQueue {
    entries: Vec<QueuedObject>,
    next: usize,
    /// The objects in the queue.
    known: BTreeSet<usize>,
}

struct QueuedObject {
    map: usize,
    depth: usize,
    is_done: bool,
}

fn queued((map, depth): (usize, usize)) -> QueuedObject {
    QueuedObject {
        map,
        depth,
        is_done: false,
    }
}

impl LoadQueue {
    /// Starts with these objects.
    pub(crate) fn new(roots: impl Iterator<Item = (usize, usize)>) -> Self {
        let entries: Vec<QueuedObject> = roots.map(queued).collect();
        Self {
            known: entries.iter().map(|entry| entry.map).collect(),
            entries,
            next: 0,
        }
    }

    /// The next object and its depth. Objects inserted before the last one come first.
    pub(crate) fn next_object(&mut self) -> Option<(usize, usize)> {
        while self.entries.get(self.next)?.is_done {
            self.next += 1;
        }
        let entry = self.entries.get_mut(self.next)?;
        entry.is_done = true;
        Some((entry.map, entry.depth))
    }

    /// Appends an object unless it is queued. Returns false if the queue is full.
    pub(crate) fn append(&mut self, map: usize, depth: usize) -> bool {
        // In a hostile image, each of thousands of objects may need all others.
        if self.known.insert(map) {
            self.entries.push(queued((map, depth)));
        }
        self.entries.len() < OBJECTS
    }

    /// Inserts a filtee before its filter. Returns false if it already is in front or the queue is full.
    pub(crate) fn insert_before(&mut self, filter: usize, map: usize, depth: usize) -> bool {
        let Some(at) = self.position(filter) else {
            return false;
        };
        match self.position(map) {
            Some(known) if known <= at => return false,
            // Move it: behind the filter it has not been processed yet.
            Some(known) => drop(self.entries.remove(known)),
            None if self.entries.len() >= OBJECTS => return false,
            None => drop(self.known.insert(map)),
        }
        self.entries.insert(at, queued((map, depth)));
        true
    }

    fn position(&self, map: usize) -> Option<usize> {
        self.entries.iter().position(|entry| entry.map == map)
    }
}
