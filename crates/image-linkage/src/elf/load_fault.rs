//! What a loader runs into while it maps an object: what it refuses, and what it trips over.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::part_name::{self, PartName};

/// Something in an object that keeps loaders from it, or that they do not survive for sure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LoadFault {
    /// `p_align` of a `PT_LOAD` is no multiple of the page: glibc refuses it until 2.34.
    PageAlignment,
    /// `p_vaddr` and `p_offset` of a `PT_LOAD` differ by no multiple of its `p_align`: glibc refuses it until 2.34.
    SegmentAlignment,
    /// `p_vaddr` and `p_offset` of a `PT_LOAD` differ by no multiple of the page: no mapping can bring them together.
    AddressAlignment,
    /// A `PT_DYNAMIC` without a byte in the file, as in files of debugging information: glibc refuses it from 2.35 on.
    EmptyDynamic,
    /// The address space has no room from the first segment to the end of the last.
    NoRoom,
    /// The same with the largest `p_align`, to which glibc aligns segments from 2.35 on.
    NoAlignedRoom,
    /// There are holes between the segments, and the last begins before the end of the first.
    Overlap,
    /// The loader ends the process itself (glibc `assert`): the words that it says.
    Assertion(#[serde(deserialize_with = "part_name::deserialize")] PartName),
    /// `DF_1_NOOPEN`: dlopen refuses it.
    NoOpen,
    /// `vn_version` of the first needed version, which can only be 1.
    NeedVersion(u16),
    /// `vd_version` of a defined version, which can only be 1.
    DefinitionVersion(u16),
    /// A segment before the last has pages of the file behind the end of its memory: glibc maps them, musl does not.
    ShortMemory,
    /// This part lies, all or some of it, where nothing is mapped, or nothing that may be read, written or run there.
    Wild(#[serde(deserialize_with = "part_name::deserialize")] PartName),
}

impl fmt::Display for LoadFault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PageAlignment => to.write_str("ELF load command alignment not page-aligned"),
            Self::SegmentAlignment => to.write_str("ELF load command address/offset not properly aligned"),
            Self::AddressAlignment | Self::Overlap => to.write_str("ELF load command address/offset not page-aligned"),
            Self::EmptyDynamic => to.write_str("object file has no dynamic section"),
            Self::NoRoom | Self::NoAlignedRoom => to.write_str("failed to map segment from shared object"),
            Self::Assertion(words) => write!(to, "Inconsistency detected by ld.so: Assertion `{words}' failed!"),
            Self::NoOpen => to.write_str("shared object cannot be dlopen()ed"),
            Self::NeedVersion(version) => write!(to, "unsupported version {version} of Verneed record"),
            Self::DefinitionVersion(version) => write!(to, "unsupported version {version} of Verdef record"),
            Self::ShortMemory => to.write_str("a loaded segment has less memory than bytes"),
            Self::Wild(what) => write!(to, "{what} leads where nothing usable is mapped"),
        }
    }
}
