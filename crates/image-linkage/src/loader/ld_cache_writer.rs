//! Writes `/etc/ld.so.cache` (glibc elf/cache.c, `save_cache`; sysdeps/generic/dl-cache.h).
//!
//! Writes the new format, which every loader since glibc 2.2 reads. Older loaders ignore the extensions, which use
//! formerly unused fields. Entries have the order of `ldconfig`, because the loader uses binary search.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::ld_cache::{CacheEntry, LdCache, compare_names};
use super::ld_cache_file::{
    EXTENSION_HEADER, EXTENSIONS, HWCAP_NAMED, HWCAPS_TAG, NEW_ENTRY, NEW_HEADER, NEW_MAGIC, SECTION,
};

/// The extension that names the generator.
const GENERATOR_TAG: u32 = 0;
/// The size of an extension directory with two sections: generator and subdirectory names.
const DIRECTORY: usize = EXTENSION_HEADER + 2 * SECTION;

/// The bytes of a cache file for a processor with the ELF data encoding `data`. `generator` is recorded as the writer.
///
/// Errors: The file would exceed 4 GB, the range of its offsets.
pub fn write_cache(cache: &LdCache, data: u8, generator: &str) -> Result<Vec<u8>, String> {
    let mut entries: Vec<(&[u8], &CacheEntry)> = cache.iter().collect();
    // Stable, so that equal entries keep the order in which they were found.
    entries.sort_by(compare);
    let names: BTreeSet<&[u8]> = entries
        .iter()
        .filter_map(|(_, entry)| entry.hwcaps.as_deref())
        .collect();
    let texts = entries.iter().flat_map(|(name, entry)| [*name, &*entry.path]);
    let strings = StringPool::new(
        texts.chain(names.iter().copied()),
        NEW_HEADER + entries.len() * NEW_ENTRY,
    );
    let mut out = NumberWriter {
        bytes: Vec::new(),
        big: data == 2,
    };
    header(&mut out, entries.len(), &strings, data)?;
    let numbers: BTreeMap<&[u8], u64> = names.iter().copied().zip(0..).collect();
    for (name, entry) in &entries {
        out.word(entry.flags.cast_unsigned());
        out.place(strings.at(name))?;
        out.place(strings.at(&entry.path))?;
        // Required kernel: none.
        out.word(0);
        out.wide(hwcap(entry, &numbers));
    }
    out.bytes.extend(&strings.bytes);
    extensions(&mut out, &names, &strings, generator)?;
    Ok(out.bytes)
}

/// The order of entries (elf/cache.c, `compare`): descending names, descending flags, `glibc-hwcaps` entries by
/// subdirectory, then the most hardware bits.
fn compare(one: &(&[u8], &CacheEntry), other: &(&[u8], &CacheEntry)) -> Ordering {
    let (one_name, one) = one;
    let (other_name, other) = other;
    // Entries of a subdirectory come first, because the loader stops at the first plain one.
    compare_names(other_name, one_name)
        .then_with(|| other.flags.cmp(&one.flags))
        .then_with(|| one.hwcaps.is_none().cmp(&other.hwcaps.is_none()))
        .then_with(|| one.hwcaps.cmp(&other.hwcaps))
        .then_with(|| other.hardware.count_ones().cmp(&one.hardware.count_ones()))
        .then_with(|| other.hardware.cmp(&one.hardware))
}

fn hwcap(entry: &CacheEntry, numbers: &BTreeMap<&[u8], u64>) -> u64 {
    let number = entry.hwcaps.as_deref().and_then(|name| numbers.get(name));
    number.map_or(entry.hardware, |number| {
        HWCAP_NAMED | u64::from(entry.isa_level) << 32 | number
    })
}

fn header(out: &mut NumberWriter, entries: usize, strings: &StringPool, data: u8) -> Result<(), String> {
    out.bytes.extend(NEW_MAGIC);
    out.place(entries)?;
    out.place(strings.bytes.len())?;
    // 2 is little-endian, 3 is big-endian; then three bytes of padding.
    out.bytes.extend([data + 1, 0, 0, 0]);
    // The loader ignores extensions at an offset that is not a multiple of four.
    out.place(strings.end.next_multiple_of(4))?;
    out.bytes.extend([0; 12]);
    Ok(())
}

/// Writes the extension directory behind the texts (elf/cache.c, `write_extensions`).
fn extensions(
    out: &mut NumberWriter,
    names: &BTreeSet<&[u8]>,
    strings: &StringPool,
    generator: &str,
) -> Result<(), String> {
    out.bytes.resize(strings.end.next_multiple_of(4), 0);
    let hwcaps_at = out.bytes.len() + DIRECTORY;
    let generator_at = hwcaps_at + names.len() * 4;
    out.word(EXTENSIONS);
    out.word(2);
    for (tag, at, length) in [
        (HWCAPS_TAG, hwcaps_at, names.len() * 4),
        (GENERATOR_TAG, generator_at, generator.len()),
    ] {
        out.word(tag);
        out.word(0);
        out.place(at)?;
        out.place(length)?;
    }
    for name in names {
        out.place(strings.at(name))?;
    }
    out.bytes.extend(generator.as_bytes());
    Ok(())
}

/// The NUL-terminated texts of a file. A text that is the end of another one shares its bytes.
struct StringPool {
    bytes: Vec<u8>,
    /// The file offset of each text.
    places: BTreeMap<Vec<u8>, usize>,
    /// The file offset of the end of the texts.
    end: usize,
}

impl StringPool {
    fn new<'t>(texts: impl Iterator<Item = &'t [u8]>, from: usize) -> Self {
        // Sorted by reversed text, a text directly precedes those that end with it.
        let mut backwards: BTreeSet<Vec<u8>> = texts.map(|text| text.iter().rev().copied().collect()).collect();
        let mut strings = Self {
            bytes: Vec::new(),
            places: BTreeMap::new(),
            end: from,
        };
        let mut longer: Option<(Vec<u8>, usize)> = None;
        while let Some(text) = backwards.pop_last() {
            let inside = longer
                .as_ref()
                .filter(|(longer, _)| longer.starts_with(&text))
                .map(|(longer, at)| at + longer.len() - text.len());
            let forwards: Vec<u8> = text.iter().rev().copied().collect();
            let at = inside.unwrap_or_else(|| {
                let at = strings.end;
                strings.bytes.extend(&forwards);
                strings.bytes.push(0);
                strings.end = from + strings.bytes.len();
                at
            });
            strings.places.insert(forwards, at);
            if inside.is_none() {
                longer = Some((text, at));
            }
        }
        strings
    }

    fn at(&self, text: &[u8]) -> usize {
        self.places.get(text).copied().unwrap_or_default()
    }
}

/// Writes numbers in the processor's byte order.
struct NumberWriter {
    bytes: Vec<u8>,
    big: bool,
}

impl NumberWriter {
    fn word(&mut self, value: u32) {
        let bytes = if self.big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        };
        self.bytes.extend(bytes);
    }

    fn wide(&mut self, value: u64) {
        let bytes = if self.big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        };
        self.bytes.extend(bytes);
    }

    /// Writes an offset, a length or a count.
    fn place(&mut self, value: usize) -> Result<(), String> {
        let value =
            u32::try_from(value).map_err(|_too_large| format!("a cache of {value} bytes or more cannot be written"))?;
        self.word(value);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::write_cache;
    use crate::loader::ld_cache::{CacheEntry, LdCache};
    use crate::loader::ld_cache_file::read_cache;

    fn cache() -> LdCache {
        let plain = |path: &str| CacheEntry {
            path: path.as_bytes().into(),
            flags: 0x303,
            hwcaps: None,
            hardware: 0,
            isa_level: 0,
        };
        let level = |path: &str, level: &str, isa_level| CacheEntry {
            hwcaps: Some(level.as_bytes().into()),
            isa_level,
            ..plain(path)
        };
        let mut cache = LdCache::default();
        for (name, entry) in [
            ("libz.so.1", plain("/lib/x/libz.so.1")),
            ("libcupti.so.12", plain("/opt/b/libcupti.so.12")),
            ("libcupti.so.12", plain("/opt/a/libcupti.so.12")),
            ("libcupti.so.9", plain("/opt/a/libcupti.so.9")),
            ("libz.so.1", level("/lib/v3/libz.so.1.3", "x86-64-v3", 3)),
            ("libz.so.1", level("/lib/v2/libz.so.1.3", "x86-64-v2", 0)),
            (
                "libz.so.1",
                CacheEntry {
                    flags: 3,
                    ..plain("/lib32/libz.so.1")
                },
            ),
            (
                "libtls.so",
                CacheEntry {
                    hardware: 1 << 63,
                    ..plain("/lib/tls/libtls.so")
                },
            ),
        ] {
            cache.add(name.as_bytes(), entry);
        }
        cache
    }

    fn listed(cache: &LdCache) -> Vec<String> {
        let mut entries: Vec<String> = cache
            .iter()
            .map(|(name, entry)| format!("{} {entry:?}", crate::escape::escape_bytes(name)))
            .collect();
        entries.sort();
        entries
    }

    #[test]
    fn a_written_cache_is_read_back_in_order() {
        for data in [1, 2] {
            let bytes = write_cache(&cache(), data, "a generator").unwrap();
            let file = read_cache(&bytes, data).unwrap();
            assert_eq!(file.damage, None);
            assert_eq!(listed(&file.cache), listed(&cache()));
            assert!(bytes.ends_with(b"a generator"));
            let first = |name: &str| file.cache.iter().find(|(found, _)| *found == name.as_bytes());
            let path = first("libcupti.so.12").map(|(_, entry)| entry.path.clone());
            assert_eq!(path.as_deref(), Some(&b"/opt/b/libcupti.so.12"[..]));
        }
        let little = write_cache(&cache(), 1, "").unwrap();
        assert!(read_cache(&little, 2).is_err(), "the other byte order");
    }

    #[test]
    fn an_empty_cache_is_a_cache() {
        let file = read_cache(&write_cache(&LdCache::default(), 1, "").unwrap(), 1).unwrap();
        assert_eq!((file.cache.iter().count(), file.damage), (0, None));
    }
}
