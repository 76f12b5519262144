//! The content of `/etc/ld.so.cache` and the loader's lookup in it (glibc elf/dl-cache.c).

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::machine::Arch;
use crate::elf::ByteString;

/// The cache entries, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LdCache {
    /// Keyed by normalized name. Each entry also has its original name.
    entries: BTreeMap<ByteString, Vec<(ByteString, CacheEntry)>>,
}

/// One library in a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheEntry {
    /// The path of the library.
    pub path: ByteString,
    /// The processor and libc flags.
    pub flags: i32,
    /// The `glibc-hwcaps` subdirectory it comes from.
    pub hwcaps: Option<ByteString>,
    /// The bits of the legacy hardware subdirectories it comes from, such as `tls`.
    pub hardware: u64,
    /// The x86-64 level needed by an object in a `glibc-hwcaps` subdirectory; 0 is the baseline.
    pub isa_level: u32,
}

/// The properties of a loader that decide which entries it uses.
#[derive(Debug, Clone, Copy)]
pub(super) struct CacheCriteria<'a> {
    /// The loader's architecture.
    pub arch: &'a Arch,
    /// The `glibc-hwcaps` levels, best first.
    pub levels: &'a [ByteString],
    /// The bits of the legacy hardware subdirectories.
    pub hardware: u64,
    /// The bits of the levels that the processor supports.
    pub isa_bits: u32,
}

impl CacheCriteria<'_> {
    /// The rank of the entry's level; `None` if it has none, or one that the processor does not support.
    fn rank(&self, entry: &CacheEntry) -> Option<usize> {
        // sysdeps/x86/dl-cache.h, `dl_cache_hwcap_isa_level_compatible`
        let bit = 1_u32.checked_shl(entry.isa_level).unwrap_or(0);
        if self.arch.has_levels() && bit & self.isa_bits != bit {
            return None;
        }
        self.levels
            .iter()
            .position(|level| Some(level) == entry.hwcaps.as_ref())
    }
}

impl LdCache {
    /// Adds an entry behind those of the same name.
    pub(crate) fn add(&mut self, name: &[u8], entry: CacheEntry) {
        let entries = self.entries.entry(compared(name)).or_default();
        entries.push((name.into(), entry));
    }

    /// All entries, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &CacheEntry)> {
        let entries = self.entries.values().flatten();
        entries.map(|(name, entry)| (&**name, entry))
    }

    /// Sorts the entries of each name as in a file: most hardware bits first (elf/cache.c, `compare`).
    pub(crate) fn sort(&mut self) {
        for entries in self.entries.values_mut() {
            entries.sort_by_key(|(_, entry)| {
                let bits = entry.hardware.count_ones();
                std::cmp::Reverse((bits, entry.hardware))
            });
        }
    }

    /// The loader's path for `name`: the best usable `glibc-hwcaps` entry, otherwise the first plain entry with
    /// supported hardware bits (elf/dl-cache.c, `search_cache`).
    pub(super) fn lookup(&self, name: &[u8], by: &CacheCriteria<'_>) -> Option<&[u8]> {
        let entries = self.entries.get(&compared(name))?;
        // Entries for other processors are skipped: the file serves all loaders of an image.
        let flags = by.arch.cache_flags;
        let usable = entries.iter().map(|(_, entry)| entry).filter(|entry| {
            // A loader with flags 3 also accepts entries without details (1).
            (entry.flags == flags || (entry.flags == 1 && flags == 3)) && entry.hardware & !by.hardware == 0
        });
        let named = usable
            .clone()
            .filter_map(|entry| Some((by.rank(entry)?, entry)))
            // Ties go to the first entry of a level, as in the loader.
            .min_by_key(|(rank, _)| *rank);
        let mut plain = usable.filter(|entry| entry.hwcaps.is_none());
        // The loader continues after a generic entry and stops at the first exact one (`search_cache`).
        named
            .map(|(_, entry)| entry)
            .or_else(|| plain.clone().find(|entry| entry.flags == flags))
            .or_else(|| plain.next())
            .map(|entry| &*entry.path)
    }
}

/// A name in normalized form: numbers compare by value, so leading zeros are dropped (elf/dl-cache.c,
/// `_dl_cache_libcmp`).
fn compared(name: &[u8]) -> ByteString {
    let mut out: Vec<u8> = Vec::with_capacity(name.len());
    for (at, &byte) in name.iter().enumerate() {
        let in_number = out.last().is_some_and(u8::is_ascii_digit);
        let goes_on = name.get(at + 1).is_some_and(u8::is_ascii_digit);
        if byte != b'0' || in_number || !goes_on {
            out.push(byte);
        }
    }
    out.into()
}

/// Compares names as the file does, which is sorted in descending order (elf/dl-cache.c, `_dl_cache_libcmp`). Numbers
/// compare by value and are greater than everything else.
pub(super) fn compare_names(one: &[u8], other: &[u8]) -> Ordering {
    let (mut one, mut other) = (one, other);
    loop {
        let (a, b) = (digits(one), digits(other));
        match (a.is_empty(), b.is_empty()) {
            (false, false) => {
                let by_value = value(a).cmp(&value(b));
                if by_value != Ordering::Equal {
                    return by_value;
                }
                (one, other) = (rest(one, a.len()), rest(other, b.len()));
            }
            (false, true) => return Ordering::Greater,
            (true, false) => return Ordering::Less,
            (true, true) => match (one.first(), other.first()) {
                (Some(a), Some(b)) if a == b => (one, other) = (rest(one, 1), rest(other, 1)),
                (a, b) => return signed(a).cmp(&signed(b)),
            },
        }
    }
}

fn digits(text: &[u8]) -> &[u8] {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    text.get(..count).unwrap_or_default()
}

fn rest(text: &[u8], from: usize) -> &[u8] {
    text.get(from..).unwrap_or_default()
}

/// The value of digits as the loader's `int`.
fn value(digits: &[u8]) -> i32 {
    // The loader ignores overflow, too.
    let digits = digits.iter().map(|digit| i32::from(digit - b'0'));
    digits.fold(0_i32, |value, digit| value.wrapping_mul(10).wrapping_add(digit))
}

/// A byte as the loader's signed `char`. The end of a text is 0.
fn signed(byte: Option<&u8>) -> i8 {
    byte.map_or(0, |byte| byte.cast_signed())
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use super::compare_names;

    #[test]
    fn numbers_in_names_are_compared_as_numbers() {
        assert_eq!(compare_names(b"libx.so.9", b"libx.so.10"), Ordering::Less);
        assert_eq!(
            compare_names(b"libcupti.so.2024.1.1", b"libcupti.so.2023.3.1"),
            Ordering::Greater
        );
        assert_eq!(compare_names(b"libx.so", b"libx.so.1"), Ordering::Less);
        assert_eq!(compare_names(b"libx.so.1", b"libx.so.1"), Ordering::Equal);
    }
}
