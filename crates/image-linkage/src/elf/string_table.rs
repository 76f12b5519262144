//! The dynamic string table, with a limit on the bytes kept of it.

use std::collections::BTreeMap;

use super::byte_store::ByteStore;
use super::facts::{ByteString, ElfProblem};
use super::mentions::NameMatcher;

/// The maximum length of a string. Linux limits a path to 4,096 bytes, but a search path may contain several.
const STRING: usize = 64 << 10;
/// The bytes searched first for the end of a string.
const PEEK: usize = 256;
/// The maximum bytes of all names of one object. Many entries may refer to the same long string.
const NAMES: usize = 512 << 10;
/// The bytes of the table searched at a time.
const WINDOW: usize = 4 << 20;
/// The maximum length of a symbol name.
const SYMBOL: usize = 256;

/// The string table of one object.
pub(super) struct StringTable<'a> {
    store: &'a ByteStore,
    start: usize,
    length: usize,
    left: usize,
    asked: u64,
    /// The part of the table that was read last, with its offset.
    window: (usize, Vec<u8>),
}

impl<'a> StringTable<'a> {
    /// The table of `length` bytes at offset `start` of `store`. The length is cut to the stored bytes, because the
    /// object's own claim must not drive a loop.
    pub(crate) fn new(store: &'a ByteStore, start: usize, length: usize) -> Self {
        Self {
            store,
            start,
            length: length.min(store.len().saturating_sub(start)),
            left: NAMES,
            asked: 0,
            window: (0, Vec::new()),
        }
    }

    /// The string at `offset`. Searched bytes count against the limit even if no string is found.
    pub(crate) fn string(&mut self, offset: u64) -> Option<ByteString> {
        let offset = usize::try_from(offset).ok().filter(|&offset| offset < self.length)?;
        // The limit is exhausted, and thousands of entries may each name 64 KiB.
        if self.left == 0 {
            self.asked += 1;
            return None;
        }
        // Try a short read first. A long one would leave the window, which would then be reloaded for nearly every
        // name.
        let short = self.until_nul(offset, PEEK);
        let found = if short.is_some() {
            short
        } else {
            self.until_nul(offset, STRING)
        };
        // Charge failed searches, too, or thousands of entries without a NUL would cost nothing.
        let seen = found
            .as_ref()
            .map_or(STRING.min(self.length - offset), |text| text.len());
        self.asked += seen as u64;
        let fits = seen <= self.left;
        self.left = self.left.saturating_sub(seen);
        found.filter(|_| fits)
    }

    /// The string at `offset`, if it ends within `reach` bytes.
    fn until_nul(&mut self, offset: usize, reach: usize) -> Option<ByteString> {
        let bytes = self.part(offset, reach);
        bytes.get(..bytes.iter().position(|&byte| byte == 0)?).map(Into::into)
    }

    /// At most `length` bytes from `offset`. Nearby strings share one window, so the store is not decompressed for
    /// each.
    fn part(&mut self, offset: usize, length: usize) -> &[u8] {
        let end = offset.saturating_add(length).min(self.length);
        let held = self.window.0..self.window.0 + self.window.1.len();
        if !(held.contains(&offset) && end <= held.end) {
            let to = offset.saturating_add(length.max(STRING)).min(self.length);
            let bytes = self.store.get(self.start + offset, self.start + to);
            self.window = (offset, bytes.into_owned());
        }
        let (at, window) = &self.window;
        window
            .get(offset - at..(end - at).min(window.len()))
            .unwrap_or_default()
    }

    /// The strings that are requested symbols, keyed by offset. Includes suffixes of longer strings.
    pub(crate) fn beginning_with(&self, interest: &NameMatcher) -> BTreeMap<u64, ByteString> {
        let mut found = BTreeMap::new();
        let mut left = NAMES;
        for at in (0..self.length).step_by(WINDOW) {
            // Windows overlap by one symbol, so a name across the seam is found in the first.
            let end = (at + WINDOW + SYMBOL).min(self.length);
            let bytes = self.store.get(self.start + at, self.start + end);
            for hit in interest.symbol_starts(&bytes) {
                let text = bytes.get(hit..).unwrap_or_default();
                let Some(end) = text.iter().take(SYMBOL).position(|&byte| byte == 0) else {
                    continue;
                };
                // Suffixes of one long string each count in full; their total grows with the square of its length.
                left = left.saturating_sub(end);
                if left == 0 {
                    return found;
                }
                found.insert((at + hit) as u64, text.get(..end).unwrap_or_default().into());
            }
        }
        found
    }

    /// A problem if names were dropped.
    pub(crate) fn problem(&self) -> Option<ElfProblem> {
        let limit = NAMES as u64;
        (self.asked > limit).then_some(ElfProblem::TooLarge {
            what: "the list of names",
            bytes: self.asked,
            limit,
        })
    }
}
