//! Reads `/etc/ld.so.cache` (glibc sysdeps/generic/dl-cache.h, elf/dl-cache.c, `_dl_load_cache_lookup`).
//!
//! There are three formats: new, old, and old followed by new. The loader ignores a file with an invalid header. In a
//! valid file it uses binary search and trusts the order. If the order is not that of `ldconfig`, the result depends on
//! which entries it probes, and this module reports that it cannot be determined.

use std::cmp::Ordering;

use super::ld_cache::{CacheEntry, LdCache, compare_names};
use crate::elf::ByteString;

const OLD_MAGIC: &[u8] = b"ld.so-1.7.0";
pub(super) const NEW_MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
/// The old header: padded magic and number of entries.
const OLD_HEADER: usize = 16;
const OLD_ENTRY: usize = 12;
pub(super) const NEW_HEADER: usize = 48;
pub(super) const NEW_ENTRY: usize = 24;
/// The magic of the extension directory.
pub(super) const EXTENSIONS: u32 = 0xeaa4_2174;
/// The sizes of the extension directory's header and of a section.
pub(super) const EXTENSION_HEADER: usize = 8;
pub(super) const SECTION: usize = 16;
/// The extension that lists `glibc-hwcaps` subdirectories.
pub(super) const HWCAPS_TAG: u32 = 1;
/// The bit in hwcap that makes its low half an index into that list.
pub(super) const HWCAP_NAMED: u64 = 1 << 62;
/// The bits above the low half: the ISA level needed by a named entry.
const ISA_LEVEL: u64 = (1 << 10) - 1;
/// The maximum number of entries. Debian's largest known cache has about 3,000.
const ENTRIES: usize = 200_000;
/// The maximum number of extensions, and of subdirectory names. Real files have two and three.
const NAMES: usize = 1024;
/// The maximum length of a text.
const TEXT: usize = 8192;
/// The smallest page size. Zeros follow the end of a file up to the page boundary.
const PAGE: usize = 4096;
/// A kernel version that every machine with a GPU exceeds, in the form of `osversion`.
const KERNEL: u32 = 0x05_00_00;

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CacheFile {
    /// The readable entries.
    pub cache: LdCache,
    /// Why the loader's result cannot be determined.
    pub damage: Option<String>,
}

/// Reads a cache for a processor with the ELF data encoding `data`.
///
/// Errors: Why the loader ignores the file.
pub(crate) fn read_cache(bytes: &[u8], data: u8) -> Result<CacheFile, String> {
    let file = CacheReader { bytes, data };
    if bytes.starts_with(NEW_MAGIC) {
        let table = file.new_table(0).ok_or("its header is truncated")?;
        table.check_end(bytes)?;
        return file.read_new(&table);
    }
    if !bytes.starts_with(OLD_MAGIC) {
        return Err("not an ld.so.cache file".to_owned());
    }
    let count = file.number(12).ok_or("its header is truncated")?;
    let mut table = CacheTable {
        first: OLD_HEADER,
        entry: OLD_ENTRY,
        count: wide(count),
        strings: 0,
        room: 0,
    };
    table.check_end(bytes)?;
    // Aligned for its 64-bit fields (sysdeps/generic/dl-cache.h, `ALIGN_CACHE`).
    let new = table.end().next_multiple_of(8);
    let behind = bytes.get(new..).unwrap_or_default();
    if behind.len() >= NEW_HEADER && behind.starts_with(NEW_MAGIC) {
        return file.read_new(&file.new_table(new).ok_or("its header is truncated")?);
    }
    table.strings = table.end();
    table.room = bytes.len() - table.end();
    Ok(file.read_entries(&table, &[]))
}

/// The position of the entries and their texts in the file.
struct CacheTable {
    first: usize,
    entry: usize,
    count: usize,
    /// The base of text offsets.
    strings: usize,
    /// The loader accepts text offsets below this.
    room: usize,
}

impl CacheTable {
    fn end(&self) -> usize {
        self.first.saturating_add(self.count.saturating_mul(self.entry))
    }

    fn check_end(&self, bytes: &[u8]) -> Result<(), String> {
        if self.end() > bytes.len() {
            return Err(format!("too short for its {} entries", self.count));
        }
        Ok(())
    }
}

struct CacheReader<'f> {
    bytes: &'f [u8],
    data: u8,
}

/// A text of an entry.
enum CacheText<'f> {
    Found(&'f [u8]),
    /// The loader detects that the offset is invalid.
    OutOfRoom,
    /// The loader reads past the end of the file, or the text does not end.
    Unknown,
}

impl<'f> CacheReader<'f> {
    /// The entry table of a new header at `at`.
    fn new_table(&self, at: usize) -> Option<CacheTable> {
        (self.bytes.len() >= at.checked_add(NEW_HEADER)?).then_some(())?;
        Some(CacheTable {
            first: at + NEW_HEADER,
            entry: NEW_ENTRY,
            count: wide(self.number(at + 20)?),
            strings: at,
            // The loader checks against the whole file size even if offsets count from the new header.
            room: self.bytes.len(),
        })
    }

    fn read_new(&self, table: &CacheTable) -> Result<CacheFile, String> {
        let flags = self.bytes.get(table.strings + 28).copied().unwrap_or_default();
        // 0 predates the field; 2 is little-endian, 3 is big-endian.
        if flags != 0 && flags & 3 != self.data + 1 {
            return Err("it has the other byte order".to_owned());
        }
        let found = self.subdirectories(table.strings);
        let is_whole = found.iter().all(Option::is_some);
        let names: Vec<ByteString> = found.into_iter().map(Option::unwrap_or_default).collect();
        let mut file = self.read_entries(table, &names);
        if !is_whole {
            file.damage
                .get_or_insert_with(|| "a subdirectory has no name; the process would crash".to_owned());
        }
        // The loader walks this list in parallel with its own sorted one (`glibc_hwcaps_update_priorities`).
        if names.iter().any(is_subdirectory) && !names.is_sorted() {
            file.damage
                .get_or_insert_with(|| "the names of its subdirectories are not sorted".to_owned());
        }
        Ok(file)
    }

    fn read_entries(&self, table: &CacheTable, names: &[ByteString]) -> CacheFile {
        let mut file = CacheFile {
            cache: LdCache::default(),
            damage: None,
        };
        let mut before: Option<(&[u8], Option<CacheEntry>)> = None;
        for index in 0..table.count.min(ENTRIES) {
            match self.read_entry(table, index, names) {
                Ok(next) => {
                    if before.is_some_and(|before| !is_in_order(&before, &next)) {
                        file.damage
                            .get_or_insert_with(|| format!("entry {index} is not sorted"));
                    }
                    if let (name, Some(entry)) = &next {
                        file.cache.add(name, entry.clone());
                    }
                    before = Some(next);
                }
                Err(what) => {
                    file.damage.get_or_insert_with(|| format!("entry {index} {what}"));
                    // All further entries are behind the end, too; do not loop over a count of billions.
                    if self.bytes.len() <= table.first + index * table.entry {
                        break;
                    }
                }
            }
        }
        if table.count > ENTRIES {
            file.damage
                .get_or_insert_with(|| format!("more than {ENTRIES} entries; the rest is not read"));
        }
        file
    }

    /// An entry and its name; `None` for an entry that the loader skips.
    fn read_entry(
        &self,
        table: &CacheTable,
        index: usize,
        names: &[ByteString],
    ) -> Result<(&'f [u8], Option<CacheEntry>), &'static str> {
        let at = table.first + index * table.entry;
        let field = |offset| self.number(at + offset).ok_or("is behind the end of the file");
        let text = |offset| self.text(table.strings, table.room, offset);
        let CacheText::Found(name) = text(field(4)?) else {
            return Err("has an invalid name");
        };
        let path = match text(field(8)?) {
            CacheText::Found(path) => path,
            CacheText::OutOfRoom => return Ok((name, None)),
            CacheText::Unknown => return Err("has an invalid path"),
        };
        let mut entry = CacheEntry {
            path: path.into(),
            flags: field(0)?.cast_signed(),
            hwcaps: None,
            hardware: 0,
            isa_level: 0,
        };
        if table.entry == NEW_ENTRY {
            // The loader compares it with the running kernel, which the image does not show.
            if field(12)? > KERNEL {
                return Err("requires a newer kernel");
            }
            let hwcap = self.wide_number(field(16)?, field(20)?);
            if hwcap & HWCAP_NAMED == 0 {
                entry.hardware = hwcap;
            } else {
                let index = usize::try_from(hwcap & u64::from(u32::MAX)).unwrap_or(usize::MAX);
                entry.isa_level = u32::try_from(hwcap >> 32 & ISA_LEVEL).unwrap_or(u32::MAX);
                entry.hwcaps = Some(names.get(index).cloned().unwrap_or_default());
            }
        }
        Ok((name, Some(entry)))
    }

    /// The offset and count of the `glibc-hwcaps` subdirectory names, for the header at `new`; `None` without them or if
    /// any section is out of bounds (sysdeps/generic/dl-cache.h, `cache_extension_load`).
    fn subdirectory_list(&self, new: usize) -> Option<(usize, usize)> {
        let at = wide(self.number(new + 32)?);
        if at == 0 || !at.is_multiple_of(4) || self.number(at)? != EXTENSIONS {
            return None;
        }
        let count = wide(self.number(at.checked_add(4)?)?);
        let sections = at.checked_add(EXTENSION_HEADER)?;
        let room = self.bytes.len().checked_sub(sections)? / SECTION;
        if count > room.min(NAMES) {
            return None;
        }
        let mut found = None;
        for section in (0..count).map(|index| sections + index * SECTION) {
            let offset = wide(self.number(section + 8)?);
            let content = self.bytes.get(offset..)?.get(..wide(self.number(section + 12)?))?;
            if self.number(section)? == HWCAPS_TAG {
                found = Some((offset, content.len() / 4));
            }
        }
        found
    }

    /// The names of the `glibc-hwcaps` subdirectories of the header at `new`; `None` for an unreadable one.
    ///
    /// `ldconfig` counts their offsets from the new header, but the loader counts from the start of the file
    /// (elf/dl-cache.c, `glibc_hwcaps_string`). So behind an old header the loader reads other bytes.
    fn subdirectories(&self, new: usize) -> Vec<Option<ByteString>> {
        let (offset, count) = self.subdirectory_list(new).unwrap_or_default();
        let places = (0..count.min(NAMES)).map(|index| offset + index * 4);
        places
            .map(|place| match self.text(0, self.bytes.len(), self.number(place)?) {
                CacheText::Found(name) => Some(ByteString::from(name)),
                CacheText::OutOfRoom | CacheText::Unknown => None,
            })
            .collect()
    }

    fn number(&self, at: usize) -> Option<u32> {
        let field = self.bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(if self.data == 2 {
            u32::from_be_bytes(field)
        } else {
            u32::from_le_bytes(field)
        })
    }

    fn wide_number(&self, first: u32, second: u32) -> u64 {
        let (low, high) = if self.data == 2 {
            (second, first)
        } else {
            (first, second)
        };
        u64::from(high) << 32 | u64::from(low)
    }

    /// The text at an offset from `start`. The loader accepts offsets below `room`. Zeros follow a file that ends
    /// within a page.
    fn text(&self, start: usize, room: usize, offset: u32) -> CacheText<'f> {
        let offset = wide(offset);
        if offset >= room {
            return CacheText::OutOfRoom;
        }
        let Some(tail) = self.bytes.get(start + offset..) else {
            return CacheText::Unknown;
        };
        let tail = tail.get(..TEXT).unwrap_or(tail);
        match tail.iter().position(|&byte| byte == 0) {
            Some(end) => CacheText::Found(tail.get(..end).unwrap_or_default()),
            None if tail.len() < TEXT && !self.bytes.len().is_multiple_of(PAGE) => CacheText::Found(tail),
            None => CacheText::Unknown,
        }
    }
}

/// Whether two entries may be adjacent. Names are in descending order. For equal name and flags, entries of a
/// subdirectory come first, because the loader stops at the first plain one.
fn is_in_order(
    (one_name, one): &(&[u8], Option<CacheEntry>),
    (other_name, other): &(&[u8], Option<CacheEntry>),
) -> bool {
    match (compare_names(one_name, other_name), one, other) {
        (Ordering::Less, _, _) => false,
        (Ordering::Equal, Some(one), Some(other)) if one.flags == other.flags => {
            one.hwcaps.is_some() || other.hwcaps.is_none()
        }
        _ => true,
    }
}

/// Whether it is a valid name of a `glibc-hwcaps` subdirectory.
fn is_subdirectory(name: &ByteString) -> bool {
    !name.is_empty()
        && name
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte))
}

fn wide(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
