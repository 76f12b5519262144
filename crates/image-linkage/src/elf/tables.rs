//! Reads the tables of an object from the kept ranges.

use std::borrow::Cow;

use elf::abi;
use elf::dynamic::Dyn;
use elf::endian::{AnyEndian, EndianParse};
use elf::file::Class;
use elf::gnu_symver::VersionIndex;
use elf::note::{Note, NoteIterator};
use elf::parse::ParsingTable;
use elf::segment::ProgramHeader;
use elf::symbol::Symbol as RawSymbol;

use super::address_space::AddressSpace;
use super::facts::{ByteString, DynamicSymbol, ElfFacts, ElfProblem, FilterKind, SymbolRole};
use super::mentions::NameMatcher;
use super::range::{ElfEncoding, ElfRange};
use super::string_table::StringTable;
use super::symbol_versions;

/// The maximum entries of a dynamic section. Real objects have about forty.
const DYNAMIC_ENTRIES: usize = 16_384;
/// The maximum symbols kept of one object. libcupti exports about 220.
const SYMBOLS: usize = 8_192;

/// A table that the dynamic section points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DynamicTable {
    Strings,
    Symbols,
    VersionIndexes,
    VersionNeeds,
    VersionDefinitions,
    Hash,
    /// Only the beginning is read.
    Relocations,
    FunctionRelocations,
}

/// The dynamic section: string table offsets, and the file ranges of tables.
#[derive(Debug, Default)]
pub(super) struct DynamicSection {
    needed: Vec<u64>,
    filters: Vec<(u64, FilterKind)>,
    soname: Option<u64>,
    rpath: Option<u64>,
    runpath: Option<u64>,
    pub flags_1: u64,
    /// All entries that the loader evaluates, in order.
    values: Vec<(i64, u64)>,
    tables: Vec<(DynamicTable, ElfRange)>,
}

impl DynamicTable {
    fn is_checked(self) -> bool {
        matches!(self, Self::Hash | Self::Relocations | Self::FunctionRelocations)
    }

    /// The name used in problems.
    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::Strings => "the dynamic string table",
            Self::Symbols => "the dynamic symbol table",
            Self::VersionIndexes => "the symbol version table",
            Self::VersionNeeds => "the table of needed versions",
            Self::VersionDefinitions => "the table of defined versions",
            Self::Hash => "the hash table",
            Self::Relocations => "the relocations",
            Self::FunctionRelocations => "the relocations of functions",
        }
    }
}

impl DynamicSection {
    /// The value of a tag. The last of several entries counts, as in ld.so (glibc elf/get-dynamic-info.h).
    pub(crate) fn value(&self, tag: i64) -> Option<u64> {
        let mut values = self.values.iter();
        values.rfind(|(known, _)| *known == tag).map(|(_, value)| *value)
    }

    /// The largest used offset into the string table.
    fn last_name(&self) -> u64 {
        let filters = self.filters.iter().map(|(offset, _)| offset);
        let one = [&self.soname, &self.rpath, &self.runpath].into_iter().flatten();
        self.needed
            .iter()
            .chain(filters)
            .chain(one)
            .copied()
            .max()
            .unwrap_or_default()
    }

    pub(crate) fn range(&self, table: DynamicTable) -> Option<ElfRange> {
        self.tables
            .iter()
            .find(|(kind, _)| *kind == table)
            .map(|(_, range)| *range)
    }

    /// The tables required for facts.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = ElfRange> {
        let tables = self.tables.iter().filter(|(table, _)| !table.is_checked());
        tables.map(|(_, range)| *range)
    }

    /// The tables that are only checked for presence, or whose beginning suffices.
    pub(crate) fn checked_ranges(&self) -> impl Iterator<Item = ElfRange> {
        let tables = self.tables.iter().filter(|(table, _)| table.is_checked());
        tables.map(|(_, range)| *range)
    }
}

/// The size of a program header.
pub(super) fn segment_size(class: Class) -> usize {
    match class {
        Class::ELF32 => 32,
        Class::ELF64 => 56,
    }
}

/// The bytes up to the first NUL.
pub(super) fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// Reads the dynamic section up to `DT_NULL` and maps the addresses in it to the file.
pub(super) fn read_dynamic(encoding: ElfEncoding, bytes: &[u8], space: &AddressSpace) -> DynamicSection {
    let table = ParsingTable::<AnyEndian, Dyn>::new(encoding.endian, encoding.class, bytes);
    let mut dynamic = DynamicSection::default();
    for entry in table.iter().take(DYNAMIC_ENTRIES) {
        let value = entry.d_val();
        match entry.d_tag {
            abi::DT_NULL => break,
            abi::DT_NEEDED => dynamic.needed.push(value),
            DT_AUXILIARY => dynamic.filters.push((value, FilterKind::Auxiliary)),
            DT_FILTER => dynamic.filters.push((value, FilterKind::Standard)),
            tag if ADDRESSES.contains(&tag) || FOLLOWED.contains(&tag) => {
                // Keep one entry per tag. Otherwise a section full of duplicates would be searched again and again.
                dynamic.values.retain(|(known, _)| *known != tag);
                dynamic.values.push((tag, value));
            }
            _ => {}
        }
    }
    dynamic.soname = dynamic.value(abi::DT_SONAME);
    dynamic.rpath = dynamic.value(abi::DT_RPATH);
    dynamic.runpath = dynamic.value(abi::DT_RUNPATH);
    dynamic.flags_1 = dynamic.value(abi::DT_FLAGS_1).unwrap_or_default();
    place_tables(&mut dynamic, space);
    dynamic
}

/// Computes the file ranges of the tables.
fn place_tables(dynamic: &mut DynamicSection, space: &AddressSpace) {
    let bounds: Vec<u64> = ADDRESSES.iter().filter_map(|&tag| dynamic.value(tag)).collect();
    for (table, tag) in TABLES {
        let Some(address) = dynamic.value(tag) else { continue };
        if dynamic.range(table).is_some() {
            continue;
        }
        let distances = bounds.iter().filter_map(|bound| bound.checked_sub(address));
        let next = distances.filter(|&distance| distance > 0).min();
        let bytes = match table {
            // The loader does not use DT_STRSZ. If it is too small for a name, the next table ends this one.
            DynamicTable::Strings => dynamic
                .value(abi::DT_STRSZ)
                .filter(|bytes| *bytes > dynamic.last_name())
                .or(next),
            DynamicTable::Hash => next.map(|next| next.min(LOOKED_AT)),
            DynamicTable::Relocations => dynamic.value(abi::DT_RELASZ).map(|bytes| bytes.min(LOOKED_AT)),
            DynamicTable::FunctionRelocations => dynamic.value(abi::DT_PLTRELSZ).map(|bytes| bytes.min(LOOKED_AT)),
            _ => next,
        };
        if let Some((offset, rest)) = space.file_place(address) {
            let what = table.what();
            // A table never extends past its segment, whatever size the file claims.
            let bytes = bytes.unwrap_or(rest).min(rest);
            dynamic.tables.push((table, ElfRange { what, offset, bytes }));
        }
    }
}

/// The tables and their tags. For a table with two tags, the loader's preferred one is first.
const TABLES: [(DynamicTable, i64); 9] = [
    (DynamicTable::Strings, abi::DT_STRTAB),
    (DynamicTable::Symbols, abi::DT_SYMTAB),
    (DynamicTable::VersionIndexes, abi::DT_VERSYM),
    (DynamicTable::VersionNeeds, abi::DT_VERNEED),
    (DynamicTable::VersionDefinitions, abi::DT_VERDEF),
    (DynamicTable::Hash, abi::DT_GNU_HASH),
    (DynamicTable::Hash, abi::DT_HASH),
    (DynamicTable::Relocations, abi::DT_RELA),
    (DynamicTable::FunctionRelocations, abi::DT_JMPREL),
];
/// The tags that hold table addresses.
const ADDRESSES: [i64; 11] = [
    abi::DT_STRTAB,
    abi::DT_SYMTAB,
    abi::DT_VERSYM,
    abi::DT_VERNEED,
    abi::DT_VERDEF,
    abi::DT_HASH,
    abi::DT_GNU_HASH,
    abi::DT_RELA,
    abi::DT_REL,
    abi::DT_JMPREL,
    DT_RELR,
];
/// The other tags that are evaluated and may occur once.
const FOLLOWED: [i64; 24] = [
    abi::DT_SONAME,
    abi::DT_RPATH,
    abi::DT_RUNPATH,
    abi::DT_FLAGS_1,
    abi::DT_STRSZ,
    abi::DT_RELASZ,
    abi::DT_RELAENT,
    abi::DT_RELACOUNT,
    abi::DT_RELSZ,
    abi::DT_RELENT,
    DT_RELRSZ,
    abi::DT_PLTREL,
    abi::DT_PLTRELSZ,
    abi::DT_PLTGOT,
    abi::DT_INIT,
    abi::DT_FINI,
    abi::DT_INIT_ARRAY,
    abi::DT_INIT_ARRAYSZ,
    abi::DT_FINI_ARRAY,
    abi::DT_FINI_ARRAYSZ,
    abi::DT_PREINIT_ARRAY,
    abi::DT_PREINIT_ARRAYSZ,
    abi::DT_TEXTREL,
    abi::DT_FLAGS,
];

// Tags missing from the `elf` crate (glibc elf/elf.h).
pub(super) const DT_RELRSZ: i64 = 35;
pub(super) const DT_RELR: i64 = 36;
const DT_AUXILIARY: i64 = 0x7fff_fffd;
const DT_FILTER: i64 = 0x7fff_ffff;
/// The maximum bytes read of tables whose content is not needed in full.
pub(super) const LOOKED_AT: u64 = 1 << 20;

/// Reads the names and flags of the dynamic section.
pub(super) fn read_strings(dynamic: &DynamicSection, names: &mut StringTable<'_>, facts: &mut ElfFacts) {
    let mut lost = false;
    let mut read = |offset: u64| {
        let found = names.string(offset);
        lost |= found.is_none();
        found
    };
    facts.soname = dynamic.soname.and_then(&mut read);
    facts.rpath = dynamic.rpath.and_then(&mut read);
    facts.runpath = dynamic.runpath.and_then(&mut read);
    facts.needed = dynamic.needed.iter().copied().filter_map(&mut read).collect();
    facts.filters = dynamic
        .filters
        .iter()
        .filter_map(|&(offset, kind)| Some((read(offset)?, kind)))
        .collect();
    facts.flags_1 = dynamic.flags_1;
    if lost {
        facts.problems.push(ElfProblem::Malformed {
            what: "dynamic string table",
        });
    }
}

/// Reads the requested dynamic symbols, sorted and without duplicates. `pieces` is the symbol table, split between
/// symbols.
pub(super) fn read_symbols<'a>(
    encoding: ElfEncoding,
    get: impl Fn(DynamicTable) -> Cow<'a, [u8]>,
    pieces: impl Iterator<Item = Cow<'a, [u8]>>,
    interest: &NameMatcher,
    names: &mut StringTable<'_>,
    facts: &mut ElfFacts,
) {
    let ElfEncoding { endian, class } = encoding;
    let index_bytes = get(DynamicTable::VersionIndexes);
    let indexes = ParsingTable::<AnyEndian, VersionIndex>::new(endian, class, &index_bytes);
    let versions = symbol_versions::version_names(encoding, &get, names);
    // Compare name offsets, so that a symbol costs one lookup and its name is never read.
    let wanted = names.beginning_with(interest);
    let mut symbols: Vec<DynamicSymbol> = pieces
        .flat_map(|piece| {
            let table = ParsingTable::<AnyEndian, RawSymbol>::new(endian, class, &piece);
            table.iter().collect::<Vec<_>>()
        })
        .enumerate()
        .filter_map(|(at, symbol)| {
            let name = wanted.get(&u64::from(symbol.st_name))?.clone();
            let index = indexes.get(at).ok().map(|index| index.index());
            // Index 0 is local and 1 global without a version, even if a version is defined with that number.
            let mut versions = versions.iter().filter(|(number, _)| *number > abi::VER_NDX_GLOBAL);
            let version = versions.find(|(number, _)| Some(*number) == index);
            Some(DynamicSymbol {
                name,
                version: version.map(|(_, name)| name.clone()),
                role: role(&symbol),
            })
        })
        .take(SYMBOLS)
        .collect();
    // Only an upper limit of the table's size is known, so reading past its end may repeat a symbol.
    symbols.sort();
    symbols.dedup();
    facts.symbols = symbols;
}

fn role(symbol: &RawSymbol) -> SymbolRole {
    match (symbol.is_undefined(), symbol.st_bind()) {
        (true, abi::STB_WEAK) => SymbolRole::WeakImport,
        (true, _) => SymbolRole::Import,
        (false, _) => SymbolRole::Export,
    }
}

/// `GNU_PROPERTY_X86_ISA_1_NEEDED` (Linux Extensions to gABI); missing from the `elf` crate.
const ISA_NEEDED: u32 = 0xc000_8002;
/// The type of a `.note.dlopen` (UAPI group, "ELF dlopen metadata").
const DLOPEN_NOTE: u64 = 0x407c_0c0a;
/// The maximum dlopen notes of one object, and their maximum total bytes.
const DLOPEN_NOTES: (usize, usize) = (256, 64 << 10);

/// Reads the ISA level and the dlopen metadata of a note segment.
pub(super) fn read_notes(
    encoding: ElfEncoding,
    segment: &ProgramHeader,
    bytes: &[u8],
    facts: &mut ElfFacts,
) -> Result<(), ElfProblem> {
    // 64-bit property notes are aligned to eight bytes and say so. All others are aligned to four, in either class.
    let align = if segment.p_align == 8 { 8 } else { 4 };
    for note in NoteIterator::new(encoding.endian, encoding.class, align, bytes) {
        let Note::Unknown(note) = note else { continue };
        match (until_nul(note.name), note.n_type) {
            (b"GNU", abi::NT_GNU_PROPERTY_TYPE_0) => {
                facts.isa_needed |= isa_needed(encoding, note.desc);
            }
            (b"FDO", DLOPEN_NOTE) => keep_note(until_nul(note.desc), &mut facts.dlopen_notes)?,
            _ => {}
        }
    }
    Ok(())
}

/// Keeps a new note. Fails if the limit is reached.
fn keep_note(json: &[u8], kept: &mut Vec<ByteString>) -> Result<(), ElfProblem> {
    // Linkers concatenate the notes of all input files, including duplicates.
    if kept.iter().any(|other| **other == *json) {
        return Ok(());
    }
    let (count, limit) = DLOPEN_NOTES;
    let bytes = kept.iter().map(|json| json.len()).sum::<usize>() + json.len();
    if kept.len() >= count || bytes > limit {
        return Err(ElfProblem::TooLarge {
            what: "the dlopen metadata",
            bytes: bytes as u64,
            limit: limit as u64,
        });
    }
    kept.push(json.into());
    Ok(())
}

/// The ISA levels of a property note: type, size and data, padded to the word size (Linux Extensions to gABI, "Program
/// Property").
fn isa_needed(encoding: ElfEncoding, desc: &[u8]) -> u32 {
    let word = match encoding.class {
        Class::ELF32 => 4,
        Class::ELF64 => 8,
    };
    let mut at = 0;
    let mut levels = 0;
    while let (Ok(kind), Ok(size)) = (
        encoding.endian.parse_u32_at(&mut at, desc),
        encoding.endian.parse_u32_at(&mut at, desc),
    ) {
        let mut value_at = at;
        if kind == ISA_NEEDED && size == 4 {
            levels |= encoding.endian.parse_u32_at(&mut value_at, desc).unwrap_or_default();
        }
        at = at.saturating_add(size as usize).next_multiple_of(word);
    }
    levels
}
