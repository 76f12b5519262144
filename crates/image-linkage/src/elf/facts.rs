//! The facts of one ELF object.

use std::fmt;

use elf::abi;
use gpu_code::DeviceCode;
use serde::{Deserialize, Serialize};

use super::link_symbols::LinkSymbols;
use super::part_name::{self, PartName};

/// Raw bytes from an image: a soname, a path or a symbol.
pub type ByteString = Box<[u8]>;

/// The facts of one ELF object that the loader and the audit need (System V gABI; glibc elf/elf.h).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ElfFacts {
    /// The raw `e_ident`.
    pub ident: [u8; 16],
    /// `e_type`: 2 is `ET_EXEC`, 3 is `ET_DYN`.
    pub kind: u16,
    /// `e_machine`: 62 is `x86-64`, 183 is `AArch64`.
    pub machine: u16,
    /// `e_version`; glibc accepts only 1 (`EV_CURRENT`).
    pub version: u32,
    /// `e_phentsize`, the size of one program header according to the file.
    pub phentsize: u16,
    /// The number of `PT_LOAD` segments.
    pub loads: u32,
    /// Whether there is a `PT_DYNAMIC`.
    pub dynamic: bool,
    /// `PT_INTERP`, without the final NUL.
    pub interp: Option<ByteString>,
    /// `DT_SONAME`; the last one if there are several.
    pub soname: Option<ByteString>,
    /// `DT_NEEDED` in the order of the dynamic section, which is the order of loading.
    pub needed: Vec<ByteString>,
    /// `DT_AUXILIARY` and `DT_FILTER`, in order.
    pub filters: Vec<(ByteString, FilterKind)>,
    /// `DT_RPATH`, even if a `DT_RUNPATH` makes the loader ignore it.
    pub rpath: Option<ByteString>,
    /// `DT_RUNPATH`, with tokens such as `$ORIGIN` unexpanded.
    pub runpath: Option<ByteString>,
    /// `DT_FLAGS_1`, such as `DF_1_NODEFLIB` and `DF_1_PIE`.
    pub flags_1: u64,
    /// `DT_VERNEED`, one entry per file, in chain order.
    pub verneed: Vec<VersionNeed>,
    /// The version names defined by `DT_VERDEF`, in order. The first is usually the soname. Names with a wrong hash are
    /// omitted, because no loader finds them.
    pub verdef: Vec<ByteString>,
    /// Whether there is a `DT_VERDEF`. Without one, the loader treats every needed version as present.
    pub has_verdef: bool,
    /// Whether `PT_GNU_STACK` requests an executable stack or is missing (glibc elf/dl-load.c).
    pub executable_stack: bool,
    /// The bytes of static TLS that it needs: the size of `PT_TLS` if `DF_STATIC_TLS` is set. dlopen fails if they do
    /// not fit into the surplus reserved at program start (glibc elf/dl-reloc.c).
    pub static_tls: u64,
    /// `GNU_PROPERTY_X86_ISA_1_NEEDED`: bit 0 is the baseline, bits 1 to 3 are x86-64-v2 to v4.
    pub isa_needed: u32,
    /// The JSON of each `.note.dlopen` (UAPI group, "ELF dlopen metadata").
    pub dlopen_notes: Vec<ByteString>,
    /// The dynamic symbols whose names begin with a requested prefix.
    pub symbols: Vec<DynamicSymbol>,
    /// Its exports and imports; `None` if they were not read.
    pub link_symbols: Option<Box<LinkSymbols>>,
    /// NUL-terminated strings outside the dynamic string table that contain a requested name. Each once, in file order.
    pub mentions: Vec<ByteString>,
    /// The mentions that are a path used only as a whole. For other paths, a linker may have merged a bare file name
    /// into the end of the path.
    pub whole_paths: Vec<ByteString>,
    /// Other texts that contain a requested name: parts of longer texts, strings without a NUL, and instruction
    /// operands. An operand may hold only the first eight bytes of the name.
    pub fragments: Vec<ByteString>,
    /// Its code for GPUs; `None` if there is none.
    pub device_code: Option<Box<DeviceCode>>,
    /// The parts that could not be read.
    pub problems: Vec<ElfProblem>,
}

/// The versions an object needs from one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionNeed {
    /// The file name, as in `DT_NEEDED`.
    pub file: ByteString,
    /// The needed versions, in order.
    pub versions: Vec<NeededVersion>,
}

/// One needed version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeededVersion {
    /// The version name, such as `GLIBC_2.34`.
    pub name: ByteString,
    /// `VER_FLG_WEAK`: if it is missing, the loader only warns.
    pub weak: bool,
    /// Whether the stored hash matches the name. The loader compares hashes first, so it never finds a version with a
    /// wrong one (glibc elf/dl-version.c, `match_symbol`).
    pub hash_fits: bool,
}

/// The kind of a filter entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FilterKind {
    /// `DT_FILTER`: the filtee must exist.
    Standard,
    /// `DT_AUXILIARY`: the filtee may be missing.
    Auxiliary,
}

/// A dynamic symbol with a requested name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DynamicSymbol {
    /// The name without its version.
    pub name: ByteString,
    /// The version, if the object uses versions.
    pub version: Option<ByteString>,
    /// Whether the object imports or exports it.
    pub role: SymbolRole,
}

/// The role of a symbol in an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SymbolRole {
    /// Undefined and required.
    Import,
    /// Undefined and weak (`STB_WEAK`): resolves to 0 if missing.
    WeakImport,
    /// Defined and visible to other objects.
    Export,
}

/// A part of an object that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum ElfProblem {
    /// The file ends inside the header or a segment. Mapping it would crash the process.
    #[error("truncated: {what} ends at byte {end}, the file at {bytes}")]
    Truncated {
        /// The truncated part.
        #[serde(deserialize_with = "part_name::deserialize")]
        what: PartName,
        /// The file size.
        end: u64,
        /// The size of the file.
        bytes: u64,
    },
    /// A table has invalid content.
    #[error("malformed {what}")]
    Malformed {
        /// The table, in words.
        #[serde(deserialize_with = "part_name::deserialize")]
        what: PartName,
    },
    /// Valid, but loaders refuse it.
    #[error("{0}")]
    Unloadable(LoadFault),
    /// The stream had already passed a table when its offset became known, and the bytes were not kept.
    #[error("{what} at byte {offset} was read past before its offset was known")]
    OutOfReach {
        /// The table, in words.
        #[serde(deserialize_with = "part_name::deserialize")]
        what: PartName,
        /// The file offset of the table.
        offset: u64,
    },
    /// A table exceeds its size limit.
    #[error("{what} of {bytes} bytes is larger than the limit of {limit}")]
    TooLarge {
        /// The table, in words.
        #[serde(deserialize_with = "part_name::deserialize")]
        what: PartName,
        /// Its size in bytes.
        bytes: u64,
        /// The limit in bytes.
        limit: u64,
    },
}

impl ElfFacts {
    /// The reasons why loaders refuse it.
    pub(crate) fn load_faults(&self) -> impl Iterator<Item = LoadFault> {
        self.problems.iter().filter_map(|problem| match problem {
            ElfProblem::Unloadable(fault) => Some(*fault),
            _ => None,
        })
    }

    /// `EI_CLASS`: 1 is 32-bit, 2 is 64-bit.
    pub fn class(&self) -> u8 {
        let [_, _, _, _, class, ..] = self.ident;
        class
    }

    /// Whether it is a position-independent program: `DF_1_PIE`.
    pub(crate) fn is_pie(&self) -> bool {
        // Its type is that of a shared object. dlopen refuses it because of this flag (glibc bug 24323).
        self.flags_1 & abi::DF_1_PIE.cast_unsigned() != 0
    }

    /// Whether it is a program, which dlopen refuses.
    pub fn is_program(&self) -> bool {
        self.kind == abi::ET_EXEC || self.is_pie()
    }

    /// Whether it is a program that the kernel starts without a loader.
    pub fn is_static(&self) -> bool {
        self.is_program() && self.interp.is_none()
    }

    /// The bytes of all names and strings in memory.
    pub(crate) fn text_bytes(&self) -> usize {
        // Bounds the memory of a layer, which may contain a million objects full of names.
        let one = [&self.interp, &self.soname, &self.rpath, &self.runpath];
        let many = [
            &self.needed,
            &self.verdef,
            &self.dlopen_notes,
            &self.mentions,
            &self.fragments,
        ];
        let needs = self.verneed.iter().flat_map(|need| {
            let versions = need.versions.iter().map(|version| &version.name);
            versions.chain([&need.file])
        });
        let symbols = self
            .symbols
            .iter()
            .flat_map(|symbol| symbol.version.iter().chain([&symbol.name]));
        let all = one.into_iter().flatten().chain(many.into_iter().flatten());
        let filters = self.filters.iter().map(|(name, _)| name);
        all.chain(needs)
            .chain(symbols)
            .chain(filters)
            .map(|text| text.len())
            .sum::<usize>()
            + self.link_symbols.as_ref().map_or(0, |symbols| symbols.bytes())
            + self
                .device_code
                .as_ref()
                .map_or(0, |code| code.amounts().map(size_of_val).sum())
    }
}

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
