//! What `/etc/ld.so.cache` says, and what the loader takes of it (glibc elf/dl-cache.c).

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::Arch;
use crate::elf::Bytes;

/// The cache, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cache {
    /// By name as it is compared; each entry with its name as written.
    entries: BTreeMap<Bytes, Vec<(Bytes, CacheEntry)>>,
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheEntry {
    /// The path.
    pub path: Bytes,
    /// The processor and libc it is for.
    pub flags: i32,
    /// The `glibc-hwcaps` subdirectory it is from.
    pub hwcaps: Option<Bytes>,
    /// The bits of the legacy hardware subdirectories it is from, such as `tls`.
    pub hardware: u64,
}

impl Cache {
    /// Adds an entry behind those of the same name.
    pub fn add(&mut self, name: &[u8], entry: CacheEntry) {
        let entries = self.entries.entry(compared(name)).or_default();
        entries.push((name.into(), entry));
    }

    /// All entries in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &CacheEntry)> {
        let entries = self.entries.values().flatten();
        entries.map(|(name, entry)| (&**name, entry))
    }

    /// Puts the entries of each name into the order of a file: those with the most hardware first
    /// (elf/cache.c, `compare`).
    pub fn sort(&mut self) {
        for entries in self.entries.values_mut() {
            entries.sort_by_key(|(_, entry)| {
                let bits = entry.hardware.count_ones();
                std::cmp::Reverse((bits, entry.hardware))
            });
        }
    }

    /// The path that the loader takes for `name`: the best usable `glibc-hwcaps` entry of `levels`, else the
    /// first plain one with no more than the bits of `hardware` (elf/dl-cache.c, `search_cache`).
    pub fn lookup(
        &self,
        name: &[u8],
        arch: &Arch,
        levels: &[Bytes],
        hardware: u64,
    ) -> Option<&[u8]> {
        let entries = self.entries.get(&compared(name))?;
        let usable = || {
            entries.iter().map(|(_, entry)| entry).filter(|entry| {
                // Where there is one kind of library, one that ldconfig knew nothing more of will do.
                (entry.flags == arch.cache_flags || (entry.flags == 1 && arch.cache_flags == 3))
                    && entry.hardware & !hardware == 0
            })
        };
        let rank = |entry: &CacheEntry| {
            levels
                .iter()
                .position(|level| Some(level) == entry.hwcaps.as_ref())
        };
        let named = usable()
            .filter_map(|entry| Some((rank(entry)?, entry)))
            .min_by_key(|(rank, _)| *rank);
        let exact =
            || usable().find(|entry| entry.hwcaps.is_none() && entry.flags == arch.cache_flags);
        let any = || usable().find(|entry| entry.hwcaps.is_none());
        named
            .map(|(_, entry)| entry)
            .or_else(exact)
            .or_else(any)
            .map(|entry| &*entry.path)
    }
}

/// A name as the cache compares it: numbers count by their value, so without zeros in front (elf/dl-cache.c,
/// `_dl_cache_libcmp`).
fn compared(name: &[u8]) -> Bytes {
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

/// The order of names in a file, which runs downwards (elf/dl-cache.c, `_dl_cache_libcmp`): numbers are compared
/// by their value and come behind everything else.
pub(super) fn order(one: &[u8], other: &[u8]) -> Ordering {
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

/// The value of digits in the loader's `int`.
fn value(digits: &[u8]) -> i32 {
    let digits = digits.iter().map(|digit| i32::from(digit - b'0'));
    digits.fold(0_i32, |value, digit| {
        value.wrapping_mul(10).wrapping_add(digit)
    })
}

/// A byte as the loader's `char`; the end of a text is 0.
fn signed(byte: Option<&u8>) -> i8 {
    byte.map_or(0, |byte| byte.cast_signed())
}
