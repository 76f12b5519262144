//! The order in which what objects need is loaded (glibc elf/dl-deps.c, `_dl_map_object_deps`).

use std::collections::BTreeSet;

/// The objects of one process, at most; real ones have some hundreds.
const OBJECTS: usize = 4096;

/// What ties an object to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DependencyKind {
    /// `DT_NEEDED`, which has to be there.
    Needed,
    /// `DT_FILTER`, which has to be there too, and comes before what names it.
    Filter,
    /// `DT_AUXILIARY`, a filter that may be absent.
    Auxiliary,
}

/// The maps whose needs are loaded one after the other, with their depths.
pub(super) struct LoadQueue {
    entries: Vec<QueuedObject>,
    next: usize,
    /// The maps that are in it.
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
    /// A queue that begins with these.
    pub(crate) fn new(roots: impl Iterator<Item = (usize, usize)>) -> Self {
        let entries: Vec<QueuedObject> = roots.map(queued).collect();
        Self {
            known: entries.iter().map(|entry| entry.map).collect(),
            entries,
            next: 0,
        }
    }

    /// The next map, and its depth. What was put before the last one comes first.
    pub(crate) fn next_object(&mut self) -> Option<(usize, usize)> {
        while self.entries.get(self.next)?.is_done {
            self.next += 1;
        }
        let entry = self.entries.get_mut(self.next)?;
        entry.is_done = true;
        Some((entry.map, entry.depth))
    }

    /// Appends a map, unless it is in the queue.
    /// Returns false where there is no room for it.
    pub(crate) fn append(&mut self, map: usize, depth: usize) -> bool {
        // A hostile image may let each of thousands of objects need all the others.
        if self.known.insert(map) {
            self.entries.push(queued((map, depth)));
        }
        self.entries.len() < OBJECTS
    }

    /// Puts what a filter names before the filter, unless it is before it already; says whether it did.
    pub(crate) fn insert_before(&mut self, filter: usize, map: usize, depth: usize) -> bool {
        let Some(at) = self.position(filter) else {
            return false;
        };
        match self.position(map) {
            Some(known) if known <= at => return false,
            // It is moved, not loaded twice: behind the filter its turn has not come yet.
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
