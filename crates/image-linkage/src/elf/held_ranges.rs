//! Keeps the few ranges of a streamed file that matter: its start, and the ranges requested before they arrive.

use std::borrow::Cow;

use super::byte_store::{ByteStore, PLAIN};
use super::facts::ElfProblem;
use super::range::ElfRange;

/// The bytes of one step. A range that is discovered in a step may begin in that step or the one before it.
pub(super) const STEP: usize = 64 << 10;
/// Ranges behind the start may use this multiple of the start's memory limit.
const CAUGHT: usize = 3;

/// The start of the file, its most recent bytes, and the ranges caught behind the start.
pub(super) struct HeldRanges {
    pub head: ByteStore,
    /// The start of the code. Linkers put it behind the tables, so the start is kept only up to here (and at least
    /// PLAIN).
    pub code: Option<u64>,
    /// The range that reveals further offsets. When it arrives, the bytes right before its end may be requested.
    pub awaited: Option<ElfRange>,
    recent: Vec<u8>,
    caught: Vec<(ElfRange, ByteStore)>,
    /// A range to catch once the start is full.
    pub foreseen: Option<ElfRange>,
    pub position: u64,
    /// The memory left for the start, and for all caught ranges.
    head_room: usize,
    caught_room: usize,
    pub limit: usize,
}

impl HeldRanges {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            head: ByteStore::default(),
            code: None,
            awaited: None,
            recent: Vec::new(),
            caught: Vec::new(),
            foreseen: None,
            position: 0,
            head_room: limit,
            caught_room: CAUGHT * limit,
            limit,
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        // Stop here: code holds nothing we look for, and storing it costs compression. Keep one more step, which may
        // still contain the end of a table.
        if self
            .code
            .is_some_and(|code| self.position >= code.max(PLAIN as u64).saturating_add(STEP as u64))
        {
            self.head.seal();
        }
        self.head.push(bytes, &mut self.head_room);
        // While the start has room it contains everything, and no other copy is needed.
        if self.head.is_full() {
            self.keep_recent(bytes);
            self.catch_foreseen();
        }
        let end = self.position + bytes.len() as u64;
        for (range, caught) in &mut self.caught {
            let from = range.offset.max(self.position);
            let to = range.end().min(end);
            if from < to {
                let slice = to_usize(from - self.position)..to_usize(to - self.position);
                let bytes = bytes.get(slice).unwrap_or_default();
                caught.push(bytes, &mut self.caught_room);
            }
        }
        self.position = end;
    }

    /// Keeps this piece and the previous one if they may contain a range that is about to be discovered.
    fn keep_recent(&mut self, bytes: &[u8]) {
        let near = self.position + 2 * STEP as u64;
        if self.awaited.is_some_and(|range| range.end() <= near) {
            let surplus = self.recent.len().saturating_sub(STEP);
            self.recent.drain(..surplus);
            self.recent.extend_from_slice(bytes);
        } else {
            self.recent.clear();
        }
    }

    /// Starts to catch the predicted range, from the current position on.
    fn catch_foreseen(&mut self) {
        let Some(range) = self.foreseen.take() else {
            return;
        };
        // Start at this piece, where the start became full: no byte is lost in between.
        let offset = range.offset.max(self.position);
        if let Some(bytes) = range.end().checked_sub(offset) {
            let rest = ElfRange { offset, bytes, ..range };
            self.caught.push((rest, ByteStore::default()));
        }
    }

    /// Requests a range. It is already kept, will be caught, or is out of reach.
    pub(crate) fn want(&mut self, range: ElfRange) -> Result<(), ElfProblem> {
        // An empty range counts as kept, even behind the end of a damaged file.
        let in_head = range.end() <= self.head.len() as u64 || range.bytes == 0;
        if in_head || self.caught.iter().any(|(caught, _)| caught.holds(&range)) {
            return Ok(());
        }
        let so_far = self.since(&range).ok_or(ElfProblem::OutOfReach {
            what: range.what,
            offset: range.offset,
        })?;
        let mut store = ByteStore::default();
        store.push(&so_far, &mut self.caught_room);
        self.caught.push((range, store));
        Ok(())
    }

    /// The part of a range that has passed; `None` if some of it was dropped.
    fn since(&self, range: &ElfRange) -> Option<Vec<u8>> {
        let recent_start = self.position - self.recent.len() as u64;
        let length = to_usize(range.bytes);
        if range.offset >= self.position {
            return Some(Vec::new());
        }
        // Nothing was dropped yet: the start contains everything.
        if self.head.len() as u64 == self.position {
            let whole = self.head.get(to_usize(range.offset), to_usize(range.end()));
            return Some(whole.into_owned());
        }
        let passed = self.recent.get(to_usize(range.offset.checked_sub(recent_start)?)..)?;
        passed.get(..passed.len().min(length)).map(<[u8]>::to_vec)
    }

    /// Whether the whole range has passed.
    pub(crate) fn passed(&self, range: &ElfRange) -> bool {
        range.end() <= self.position
    }

    /// The store that holds a requested range, and its offset there.
    pub(crate) fn find(&self, range: &ElfRange) -> (&ByteStore, usize) {
        match self.caught.iter().find(|(caught, _)| caught.holds(range)) {
            Some((caught, store)) => (store, to_usize(range.offset - caught.offset)),
            None => (&self.head, to_usize(range.offset)),
        }
    }

    /// The bytes of a requested range; fewer if the file ended early.
    pub(crate) fn get(&self, range: &ElfRange) -> Cow<'_, [u8]> {
        let (store, start) = self.find(range);
        store.get(start, start.saturating_add(to_usize(range.bytes)))
    }

    /// The same bytes in pieces of `size` bytes. Only one is in memory at a time, even if the store is compressed.
    pub(crate) fn pieces(&self, range: &ElfRange, size: usize) -> impl Iterator<Item = Cow<'_, [u8]>> {
        let (store, start) = self.find(range);
        let end = start.saturating_add(to_usize(range.bytes)).min(store.len());
        (start..end)
            .step_by(size)
            .map(move |at| store.get(at, end.min(at + size)))
    }

    /// A problem if the range has passed but was not kept completely.
    pub(crate) fn lost(&self, range: &ElfRange) -> Option<ElfProblem> {
        let (store, start) = self.find(range);
        let held = store.len().saturating_sub(start) as u64;
        (self.passed(range) && held < range.bytes).then_some(ElfProblem::TooLarge {
            what: range.what,
            bytes: range.bytes,
            limit: self.limit as u64,
        })
    }
}

pub(super) fn to_usize(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::{ElfRange, HeldRanges};

    #[test]
    fn the_pieces_of_a_range_are_the_range() {
        let bytes: Vec<u8> = (0..=255).cycle().take(5000).collect();
        let mut held = HeldRanges::new(1 << 20);
        held.push(&bytes);
        let range = |bytes| ElfRange {
            what: "a table",
            offset: 100,
            bytes,
        };
        for (length, pieces) in [(0, 0), (24, 1), (48, 1), (49, 2), (u64::MAX, 103)] {
            let range = range(length);
            let found: Vec<_> = held.pieces(&range, 48).collect();
            assert_eq!((found.len(), &*found.concat()), (pieces, &*held.get(&range)));
        }
    }
}
