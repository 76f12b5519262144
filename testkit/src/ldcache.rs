//! An `/etc/ld.so.cache` as written by `ldconfig` (glibc, `sysdeps/generic/dl-cache.h` and `elf/cache.c`).

use std::cmp::{Ordering, Reverse};

/// The flags of an entry for x86-64: `FLAG_X8664_LIB64 | FLAG_ELF_LIBC6`.
pub const X86_64: i32 = 0x0303;
/// The flags of an entry for aarch64: `FLAG_AARCH64_LIB64 | FLAG_ELF_LIBC6`.
pub const AARCH64: i32 = 0x0a03;
/// The flags of an entry for 32-bit x86: `FLAG_ELF_LIBC6`.
pub const I386: i32 = 0x0003;

const OLD_MAGIC: &[u8] = b"ld.so-1.7.0\0";
const NEW_MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const OLD_HEADER: usize = 16;
const OLD_ENTRY: usize = 12;
const NEW_HEADER: usize = 48;
const NEW_ENTRY: usize = 24;
const LITTLE_ENDIAN: u8 = 2;
const EXTENSION_MAGIC: u32 = 0xeaa4_2174;
const TAG_GENERATOR: u32 = 0;
const TAG_GLIBC_HWCAPS: u32 = 1;
/// The bit of an entry's hwcap which marks the low half as an index into the `glibc-hwcaps` section.
const HWCAP_EXTENSION: u64 = 1 << 62;

/// The format of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// The new format only, `ldconfig`'s default since glibc 2.32.
    #[default]
    New,
    /// The old format with the new one embedded in its strings, the earlier default.
    Compat,
    /// The old format only.
    Old,
}

/// A cache under construction. The order of additions only matters between equal sonames.
#[derive(Debug, Clone, Default)]
#[must_use = "a cache is only written by `build`"]
pub struct Cache {
    format: Format,
    generator: Option<Vec<u8>>,
    entries: Vec<Entry>,
}

#[derive(Debug, Clone)]
struct Entry {
    soname: Vec<u8>,
    path: Vec<u8>,
    flags: i32,
    /// The `glibc-hwcaps` subdirectory, such as `x86-64-v3`.
    subdirectory: Option<Vec<u8>>,
}

impl Cache {
    /// An empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the format.
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// Adds the extension with the name of the program that wrote the cache.
    pub fn generator(mut self, name: impl AsRef<[u8]>) -> Self {
        self.generator = Some(name.as_ref().to_vec());
        self
    }

    /// Adds a library; `flags` is [`X86_64`], [`AARCH64`] or another value of `ldconfig.h`.
    pub fn entry(mut self, flags: i32, soname: impl AsRef<[u8]>, path: impl AsRef<[u8]>) -> Self {
        self.push(flags, soname.as_ref(), path.as_ref(), None);
        self
    }

    /// Adds a library in this subdirectory of `glibc-hwcaps`.
    pub fn hwcaps_entry(
        mut self,
        flags: i32,
        subdirectory: impl AsRef<[u8]>,
        soname: impl AsRef<[u8]>,
        path: impl AsRef<[u8]>,
    ) -> Self {
        let subdirectory = Some(subdirectory.as_ref().to_vec());
        self.push(flags, soname.as_ref(), path.as_ref(), subdirectory);
        self
    }

    fn push(&mut self, flags: i32, soname: &[u8], path: &[u8], subdirectory: Option<Vec<u8>>) {
        let (soname, path) = (soname.to_vec(), path.to_vec());
        self.entries.push(Entry {
            soname,
            path,
            flags,
            subdirectory,
        });
    }

    /// Returns the bytes of the file.
    pub fn build(&self) -> Vec<u8> {
        let mut entries = self.entries.clone();
        entries.sort_by(order);
        match self.format {
            Format::New => self.new_part(&entries, 0).0,
            Format::Compat => self.compat_file(&entries),
            Format::Old => {
                let mut strings = Strings::at(0);
                let offsets: Vec<(u32, u32)> = entries.iter().map(|entry| strings.entry(entry)).collect();
                [old_part(&entries, &offsets), strings.bytes].concat()
            }
        }
    }

    /// The old part followed by the aligned new one. They share the new one's strings; the old part's offsets are
    /// relative to its own end.
    fn compat_file(&self, entries: &[Entry]) -> Vec<u8> {
        let end = OLD_HEADER + OLD_ENTRY * entries.len();
        let front = end.next_multiple_of(8);
        let padding = word(front - end);
        let (new, offsets) = self.new_part(entries, front);
        let shift = |(key, value)| (key + padding, value + padding);
        let offsets: Vec<(u32, u32)> = offsets.into_iter().map(shift).collect();
        let mut file = old_part(entries, &offsets);
        file.resize(front, 0);
        file.extend(new);
        file
    }

    /// The new format after `front` bytes, and the offsets of each entry's soname and path.
    ///
    /// String offsets are relative to the new header, and extension offsets to the start of the file. `ldconfig` writes
    /// it like this, although the loader then misses subdirectory names in a compat file.
    fn new_part(&self, entries: &[Entry], front: usize) -> (Vec<u8>, Vec<(u32, u32)>) {
        let mut strings = Strings::at(NEW_HEADER + NEW_ENTRY * entries.len());
        let levels = subdirectories(entries);
        let offsets: Vec<(u32, u32)> = entries.iter().map(|entry| strings.entry(entry)).collect();
        let mut table = Vec::new();
        for (entry, (key, value)) in entries.iter().zip(&offsets) {
            let level = entry.subdirectory.as_ref();
            let level = level.and_then(|name| levels.iter().position(|known| known == name));
            let hwcap = level.map_or(0, |index| HWCAP_EXTENSION | u64::from(word(index)));
            table.extend(entry.flags.to_le_bytes());
            words(&mut table, &[*key, *value, 0]);
            table.extend(hwcap.to_le_bytes());
        }
        let levels: Vec<u32> = levels.iter().map(|name| strings.add(name)).collect();
        let length = strings.bytes.len();
        let end = (front + strings.start + length).next_multiple_of(4);
        let extension = self.extension(end, &levels);
        let at = if extension.is_empty() { 0 } else { end };
        let mut part = NEW_MAGIC.to_vec();
        words(&mut part, &[word(entries.len()), word(length)]);
        part.extend([LITTLE_ENDIAN, 0, 0, 0]);
        words(&mut part, &[word(at), 0, 0, 0]);
        part.extend(table);
        part.extend(strings.bytes);
        if at > 0 {
            part.resize(at - front, 0);
        }
        part.extend(extension);
        (part, offsets)
    }

    /// The extension directory and its sections at offset `at` in the file; empty without extensions.
    fn extension(&self, at: usize, levels: &[u32]) -> Vec<u8> {
        let mut level_bytes = Vec::new();
        words(&mut level_bytes, levels);
        let hwcaps = (!levels.is_empty()).then_some((TAG_GLIBC_HWCAPS, level_bytes));
        let generator = self.generator.clone().map(|name| (TAG_GENERATOR, name));
        // The array of words comes first for its alignment.
        let sections: Vec<(u32, Vec<u8>)> = hwcaps.into_iter().chain(generator).collect();
        if sections.is_empty() {
            return Vec::new();
        }
        let mut directory = Vec::new();
        words(&mut directory, &[EXTENSION_MAGIC, word(sections.len())]);
        let mut offset = at + 8 + 16 * sections.len();
        for (tag, bytes) in &sections {
            words(&mut directory, &[*tag, 0, word(offset), word(bytes.len())]);
            offset += bytes.len();
        }
        directory.extend(sections.into_iter().flat_map(|(_, bytes)| bytes));
        directory
    }
}

/// The header and entries of the old format, whose offsets are relative to the end of the entries.
fn old_part(entries: &[Entry], offsets: &[(u32, u32)]) -> Vec<u8> {
    let mut file = OLD_MAGIC.to_vec();
    words(&mut file, &[word(entries.len())]);
    for (entry, (key, value)) in entries.iter().zip(offsets) {
        file.extend(entry.flags.to_le_bytes());
        words(&mut file, &[*key, *value]);
    }
    file
}

/// The strings of a file, with their start offset.
struct Strings {
    start: usize,
    bytes: Vec<u8>,
}

impl Strings {
    fn at(start: usize) -> Self {
        let bytes = Vec::new();
        Self { start, bytes }
    }

    fn add(&mut self, text: &[u8]) -> u32 {
        let at = word(self.start + self.bytes.len());
        self.bytes.extend_from_slice(text);
        self.bytes.push(0);
        at
    }

    /// The offsets of an entry's soname and path. A soname at the end of the path is shared.
    fn entry(&mut self, entry: &Entry) -> (u32, u32) {
        let value = self.add(&entry.path);
        let key = match entry.path.strip_suffix(entry.soname.as_slice()) {
            Some(front) => value + word(front.len()),
            None => self.add(&entry.soname),
        };
        (key, value)
    }
}

/// The subdirectory names, sorted.
fn subdirectories(entries: &[Entry]) -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = entries.iter().filter_map(|entry| entry.subdirectory.clone()).collect();
    names.sort();
    names.dedup();
    names
}

/// The order of cache entries (`compare` in `elf/cache.c`): by descending soname and flags; then entries of a
/// subdirectory first, by name.
fn order(one: &Entry, other: &Entry) -> Ordering {
    library_order(&other.soname, &one.soname)
        .then_with(|| other.flags.cmp(&one.flags))
        .then_with(|| {
            let rank = |entry: &Entry| Reverse(entry.subdirectory.is_some());
            rank(one).cmp(&rank(other))
        })
        .then_with(|| one.subdirectory.cmp(&other.subdirectory))
}

/// `_dl_cache_libcmp`: compares runs of digits as numbers, and sorts digits after other bytes.
fn library_order(one: &[u8], other: &[u8]) -> Ordering {
    let (mut one, mut other) = (one, other);
    loop {
        match (number(one), number(other)) {
            (Some((a, rest_a)), Some((b, rest_b))) => {
                if a != b {
                    return a.cmp(&b);
                }
                (one, other) = (rest_a, rest_b);
            }
            (Some(_), None) => return Ordering::Greater,
            (None, Some(_)) => return Ordering::Less,
            (None, None) => match (one.split_first(), other.split_first()) {
                (Some((a, rest_a)), Some((b, rest_b))) if a == b => (one, other) = (rest_a, rest_b),
                (a, b) => return a.map(|(a, _)| a).cmp(&b.map(|(b, _)| b)),
            },
        }
    }
}

/// The leading number of `text`, and the rest.
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = text.split_at_checked(digits)?;
    let value = number.iter().fold(0_u64, |value, digit| {
        value.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'))
    });
    (digits > 0).then_some((value, rest))
}

fn words(out: &mut Vec<u8>, values: &[u32]) {
    out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

fn word(value: usize) -> u32 {
    u32::try_from(value).expect("a cache that a test makes is smaller than 4 GiB")
}
