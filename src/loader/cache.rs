//! `/etc/ld.so.cache`, as the loader reads it (glibc sysdeps/generic/dl-cache.h, elf/dl-cache.c).
//!
//! Three kinds of file occur: the new format, the old one, and the old one with the new one behind it. A
//! file whose header does not fit is ignored as a whole, as the loader does; it is a problem, no failure.

use std::collections::BTreeMap;

use super::Arch;
use crate::elf::Bytes;

const OLD_MAGIC: &[u8] = b"ld.so-1.7.0";
const NEW_MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
/// The old header: the magic, padded, and the number of entries.
const OLD_HEADER: usize = 16;
const OLD_ENTRY: usize = 12;
const NEW_HEADER: usize = 48;
const NEW_ENTRY: usize = 24;
/// The magic of the extension directory.
const EXTENSIONS: u32 = 0xeaa4_2174;
/// The extension that names the program which wrote the file.
const GENERATOR_TAG: u32 = 0;
/// The extension that lists the names of `glibc-hwcaps` subdirectories.
const HWCAPS_TAG: u32 = 1;
/// The bit of an entry's hwcap that makes its low half an index into that list.
const HWCAP_NAMED: u64 = 1 << 62;
/// The bits above the low half that hold the level which a named entry needs.
const ISA_LEVEL: u64 = (1 << 10) - 1;
/// The entries that are read; Debian's largest known cache has some 3,000.
const ENTRIES: usize = 200_000;

/// The cache, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cache {
    /// The format of the file that it was read from; nothing for one that was made here.
    pub format: Option<Format>,
    /// What wrote the file, in its own words.
    pub generator: Option<Bytes>,
    /// By name as it is compared; each entry with its name as written.
    entries: BTreeMap<Bytes, Vec<(Bytes, CacheEntry)>>,
}

/// The format of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `glibc-ld.so.cache1.1` alone, which `ldconfig` writes since glibc 2.32.
    New,
    /// The old one with the new one behind it.
    Compat,
    /// `ld.so-1.7.0` alone.
    Old,
}

impl Format {
    /// The name by which `ldconfig -c` knows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Compat => "compat",
            Self::Old => "old",
        }
    }
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
    /// The x86-64 level that the object of a `glibc-hwcaps` subdirectory needs, 0 for the baseline.
    pub isa_level: u32,
}

/// What a loader takes of a cache.
#[derive(Debug, Clone, Copy)]
pub struct Usable<'a> {
    /// The processor.
    pub arch: &'a Arch,
    /// The `glibc-hwcaps` levels, the best first.
    pub levels: &'a [Bytes],
    /// The bits of the hardware subdirectories.
    pub hardware: u64,
    /// The bits of the levels that the processor has.
    pub isa_bits: u32,
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

    /// The path that the loader takes for `name`: the best usable `glibc-hwcaps` entry, else the
    /// first plain one with no more than the bits of its hardware (elf/dl-cache.c, `search_cache`).
    pub fn lookup(&self, name: &[u8], by: &Usable<'_>) -> Option<&[u8]> {
        let entries = self.entries.get(&compared(name))?;
        let flags = by.arch.cache_flags;
        let usable = || {
            entries.iter().map(|(_, entry)| entry).filter(|entry| {
                // Where there is one kind of library, one that ldconfig knew nothing more of will do.
                (entry.flags == flags || (entry.flags == 1 && flags == 3))
                    && entry.hardware & !by.hardware == 0
            })
        };
        let has_level = |entry: &CacheEntry| {
            // sysdeps/x86/dl-cache.h, `dl_cache_hwcap_isa_level_compatible`
            let bit = 1_u32.checked_shl(entry.isa_level).unwrap_or(0);
            by.arch.name != "x86-64" || bit & by.isa_bits == bit
        };
        let rank = |entry: &CacheEntry| {
            let mut levels = by.levels.iter();
            levels.position(|level| Some(level) == entry.hwcaps.as_ref())
        };
        let named = usable()
            .filter(|entry| has_level(entry))
            .filter_map(|entry| Some((rank(entry)?, entry)))
            .min_by_key(|(rank, _)| *rank);
        let exact = || usable().find(|entry| entry.hwcaps.is_none() && entry.flags == flags);
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

/// Reads a cache for a processor whose data byte is `data`.
///
/// # Errors
/// Why the loader ignores the file.
pub fn read(bytes: &[u8], data: u8) -> Result<Cache, String> {
    if bytes.starts_with(NEW_MAGIC) {
        return read_new(bytes, bytes, data);
    }
    if !bytes.starts_with(OLD_MAGIC) {
        return Err("it does not begin as a cache does".to_owned());
    }
    let count = number(bytes, 12, data).ok_or("its header is cut short")? as usize;
    let end = count
        .checked_mul(OLD_ENTRY)
        .and_then(|entries| entries.checked_add(OLD_HEADER));
    let end = end
        .filter(|&end| end <= bytes.len())
        .ok_or_else(|| format!("it says {count} entries and is too short for them"))?;
    let new = end.next_multiple_of(8);
    match bytes.get(new..) {
        Some(rest) if rest.starts_with(NEW_MAGIC) => read_new(rest, bytes, data),
        _ => Ok(read_old(bytes, count, end, data)),
    }
}

fn read_old(bytes: &[u8], count: usize, strings: usize, data: u8) -> Cache {
    let mut cache = Cache {
        format: Some(Format::Old),
        ..Cache::default()
    };
    for at in (0..count.min(ENTRIES)).map(|index| OLD_HEADER + index * OLD_ENTRY) {
        let text = |offset| {
            string(
                bytes,
                strings.checked_add(number(bytes, at + offset, data)? as usize)?,
            )
        };
        if let (Some(flags), Some(name), Some(path)) = (number(bytes, at, data), text(4), text(8)) {
            cache.add(
                name,
                CacheEntry {
                    path: path.into(),
                    flags: flags.cast_signed(),
                    hwcaps: None,
                    hardware: 0,
                    isa_level: 0,
                },
            );
        }
    }
    cache
}

/// Reads the new format; offsets of strings count from its own header, those of extensions from the start of
/// the `file`.
fn read_new(bytes: &[u8], file: &[u8], data: u8) -> Result<Cache, String> {
    let endian = bytes.get(28).copied().unwrap_or_default() & 3;
    // 0 is a file from before the field; 2 is little-endian, 3 is big-endian.
    if endian == 1 || (endian != 0 && endian != data + 1) {
        return Err("it was made for the other byte order".to_owned());
    }
    let count = number(bytes, 20, data).ok_or("its header is cut short")? as usize;
    if bytes.len() < NEW_HEADER || (bytes.len() - NEW_HEADER) / NEW_ENTRY < count {
        return Err(format!("it says {count} entries and is too short for them"));
    }
    let hwcaps = hwcap_names(bytes, file, data);
    let is_alone = bytes.len() == file.len();
    let mut cache = Cache {
        format: Some(if is_alone {
            Format::New
        } else {
            Format::Compat
        }),
        generator: generator(bytes, file, data),
        ..Cache::default()
    };
    for at in (0..count.min(ENTRIES)).map(|index| NEW_HEADER + index * NEW_ENTRY) {
        let text = |offset| string(bytes, number(bytes, at + offset, data)? as usize);
        let hwcap = number(bytes, at + 16, data)
            .zip(number(bytes, at + 20, data))
            .map_or(0, |(first, second)| {
                let (low, high) = if data == 2 {
                    (second, first)
                } else {
                    (first, second)
                };
                u64::from(high) << 32 | u64::from(low)
            });
        let index = usize::try_from(hwcap & u64::from(u32::MAX)).unwrap_or(usize::MAX);
        let named =
            (hwcap & HWCAP_NAMED != 0).then(|| hwcaps.get(index).cloned().unwrap_or_default());
        if let (Some(flags), Some(name), Some(path)) = (number(bytes, at, data), text(4), text(8)) {
            let (hardware, isa_level) = match named {
                None => (hwcap, 0),
                Some(_) => (
                    0,
                    u32::try_from(hwcap >> 32 & ISA_LEVEL).unwrap_or(u32::MAX),
                ),
            };
            cache.add(
                name,
                CacheEntry {
                    path: path.into(),
                    flags: flags.cast_signed(),
                    hwcaps: named,
                    hardware,
                    isa_level,
                },
            );
        }
    }
    Ok(cache)
}

/// The names of the `glibc-hwcaps` subdirectories, from the extension directory.
fn hwcap_names(bytes: &[u8], file: &[u8], data: u8) -> Vec<Bytes> {
    let names = || {
        let (offset, size) = extension(bytes, file, data, HWCAPS_TAG)?;
        let count = (size / 4).min(1024);
        let name = |index: usize| {
            string(
                bytes,
                number(bytes, offset.checked_add(index * 4)?, data)? as usize,
            )
        };
        Some(
            (0..count)
                .map(|index| name(index).unwrap_or_default().into())
                .collect(),
        )
    };
    names().unwrap_or_default()
}

/// What wrote the file, from the extension directory.
fn generator(bytes: &[u8], file: &[u8], data: u8) -> Option<Bytes> {
    let (offset, size) = extension(bytes, file, data, GENERATOR_TAG)?;
    let text = file.get(offset..offset.checked_add(size.min(256))?)?;
    Some(text.into())
}

/// The place and the size of an extension.
fn extension(bytes: &[u8], file: &[u8], data: u8, tag: u32) -> Option<(usize, usize)> {
    let at = number(bytes, 32, data).filter(|&offset| offset > 0)? as usize;
    if number(file, at, data)? != EXTENSIONS {
        return None;
    }
    let sections = number(file, at.checked_add(4)?, data)?.min(64) as usize;
    let section = (0..sections)
        .filter_map(|index| at.checked_add(8 + index * 16))
        .find(|&section| number(file, section, data) == Some(tag))?;
    let offset = number(file, section.checked_add(8)?, data)? as usize;
    let size = number(file, section.checked_add(12)?, data)? as usize;
    Some((offset, size))
}

fn number(bytes: &[u8], at: usize, data: u8) -> Option<u32> {
    let field = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
    Some(if data == 2 {
        u32::from_be_bytes(field)
    } else {
        u32::from_le_bytes(field)
    })
}

fn string(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let tail = bytes.get(at..)?;
    let tail = tail.get(..tail.len().min(8192))?;
    tail.get(..tail.iter().position(|&byte| byte == 0)?)
}
