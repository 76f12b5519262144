//! A run of bytes that is held in little memory: the first megabytes as they are, the rest in compressed blocks.
//!
//! The tables of a large object are mostly names, which compress eightfold: the 50 MB string table of
//! TensorFlow's library is held in 6 MB. What does not compress fills the budget sooner, and is let go.

use std::borrow::Cow;

/// The bytes that are held as they are: in nearly every object all tables lie in them.
pub(super) const PLAIN: usize = 16 << 20;
/// The bytes of a compressed block.
const BLOCK: usize = 1 << 20;
/// The compression level of zstd: the fastest that still finds repeated names.
const LEVEL: i32 = 1;

/// A run of bytes from some place of a file on.
#[derive(Debug, Default)]
pub(crate) struct ByteStore {
    plain: Vec<u8>,
    blocks: Vec<Box<[u8]>>,
    /// The block that is being filled.
    open: Vec<u8>,
    full: bool,
}

impl ByteStore {
    /// Adds bytes as long as `room`, the memory that is left for stores, allows it; what is added is taken off.
    pub(crate) fn push(&mut self, mut bytes: &[u8], room: &mut usize) {
        while !bytes.is_empty() && !self.full {
            let plain = PLAIN.saturating_sub(self.plain.len());
            let space = if plain > 0 { plain } else { BLOCK - self.open.len() };
            let target = if plain > 0 { &mut self.plain } else { &mut self.open };
            let (taken, rest) = bytes.split_at(space.min(bytes.len()).min(*room));
            // Once a byte is let go, what follows would stand at a wrong place: nothing more is taken.
            self.full = taken.is_empty();
            target.extend_from_slice(taken);
            *room -= taken.len();
            bytes = rest;
            // Only whole blocks are compressed, so that a place tells its block without an index.
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
            // What does not compress is held as it is: a block of its full length.
            _ => self.blocks.push(self.open.as_slice().into()),
        }
        self.open.clear();
    }

    /// Takes nothing from here on, as where no room is left.
    pub(crate) fn seal(&mut self) {
        self.full = true;
    }

    /// The number of bytes held, uncompressed.
    pub(crate) fn len(&self) -> usize {
        self.plain.len() + self.blocks.len() * BLOCK + self.open.len()
    }

    /// Whether bytes were let go, because there was no room for them or because nothing was looked for in them.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    /// The bytes from `start` to `end`, as far as they are held.
    pub(crate) fn get(&self, start: usize, end: usize) -> Cow<'_, [u8]> {
        let end = end.min(self.len());
        // Read without a copy, as for most objects these are all bytes.
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

/// The part of a block, which begins at `at`, that lies between `start` and `end`.
fn part(block: &[u8], at: usize, start: usize, end: usize) -> &[u8] {
    let from = start.saturating_sub(at);
    let to = end.saturating_sub(at).min(block.len());
    block.get(from..to).unwrap_or_default()
}

fn plain_block(block: &[u8]) -> Cow<'_, [u8]> {
    // A compressed block is always shorter, so that the full length marks one that did not compress.
    if block.len() == BLOCK {
        return Cow::Borrowed(block);
    }
    // The block was compressed here and never comes from an image: no more than BLOCK bytes can come out.
    zstd::bulk::decompress(block, BLOCK).map_or(Cow::Borrowed(&[]), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, ByteStore, PLAIN};

    fn bytes(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at / 1000).to_le_bytes()[0]).collect()
    }

    #[test]
    fn what_is_held_comes_back_from_any_place() {
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
    fn without_room_bytes_are_let_go() {
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
