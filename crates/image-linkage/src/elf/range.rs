//! File ranges of an object's tables, and their encoding.

use elf::endian::AnyEndian;
use elf::file::Class;

/// The byte order and word size of all tables.
#[derive(Clone, Copy)]
pub(super) struct ElfEncoding {
    pub endian: AnyEndian,
    pub class: Class,
}

/// A range of bytes in the file. Problems call it `what`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ElfRange {
    pub what: &'static str,
    pub offset: u64,
    pub bytes: u64,
}

impl ElfRange {
    pub(crate) fn end(&self) -> u64 {
        // Both numbers come from the file. A sum over 2^64 is behind the end of every file.
        self.offset.saturating_add(self.bytes)
    }

    pub(crate) fn holds(&self, other: &Self) -> bool {
        self.offset <= other.offset && other.end() <= self.end()
    }
}
