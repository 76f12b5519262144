//! Reasons why loaders refuse an intact object.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A reason why loaders refuse an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LoadFault {
    /// A `PT_DYNAMIC` without content, as in debug files. glibc refuses it since 2.35.
    EmptyDynamic,
    /// A `PT_LOAD` whose `p_align` is not a multiple of a page (glibc elf/dl-load.c, `_dl_map_object_from_fd`).
    AlignmentOffPage,
    /// A `PT_LOAD` whose address and offset differ modulo a page, as a tool that moves segments may leave them.
    OffsetOffPage,
    /// `DF_1_NOOPEN`: dlopen refuses it.
    NoOpen,
}

impl fmt::Display for LoadFault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::EmptyDynamic => "object file has no dynamic section",
            Self::AlignmentOffPage => "ELF load command alignment not page-aligned",
            Self::OffsetOffPage => "ELF load command address/offset not page-aligned",
            Self::NoOpen => "shared object cannot be dlopen()ed",
        })
    }
}
