//! Reads the tables of an object from the bytes that were held of them.

use std::borrow::Cow;

use elf::abi;
use elf::dynamic::Dyn;
use elf::endian::{AnyEndian, EndianParse};
use elf::file::Class;
use elf::gnu_symver::{VerDefIterator, VerNeedIterator, VersionIndex};
use elf::note::{Note, NoteIterator};
use elf::parse::ParsingTable;
use elf::segment::ProgramHeader;
use elf::symbol::Symbol as RawSymbol;

use super::facts::{
    ByteString, DynamicSymbol, ElfFacts, ElfProblem, FilterKind, NeededVersion, SymbolRole, VersionNeed,
};
use super::mentions::NameMatcher;
use super::range::{ElfEncoding, ElfRange};
use super::string_table::StringTable;

/// The entries of a dynamic section that are read; real objects have some forty.
const DYNAMIC_ENTRIES: usize = 16_384;
/// The version names of one object; libc, which has the most, has some fifty.
const VERSIONS: usize = 8_192;
/// The symbols kept of one object; libcupti exports some 220.
const SYMBOLS: usize = 8_192;

/// A table that the dynamic section points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DynamicTable {
    Strings,
    Symbols,
    VersionIndexes,
    VersionNeeds,
    VersionDefinitions,
}

/// The dynamic section: offsets into the string table, and the places of the tables.
#[derive(Debug, Default)]
pub(super) struct DynamicSection {
    needed: Vec<u64>,
    filters: Vec<(u64, FilterKind)>,
    soname: Option<u64>,
    rpath: Option<u64>,
    runpath: Option<u64>,
    flags_1: u64,
    need_count: u64,
    definition_count: u64,
    tables: Vec<(DynamicTable, ElfRange)>,
}

impl DynamicSection {
    pub(crate) fn range(&self, table: DynamicTable) -> Option<ElfRange> {
        self.tables
            .iter()
            .find(|(kind, _)| *kind == table)
            .map(|(_, range)| *range)
    }

    pub(crate) fn ranges(&self) -> impl Iterator<Item = ElfRange> {
        self.tables.iter().map(|(_, range)| *range)
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
pub(super) fn read_dynamic(encoding: ElfEncoding, bytes: &[u8], segments: &[ProgramHeader]) -> DynamicSection {
    let table = ParsingTable::<AnyEndian, Dyn>::new(encoding.endian, encoding.class, bytes);
    let mut dynamic = DynamicSection::default();
    let mut places = Vec::new();
    let mut bounds = Vec::new();
    let mut string_bytes = None;
    for entry in table
        .iter()
        .take(DYNAMIC_ENTRIES)
        .take_while(|entry| entry.d_tag != abi::DT_NULL)
    {
        // As in ld.so, the last entry of a tag that may stand only once counts (glibc elf/get-dynamic-info.h).
        let value = entry.d_val();
        match entry.d_tag {
            abi::DT_NEEDED => dynamic.needed.push(value),
            DT_AUXILIARY => dynamic.filters.push((value, FilterKind::Auxiliary)),
            DT_FILTER => dynamic.filters.push((value, FilterKind::Standard)),
            abi::DT_SONAME => dynamic.soname = Some(value),
            abi::DT_RPATH => dynamic.rpath = Some(value),
            abi::DT_RUNPATH => dynamic.runpath = Some(value),
            abi::DT_FLAGS_1 => dynamic.flags_1 = value,
            abi::DT_VERNEEDNUM => dynamic.need_count = value,
            abi::DT_VERDEFNUM => dynamic.definition_count = value,
            abi::DT_STRSZ => string_bytes = Some(value),
            abi::DT_STRTAB => places.push((DynamicTable::Strings, value)),
            abi::DT_SYMTAB => places.push((DynamicTable::Symbols, value)),
            abi::DT_VERSYM => places.push((DynamicTable::VersionIndexes, value)),
            abi::DT_VERNEED => places.push((DynamicTable::VersionNeeds, value)),
            abi::DT_VERDEF => places.push((DynamicTable::VersionDefinitions, value)),
            // Not read: they only tell where the table in front of them has to end.
            abi::DT_HASH | abi::DT_GNU_HASH | abi::DT_RELA | abi::DT_REL | abi::DT_JMPREL | DT_RELR => {
                bounds.push(value);
            }
            _ => {}
        }
    }
    bounds.extend(places.iter().map(|(_, address)| *address));
    for (table, address) in places {
        let next = bounds.iter().copied().filter(|&bound| bound > address).min();
        let bytes = match table {
            DynamicTable::Strings => string_bytes,
            _ => next.map(|next| next - address),
        };
        if let Some(range) = place(table, address, bytes, segments) {
            dynamic.tables.push((table, range));
        }
    }
    dynamic
}

// Tags that the `elf` crate does not name (glibc elf/elf.h).
const DT_RELR: i64 = 36;
const DT_AUXILIARY: i64 = 0x7fff_fffd;
const DT_FILTER: i64 = 0x7fff_ffff;

/// The part of the file that is mapped at `address`: `bytes` long, or to the end of its segment. An object
/// has no size for its symbol table but through its hash table; the next table bounds it from above.
fn place(table: DynamicTable, address: u64, bytes: Option<u64>, segments: &[ProgramHeader]) -> Option<ElfRange> {
    let segment = segments.iter().find(|segment| {
        segment.p_type == abi::PT_LOAD && address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz
    })?;
    let into = address - segment.p_vaddr;
    let rest = segment.p_filesz - into;
    let what = match table {
        DynamicTable::Strings => "the dynamic string table",
        DynamicTable::Symbols => "the dynamic symbol table",
        DynamicTable::VersionIndexes => "the symbol version table",
        DynamicTable::VersionNeeds => "the table of needed versions",
        DynamicTable::VersionDefinitions => "the table of defined versions",
    };
    Some(ElfRange {
        what,
        offset: segment.p_offset.checked_add(into)?,
        // Whatever size the file gives, behind its segment there are other bytes, or none.
        bytes: bytes.unwrap_or(rest).min(rest),
    })
}

/// The names and flags of the dynamic section.
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

/// The needed and the defined versions.
pub(super) fn read_versions<'a>(
    encoding: ElfEncoding,
    dynamic: &DynamicSection,
    get: impl Fn(DynamicTable) -> Cow<'a, [u8]>,
    names: &mut StringTable<'_>,
    facts: &mut ElfFacts,
) {
    let ElfEncoding { endian, class } = encoding;
    // The loader follows the chain of a table to its end; the counts of `DT_VERNEEDNUM` are nothing to it
    // (glibc elf/dl-version.c, `_dl_check_map_versions`).
    let mut budget = VERSIONS;
    let limit = VERSIONS as u64;
    let (needs, definitions) = (get(DynamicTable::VersionNeeds), get(DynamicTable::VersionDefinitions));
    for (need, versions) in VerNeedIterator::new(endian, class, limit, 0, &needs) {
        let Some(file) = names.string(u64::from(need.vn_file)) else {
            continue;
        };
        let versions: Vec<_> = versions
            .take(budget)
            .filter_map(|version| {
                let weak = version.vna_flags & abi::VER_FLG_WEAK != 0;
                Some(NeededVersion {
                    name: names.string(u64::from(version.vna_name))?,
                    weak,
                })
            })
            .collect();
        // A file counts as well: a chain of files without versions is as long to read.
        budget = budget.saturating_sub(versions.len() + 1);
        facts.verneed.push(VersionNeed { file, versions });
        if budget == 0 {
            break;
        }
    }
    // Of the names of a definition the first is its own; the others are versions that it descends from.
    for (_, mut defined) in VerDefIterator::new(endian, class, limit, 0, &definitions).take(budget) {
        facts
            .verdef
            .extend(defined.next().and_then(|name| names.string(u64::from(name.vda_name))));
    }
    let found = (facts.verneed.len() as u64, facts.verdef.len() as u64);
    if found < (dynamic.need_count, dynamic.definition_count) {
        facts.problems.push(ElfProblem::Malformed {
            what: "table of symbol versions",
        });
    }
}

/// The dynamic symbols that were asked for, sorted, each once.
pub(super) fn read_symbols<'a>(
    encoding: ElfEncoding,
    get: impl Fn(DynamicTable) -> Cow<'a, [u8]>,
    interest: &NameMatcher,
    names: &mut StringTable<'_>,
    facts: &mut ElfFacts,
) {
    let ElfEncoding { endian, class } = encoding;
    let (indexes, symbols) = (get(DynamicTable::VersionIndexes), get(DynamicTable::Symbols));
    let indexes = ParsingTable::<AnyEndian, VersionIndex>::new(endian, class, &indexes);
    let versions = version_names(encoding, &get, names);
    // By offset: a symbol then costs one look-up of a number, and its name is never read.
    let wanted = names.beginning_with(interest);
    let table = ParsingTable::<AnyEndian, RawSymbol>::new(endian, class, &symbols);
    let mut symbols: Vec<DynamicSymbol> = table
        .iter()
        .enumerate()
        .filter_map(|(at, symbol)| {
            let name = wanted.get(&u64::from(symbol.st_name))?.clone();
            // 0 is local and 1 global without a version, whatever is defined under that number.
            let index = indexes.get(at).ok().map(|index| index.index());
            let index = index.filter(|&index| index > abi::VER_NDX_GLOBAL);
            let version = versions.iter().find(|(number, _)| Some(*number) == index);
            Some(DynamicSymbol {
                name,
                version: version.map(|(_, name)| name.clone()),
                role: role(&symbol),
            })
        })
        .take(SYMBOLS)
        .collect();
    // The table may be read past its end, where its size is only bounded from above, and names a symbol again.
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

/// The names behind the version indexes of symbols: needed versions by `vna_other`, defined by `vd_ndx`.
fn version_names<'a>(
    encoding: ElfEncoding,
    get: &impl Fn(DynamicTable) -> Cow<'a, [u8]>,
    names: &mut StringTable<'_>,
) -> Vec<(u16, ByteString)> {
    let ElfEncoding { endian, class } = encoding;
    let limit = VERSIONS as u64;
    let (needs, definitions) = (get(DynamicTable::VersionNeeds), get(DynamicTable::VersionDefinitions));
    // The highest bit of an index says that a version is hidden; it is no part of the number.
    let needed = VerNeedIterator::new(endian, class, limit, 0, &needs)
        .flat_map(|(_, versions)| versions.map(|version| (version.vna_other & 0x7fff, version.vna_name)));
    let defined = VerDefIterator::new(endian, class, limit, 0, &definitions)
        .filter_map(|(definition, mut names)| Some((definition.vd_ndx & 0x7fff, names.next()?.vda_name)));
    needed
        .chain(defined)
        .take(VERSIONS)
        .filter_map(|(index, name)| Some((index, names.string(u64::from(name))?)))
        .collect()
}

/// `GNU_PROPERTY_X86_ISA_1_NEEDED` (Linux Extensions to gABI), which the `elf` crate does not name.
const ISA_NEEDED: u32 = 0xc000_8002;
/// The type of a `.note.dlopen` (UAPI group, "ELF dlopen metadata").
const DLOPEN_NOTE: u64 = 0x407c_0c0a;
/// The dlopen notes kept of one object, and the bytes of all of them.
const DLOPEN_NOTES: (usize, usize) = (256, 64 << 10);

/// The ISA level and the dlopen metadata of a note segment.
pub(super) fn read_notes(
    encoding: ElfEncoding,
    segment: &ProgramHeader,
    bytes: &[u8],
    facts: &mut ElfFacts,
) -> Result<(), ElfProblem> {
    // 64-bit property notes are padded to eight bytes and say so; all others to four, whatever the word size.
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

/// Keeps a note that is not kept yet; a problem where there is no more room.
fn keep_note(json: &[u8], kept: &mut Vec<ByteString>) -> Result<(), ElfProblem> {
    // Linkers put the notes of all input files behind each other, equal ones too.
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

/// The ISA levels of a property note: entries of type, size and data, padded to the word size (Linux
/// Extensions to gABI, "Program Property").
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
