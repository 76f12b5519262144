//! A compact map for the names in one folder. Images can have millions of files, and a map with owned strings uses four
//! times the memory.

use std::fmt;

/// The maximum names in one chunk. An insertion moves at most this many.
const CHUNK: usize = 256;

/// Values by name, sorted by the bytes of the name.
#[derive(Clone)]
pub struct NameMap<V> {
    /// Sorted, non-empty and disjoint: all names of a chunk are less than those of the next.
    chunks: Vec<NameChunk<V>>,
}

#[derive(Clone)]
struct NameChunk<V> {
    /// The bytes of the names in insertion order, including removed ones.
    bytes: Vec<u8>,
    /// The position of each name in the bytes and its value, sorted by name.
    items: Vec<NamedItem<V>>,
}

#[derive(Clone)]
struct NamedItem<V> {
    start: u32,
    length: u32,
    value: V,
}

impl<V> NameMap<V> {
    /// The value of a name, and the stored name.
    pub(crate) fn get(&self, name: &[u8]) -> Option<(&[u8], &V)> {
        let chunk = self.chunks.get(self.chunk_of(name))?;
        let item = chunk.items.get(chunk.find(name).ok()?)?;
        Some((chunk.name(item), &item.value))
    }

    /// A mutable reference to the value of a name.
    pub(crate) fn get_mut(&mut self, name: &[u8]) -> Option<&mut V> {
        let at = self.chunk_of(name);
        let chunk = self.chunks.get_mut(at)?;
        let place = chunk.find(name).ok()?;
        chunk.items.get_mut(place).map(|item| &mut item.value)
    }

    /// Inserts a value. Returns the previous one.
    pub(crate) fn insert(&mut self, name: &[u8], value: V) -> Option<V> {
        if self.chunks.is_empty() {
            self.chunks.push(NameChunk::default());
        }
        // Names usually arrive in order, so try the end first.
        let last = self.chunks.last().and_then(NameChunk::last_name);
        let (at, place) = if last.is_none_or(|last| last < name) {
            let at = self.chunks.len() - 1;
            (at, self.chunks.get(at)?.items.len())
        } else {
            let at = self.chunk_of(name);
            let chunk = self.chunks.get_mut(at)?;
            match chunk.find(name) {
                Ok(place) => {
                    let item = chunk.items.get_mut(place)?;
                    return Some(std::mem::replace(&mut item.value, value));
                }
                Err(place) => (at, place),
            }
        };
        let is_last = at + 1 == self.chunks.len();
        let chunk = self.chunks.get_mut(at)?;
        if chunk.items.len() < CHUNK {
            chunk.put(place, name, value);
            return None;
        }
        // If names arrive in order, start an empty chunk; halving would leave every chunk half empty.
        let kept = if is_last && place == CHUNK { CHUNK } else { CHUNK / 2 };
        let behind = chunk.split_off(kept);
        self.chunks.insert(at + 1, behind);
        let (at, place) = if place > kept || kept == CHUNK {
            (at + 1, place - kept)
        } else {
            (at, place)
        };
        self.chunks.get_mut(at)?.put(place, name, value);
        None
    }

    /// Removes a name. Returns its value.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<V> {
        let at = self.chunk_of(name);
        let chunk = self.chunks.get_mut(at)?;
        let item = chunk.items.remove(chunk.find(name).ok()?);
        if chunk.items.is_empty() {
            self.chunks.remove(at);
        }
        Some(item.value)
    }

    pub(crate) fn clear(&mut self) {
        self.chunks.clear();
    }

    /// Whether the map is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// The names and values, sorted.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &V)> {
        self.chunks.iter().flat_map(NameChunk::iter)
    }

    /// The names from `name` on and their values, sorted.
    pub(crate) fn iter_from(&self, name: &[u8]) -> impl Iterator<Item = (&[u8], &V)> {
        let chunks = self.chunks.get(self.chunk_of(name)..).unwrap_or_default();
        let before = chunks
            .first()
            .map_or(0, |chunk| chunk.find(name).unwrap_or_else(|place| place));
        chunks.iter().flat_map(NameChunk::iter).skip(before)
    }

    /// The index of the chunk for a name.
    fn chunk_of(&self, name: &[u8]) -> usize {
        let behind = self
            .chunks
            .partition_point(|chunk| chunk.iter().next().is_some_and(|(first, _)| first <= name));
        behind.saturating_sub(1)
    }
}

impl<V> NameChunk<V> {
    fn name(&self, item: &NamedItem<V>) -> &[u8] {
        let start = item.start as usize;
        self.bytes.get(start..start + item.length as usize).unwrap_or_default()
    }

    fn last_name(&self) -> Option<&[u8]> {
        Some(self.name(self.items.last()?))
    }

    fn find(&self, name: &[u8]) -> Result<usize, usize> {
        self.items.binary_search_by(|item| self.name(item).cmp(name))
    }

    fn iter(&self) -> impl Iterator<Item = (&[u8], &V)> {
        self.items.iter().map(|item| (self.name(item), &item.value))
    }

    fn put(&mut self, place: usize, name: &[u8], value: V) {
        // A name is far below 4 GiB: `Limits::path_bytes`.
        let [start, length] = [self.bytes.len(), name.len()].map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
        self.bytes.extend_from_slice(name);
        self.items.insert(place, NamedItem { start, length, value });
    }

    /// Splits the chunk at index `kept`. Both halves drop the bytes of removed names.
    fn split_off(&mut self, kept: usize) -> Self {
        let from = std::mem::take(&mut self.bytes);
        let behind = self.items.split_off(kept);
        let (mut first, mut second) = (Self::default(), Self::default());
        for (to, items) in [(&mut first, std::mem::take(&mut self.items)), (&mut second, behind)] {
            to.items.reserve_exact(items.len());
            for item in items {
                let start = item.start as usize;
                let name = from.get(start..start + item.length as usize).unwrap_or_default();
                to.put(to.items.len(), name, item.value);
            }
            to.bytes.shrink_to_fit();
        }
        *self = first;
        second
    }
}

impl<V> Default for NameMap<V> {
    fn default() -> Self {
        Self { chunks: Vec::new() }
    }
}

impl<V> Default for NameChunk<V> {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            items: Vec::new(),
        }
    }
}

impl<V: PartialEq> PartialEq for NameMap<V> {
    fn eq(&self, other: &Self) -> bool {
        // Chunk boundaries depend on insertion order.
        self.iter().eq(other.iter())
    }
}

impl<V: fmt::Debug> fmt::Debug for NameMap<V> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self
            .iter()
            .map(|(name, value)| (name.escape_ascii().to_string(), value));
        to.debug_map().entries(names).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::{CHUNK, NameMap};

    proptest! {
        #[test]
        fn behaves_like_a_map_of_strings(steps in prop::collection::vec((0..900_u32, prop::bool::weighted(0.7)), 0..2000)) {
            let (mut map, mut known) = (NameMap::default(), BTreeMap::new());
            for (at, (name, is_new)) in steps.into_iter().enumerate() {
                let name = name.to_string().into_bytes();
                if is_new {
                    prop_assert_eq!(map.insert(&name, at), known.insert(name, at));
                } else {
                    prop_assert_eq!(map.get(&name), known.get_key_value(&name).map(|(name, at)| (name.as_slice(), at)));
                    prop_assert_eq!(map.remove(&name), known.remove(&name));
                }
            }
            prop_assert_eq!((map.iter().count(), map.is_empty()), (known.len(), known.is_empty()));
            prop_assert!(map.iter().eq(known.iter().map(|(name, at)| (name.as_slice(), at))));
            for from in [&b""[..], b"1", b"45", b"899", b"9"] {
                let after = known.range(from.to_vec()..).map(|(name, at)| (name.as_slice(), at));
                prop_assert!(map.iter_from(from).eq(after));
            }
            for (name, at) in &mut known {
                *at += 1;
                *map.get_mut(name).unwrap() += 1;
            }
            let straight = known.iter().fold(NameMap::default(), |mut map, (name, at)| {
                map.insert(name, *at);
                map
            });
            prop_assert_eq!(map, straight);
        }
    }

    #[test]
    fn names_in_order_fill_the_chunks() {
        let mut map = NameMap::default();
        for at in 0..10 * CHUNK {
            map.insert(format!("{at:05}").as_bytes(), ());
        }
        assert_eq!(map.chunks.len(), 10);
    }
}
