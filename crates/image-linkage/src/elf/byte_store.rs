//! A growing byte buffer with a small footprint: the first megabytes are stored as they are, the rest in compressed
//! blocks.
//!
//! The tables of a large object are mostly names, which compress eightfold. The 50 MB string table of TensorFlow's
//! library takes 6 MB. Incompressible data fills the budget sooner, and the rest is dropped.

use std::borrow::Cow;

/// The bytes stored uncompressed. In nearly every object, all tables are in them.
pub(super) const PLAIN: usize = 16 << 20;
/// The uncompressed size of a block.
const BLOCK: usize = 1 << 20;
/// The zstd level: the fastest one that still finds repeated names.
const LEVEL: i32 = 1;

/// Consecutive bytes of a file.
#[derive(Debug, Default)]
pub(crate) struct ByteStore {
    plain: Vec<u8>,
    blocks: Vec<Box<[u8]>>,
    /// The block being filled.
    open: Vec<u8>,
    full: bool,
}

impl ByteStore {
    /// Appends bytes while `room`, the memory left for all stores, allows it. Deducts them from `room`.
    pub(crate) fn push(&mut self, mut bytes: &[u8], room: &mut usize) {
        while !bytes.is_empty() && !self.full {
            let plain = PLAIN.saturating_sub(self.plain.len());
            let space = if plain > 0 { plain } else { BLOCK - self.open.len() };
            let target = if plain > 0 { &mut self.plain } else { &mut self.open };
            let (taken, rest) = bytes.split_at(space.min(bytes.len()).min(*room));
            // After a dropped byte, later bytes would be at wrong offsets, so stop for good.
            self.full = taken.is_empty();
            // A large object mostly fills `plain`. Doubling would copy its bytes and leave holes in memory; unused pages
            // take none.
            if target.len() > BLOCK {
                target.reserve_exact(space);
            }
            target.extend_from_slice(taken);
            *room -= taken.len();
            bytes = rest;
            // Only full blocks are compressed, so an offset gives the block number without an index.
            if self.open.len() == BLOCK {
                self.close(room);
            }
        }
    }

    fn close(&mut self, room: &mut usize) {
        match zstd::bulk::compress(&self.open, LEVEL) {
            Ok(block) if block.len() < BLOCK => {
                *room += BLOCK - block.len();
                self.blocks.push(block.into_boxed_slice());
            }
            // Incompressible: store the block as it is, in full length.
            _ => self.blocks.push(self.open.as_slice().into()),
        }
        self.open.clear();
    }

    /// Ignores all further bytes, as if there were no room.
    pub(crate) fn seal(&mut self) {
        self.full = true;
    }

    /// The number of bytes held, uncompressed.
    pub(crate) fn len(&self) -> usize {
        self.plain.len() + self.blocks.len() * BLOCK + self.open.len()
    }

    /// Whether bytes were dropped, for lack of room or because the store was sealed.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    /// The bytes from `start` to `end`, as far as they are stored.
    pub(crate) fn get(&self, start: usize, end: usize) -> Cow<'_, [u8]> {
        let end = end.min(self.len());
        // Borrow if possible. For most objects that covers all bytes.
        if end <= self.plain.len() {
            return Cow::Borrowed(self.plain.get(start..end).unwrap_or_default());
        }
        let mut out = self.plain.get(start..).unwrap_or_default().to_vec();
        let first = start.saturating_sub(self.plain.len()) / BLOCK;
        for (number, block) in self.blocks.iter().enumerate().skip(first) {
            let at = self.plain.len() + number * BLOCK;
            if at >= end {
                return Cow::Owned(out);
            }
            out.extend_from_slice(part(&plain_block(block), at, start, end));
        }
        let at = self.plain.len() + self.blocks.len() * BLOCK;
        out.extend_from_slice(part(&self.open, at, start, end));
        Cow::Owned(out)
    }
}

/// The overlap of `start..end` with a block that begins at `at`.
fn part(block: &[u8], at: usize, start: usize, end: usize) -> &[u8] {
    let from = start.saturating_sub(at);
    let to = end.saturating_sub(at).min(block.len());
    block.get(from..to).unwrap_or_default()
}

fn plain_block(block: &[u8]) -> Cow<'_, [u8]> {
    // A compressed block is always shorter than BLOCK, so the full length means that it is not compressed.
    if block.len() == BLOCK {
        return Cow::Borrowed(block);
    }
    // We compressed this block ourselves; it never comes from an image. At most BLOCK bytes come out.
    zstd::bulk::decompress(block, BLOCK).map_or(Cow::Borrowed(&[]), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, ByteStore, PLAIN};

    fn bytes(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at / 1000).to_le_bytes()[0]).collect()
    }

    #[test]
    fn stored_bytes_can_be_read_from_any_offset() {
        let all = bytes(PLAIN + 3 * BLOCK + 77);
        let mut store = ByteStore::default();
        let mut room = all.len();
        for chunk in all.chunks(70_001) {
            store.push(chunk, &mut room);
        }
        assert_eq!((store.len(), store.is_full()), (all.len(), false));
        assert!(room > 2 * BLOCK, "repeated bytes leave room");
        for (start, end) in [
            (0, 10),
            (PLAIN - 5, PLAIN + 5),
            (PLAIN + BLOCK - 5, PLAIN + 2 * BLOCK + 5),
            (PLAIN + 2 * BLOCK, all.len()),
            (all.len() - 3, all.len()),
            (0, all.len()),
        ] {
            assert_eq!(*store.get(start, end), all[start..end], "{start}..{end}");
        }
        assert_eq!(store.get(all.len() - 3, all.len() + 100).len(), 3);
        assert_eq!(store.get(all.len() + 3, all.len() + 100).len(), 0);
    }

    #[test]
    fn bytes_beyond_the_room_are_dropped() {
        let mut state = 1_u64;
        let mut noise = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        let all: Vec<u8> = (0..PLAIN + 3 * BLOCK).map(|_| noise()).collect();
        let mut store = ByteStore::default();
        let mut room = PLAIN + BLOCK;
        store.push(&all, &mut room);
        assert!(store.is_full());
        assert_eq!(store.len(), PLAIN + BLOCK);
        assert_eq!(*store.get(0, store.len()), all[..PLAIN + BLOCK]);
    }
}
