//! Where the tables of an object lie in its file, and how they are encoded.

use elf::endian::AnyEndian;
use elf::file::Class;

/// The byte order and word size that every table is read with.
#[derive(Clone, Copy)]
pub(super) struct ElfEncoding {
    pub endian: AnyEndian,
    pub class: Class,
}

/// A run of bytes of the file, named in problems by what should stand there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ElfRange {
    pub what: &'static str,
    pub offset: u64,
    pub bytes: u64,
}

impl ElfRange {
    pub(crate) fn end(&self) -> u64 {
        // Both numbers come from the file; a sum past 2^64 is an end that no file reaches.
        self.offset.saturating_add(self.bytes)
    }

    pub(crate) fn holds(&self, other: &Self) -> bool {
        self.offset <= other.offset && other.end() <= self.end()
    }
}
