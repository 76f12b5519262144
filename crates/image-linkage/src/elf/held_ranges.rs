//! The few ranges of a passing file that are held: its start, and what was asked for before it came.

use std::borrow::Cow;

use super::byte_store::{ByteStore, PLAIN};
use super::facts::ElfProblem;
use super::range::ElfRange;

/// The bytes of a step. A range whose place is found in a step may begin in the same step or the one before.
pub(super) const STEP: usize = 64 << 10;
/// What is caught behind the start may take this many times the memory of the start.
const CAUGHT: usize = 3;

/// The start of the file, its most recent bytes, and the ranges caught behind the start.
pub(super) struct HeldRanges {
    pub head: ByteStore,
    /// Where the code begins that linkers put behind the tables: the start is held up to here, and at least plain.
    pub code: Option<u64>,
    /// What tells further places once it has passed: the bytes right before its end may be asked for then.
    pub awaited: Option<ElfRange>,
    recent: Vec<u8>,
    caught: Vec<(ElfRange, ByteStore)>,
    /// What is caught, should the start be full before it comes.
    pub foreseen: Option<ElfRange>,
    pub position: u64,
    /// The memory that is left for the start, and for all that is caught.
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
        // Behind it holding costs a compression, and nothing is looked for there. One step more has what it begins with.
        if self
            .code
            .is_some_and(|code| self.position >= code.max(PLAIN as u64).saturating_add(STEP as u64))
        {
            self.head.seal();
        }
        self.head.push(bytes, &mut self.head_room);
        // Until the start is full, all that has passed lies in it, and nothing else has to be remembered.
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

    /// Keeps the piece and the one before it, where places may be found in this piece or in the next one.
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

    /// Begins to catch what was foreseen, without what of it has passed.
    fn catch_foreseen(&mut self) {
        let Some(range) = self.foreseen.take() else {
            return;
        };
        // From the piece on in which the start became full: no byte lies between the two.
        let offset = range.offset.max(self.position);
        if let Some(bytes) = range.end().checked_sub(offset) {
            let rest = ElfRange { offset, bytes, ..range };
            self.caught.push((rest, ByteStore::default()));
        }
    }

    /// Asks for a range: it is held already, will be caught, or is out of reach.
    pub(crate) fn want(&mut self, range: ElfRange) -> Result<(), ElfProblem> {
        // An empty range is held wherever it lies; damaged files have some behind their end.
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

    /// What of the range has passed, when all of it is still held.
    fn since(&self, range: &ElfRange) -> Option<Vec<u8>> {
        let recent_start = self.position - self.recent.len() as u64;
        let length = to_usize(range.bytes);
        match () {
            () if range.offset >= self.position => Some(Vec::new()),
            // Nothing has been let go so far: the start holds all that has passed.
            () if self.head.len() as u64 == self.position => Some(
                self.head
                    .get(to_usize(range.offset), to_usize(range.end()))
                    .into_owned(),
            ),
            () if range.offset >= recent_start => {
                let passed = self.recent.get(to_usize(range.offset - recent_start)..)?;
                passed.get(..passed.len().min(length)).map(<[u8]>::to_vec)
            }
            () => None,
        }
    }

    /// Whether every byte of the range has passed.
    pub(crate) fn passed(&self, range: &ElfRange) -> bool {
        range.end() <= self.position
    }

    /// Where a range that was wanted is held, and from which place of the store on.
    pub(crate) fn find(&self, range: &ElfRange) -> (&ByteStore, usize) {
        let mut caught = self.caught.iter();
        let caught = caught.find(|(caught, _)| caught.holds(range));
        caught.map_or((&self.head, to_usize(range.offset)), |(caught, store)| {
            (store, to_usize(range.offset - caught.offset))
        })
    }

    /// The bytes of a range that was wanted; fewer when the file ended first.
    pub(crate) fn get(&self, range: &ElfRange) -> Cow<'_, [u8]> {
        let (store, start) = self.find(range);
        store.get(start, start.saturating_add(to_usize(range.bytes)))
    }

    /// Says that a range has passed and is not held whole, if that is so.
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
