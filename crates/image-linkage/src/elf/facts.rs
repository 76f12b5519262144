//! What is known of one ELF object once its bytes have passed.

use elf::abi;
use serde::{Deserialize, Serialize};

use super::link_symbols::LinkSymbols;
use super::load_fault::LoadFault;
use super::part_name::{self, PartName};

/// A byte string of an image: a soname, a path, a symbol.
pub type ByteString = Box<[u8]>;

/// What the loader and the audit need to know of one ELF object (System V gABI; glibc elf/elf.h).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ElfFacts {
    /// `e_ident` as it stands in the file.
    pub ident: [u8; 16],
    /// `e_type`: 2 is `ET_EXEC`, 3 is `ET_DYN`.
    pub kind: u16,
    /// `e_machine`: 62 is `x86-64`, 183 is `AArch64`.
    pub machine: u16,
    /// `e_version`; glibc maps nothing but 1 (`EV_CURRENT`).
    pub version: u32,
    /// `e_phentsize`, the bytes of one program header as the file states them.
    pub phentsize: u16,
    /// The number of `PT_LOAD` segments.
    pub loads: u32,
    /// Whether there is a `PT_DYNAMIC`.
    pub dynamic: bool,
    /// `PT_INTERP`, without the final NUL.
    pub interp: Option<ByteString>,
    /// `DT_SONAME`; the last one where there are several.
    pub soname: Option<ByteString>,
    /// `DT_NEEDED` in the order of the dynamic section, which is the order of loading.
    pub needed: Vec<ByteString>,
    /// `DT_AUXILIARY` and `DT_FILTER`, in order.
    pub filters: Vec<(ByteString, FilterKind)>,
    /// `DT_RPATH`, also where a `DT_RUNPATH` makes the loader ignore it.
    pub rpath: Option<ByteString>,
    /// `DT_RUNPATH`, with its tokens as written.
    pub runpath: Option<ByteString>,
    /// `DT_FLAGS_1`, such as `DF_1_NODEFLIB` and `DF_1_PIE`.
    pub flags_1: u64,
    /// `DT_VERNEED`, one per file, in the order of its chain.
    pub verneed: Vec<VersionNeed>,
    /// The names that `DT_VERDEF` defines, in order; the first is usually the soname. One whose hash is not that
    /// of its name is left out, as no loader finds it.
    pub verdef: Vec<ByteString>,
    /// Whether there is a `DT_VERDEF`, without which every version that others need is taken for there.
    pub has_verdef: bool,
    /// Whether `PT_GNU_STACK` asks for a stack that code can run on, or is not there (glibc elf/dl-load.c).
    pub executable_stack: bool,
    /// The bytes of thread-local storage that it wants at a fixed place in every thread: those of `PT_TLS`, where
    /// `DF_STATIC_TLS` is set. What dlopen opens has to fit into what the program was started with (glibc elf/dl-reloc.c).
    pub static_tls: u64,
    /// `GNU_PROPERTY_X86_ISA_1_NEEDED`: bit 0 is the baseline, bits 1 to 3 are x86-64-v2 to v4.
    pub isa_needed: u32,
    /// The JSON of each `.note.dlopen` (UAPI group, "ELF dlopen metadata").
    pub dlopen_notes: Vec<ByteString>,
    /// The dynamic symbols whose names begin with a prefix that was asked for.
    pub symbols: Vec<DynamicSymbol>,
    /// What it defines for others and imports of them; `None` where that was not read.
    pub link_symbols: Option<Box<LinkSymbols>>,
    /// Strings with a final NUL, outside the dynamic string table, that hold a name that was asked for, each once, in
    /// the order of the file.
    pub mentions: Vec<ByteString>,
    /// Those of the mentions that are a path to whose last part nothing leads but by the whole, as far as that can be
    /// told: of the rest, a linker may have put a name of its own into the path.
    pub whole_paths: Vec<ByteString>,
    /// Those of the mentions by which code asks alone whether a library is mapped (`RTLD_NOLOAD`).
    pub asked_names: Vec<ByteString>,
    /// Texts that hold one and are no such string: parts of longer texts, strings of languages without a NUL, and
    /// operands of instructions, which may be no more than the first eight bytes of the name.
    pub fragments: Vec<ByteString>,
    /// What could not be read.
    pub problems: Vec<ElfProblem>,
}

/// The versions that an object needs of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionNeed {
    /// The file, by the name it has in `DT_NEEDED`.
    pub file: ByteString,
    /// The versions that have to be defined there, in order.
    pub versions: Vec<NeededVersion>,
}

/// One version that an object needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeededVersion {
    /// The version's name, such as `GLIBC_2.34`.
    pub name: ByteString,
    /// `VER_FLG_WEAK`: its absence is only a warning.
    pub weak: bool,
    /// Whether the hash beside it is that of the name. The loader compares hashes first (glibc elf/dl-version.c,
    /// `match_symbol`), so that another one is never found.
    pub hash_fits: bool,
}

/// How an object is a filter for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FilterKind {
    /// `DT_FILTER`: the other has to be there.
    Standard,
    /// `DT_AUXILIARY`: the other may be absent.
    Auxiliary,
}

/// A symbol of the dynamic symbol table whose name was asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DynamicSymbol {
    /// The name without its version.
    pub name: ByteString,
    /// The version, where the object uses versions.
    pub version: Option<ByteString>,
    /// Whether the object imports or exports it.
    pub role: SymbolRole,
}

/// What an object does with a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SymbolRole {
    /// Undefined here, and needed.
    Import,
    /// Undefined here, and resolved to nothing when absent (`STB_WEAK`).
    WeakImport,
    /// Defined here, so that others can bind to it.
    Export,
}

/// What could not be read of an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum ElfProblem {
    /// The file ends before its header does, or before a segment does: mapping it would crash the process.
    #[error("truncated: {what} ends at byte {end}, the file at {bytes}")]
    Truncated {
        /// The part that is cut.
        #[serde(deserialize_with = "part_name::deserialize")]
        what: PartName,
        /// Where the part ends.
        end: u64,
        /// The size of the file.
        bytes: u64,
    },
    /// A table holds what no such table may hold.
    #[error("malformed {what}")]
    Malformed {
        /// What the table holds, in words.
        #[serde(deserialize_with = "part_name::deserialize")]
        what: PartName,
    },
    /// Loaders do not map it.
    #[error("{0}")]
    Unloadable(LoadFault),
    /// A table lies between the part that is held and the point where its place becomes known.
    #[error("{what} at byte {offset} had passed before its place was known")]
    OutOfReach {
        /// What the table holds, in words.
        #[serde(deserialize_with = "part_name::deserialize")]
        what: PartName,
        /// Its place in the file.
        offset: u64,
    },
    /// A table is larger than the bound on it.
    #[error("{what} of {bytes} bytes is larger than the limit of {limit}")]
    TooLarge {
        /// What the table holds, in words.
        #[serde(deserialize_with = "part_name::deserialize")]
        what: PartName,
        /// Its size in bytes.
        bytes: u64,
        /// The most that is read, in bytes.
        limit: u64,
    },
}

impl ElfFacts {
    /// What loaders refuse it for.
    pub(crate) fn load_faults(&self) -> impl Iterator<Item = LoadFault> {
        self.problems.iter().filter_map(|problem| match problem {
            ElfProblem::Unloadable(fault) => Some(*fault),
            _ => None,
        })
    }

    /// The class byte of the identification: 1 is 32-bit, 2 is 64-bit.
    pub fn class(&self) -> u8 {
        let [_, _, _, _, class, ..] = self.ident;
        class
    }

    /// Whether it is a program, though of the type of a shared object: `DF_1_PIE`.
    pub(crate) fn is_pie(&self) -> bool {
        // Linkers give such a program the type of a library; dlopen refuses it by this flag (glibc bug 24323).
        self.flags_1 & abi::DF_1_PIE.cast_unsigned() != 0
    }

    /// Whether it is a program: a process is started with it, and dlopen refuses it.
    pub fn is_program(&self) -> bool {
        self.kind == abi::ET_EXEC || self.is_pie()
    }

    /// Whether it is a program that the kernel starts without a loader.
    pub fn is_static(&self) -> bool {
        self.is_program() && self.interp.is_none()
    }

    /// The bytes of all names and strings that the facts hold.
    pub(crate) fn text_bytes(&self) -> usize {
        // What a layer holds in memory is bounded by this sum: one may hold a million objects that are full of names.
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
    }
}
