//! Reads the exported and imported symbols of an object.

use std::borrow::Cow;
use std::collections::BTreeMap;

use elf::abi;
use elf::endian::{AnyEndian, EndianParse as _};
use elf::file::Class;
use elf::gnu_symver::VersionIndex;
use elf::parse::ParsingTable;
use elf::relocation::Rela;
use elf::symbol::Symbol;

use super::facts::ByteString;
use super::link_symbols::{LinkSymbols, SymbolKey, gnu_hash};
use super::range::ElfEncoding;
use super::tables::{DynamicSection, DynamicTable, until_nul};

/// The maximum bytes of the symbol table and of its names. `libtorch_cuda` has the most: 11 MB of names.
const TABLES: u64 = 16 << 20;

/// Reads the tables; `None` if one is too large or incomplete. `versions` maps version indexes to names.
pub(super) fn read_link_symbols<'a>(
    encoding: ElfEncoding,
    dynamic: &DynamicSection,
    versions: &[(u16, ByteString)],
    get: impl Fn(DynamicTable) -> Cow<'a, [u8]>,
) -> Option<LinkSymbols> {
    let whole = |table| {
        let range = dynamic.range(table).filter(|range| range.bytes <= TABLES)?;
        Some(get(table)).filter(|bytes| bytes.len() as u64 == range.bytes)
    };
    let (bytes, strings) = (whole(DynamicTable::Symbols)?, whole(DynamicTable::Strings)?);
    let symbols = ParsingTable::<AnyEndian, Symbol>::new(encoding.endian, encoding.class, &bytes);
    let index_bytes = get(DynamicTable::VersionIndexes);
    let indexes = ParsingTable::<AnyEndian, VersionIndex>::new(encoding.endian, encoding.class, &index_bytes);
    let versions: BTreeMap<u16, u32> = versions.iter().map(|(index, name)| (*index, gnu_hash(name))).collect();
    let name_of = |symbol: &Symbol| Some(until_nul(strings.get(usize::try_from(symbol.st_name).ok()?..)?));
    let key = |at: usize, name: &[u8], is_definition: bool| {
        let index = indexes.get(at).ok();
        // Index 0 is local and 1 global without a version, even if a version is defined with that number.
        let version = index
            .as_ref()
            .map(VersionIndex::index)
            .filter(|index| *index > abi::VER_NDX_GLOBAL)
            .and_then(|index| versions.get(&index).copied());
        SymbolKey::new(
            name,
            version,
            is_definition && index.is_some_and(|index| index.is_hidden()),
        )
    };
    let hash = get(DynamicTable::Hash);
    encoding.endian.parse_u32_at(&mut 4, &hash).ok()?;
    let mut exports = Vec::new();
    let mut left = TABLES;
    for (at, symbol) in symbols.iter().enumerate() {
        let name = name_of(&symbol).unwrap_or_default();
        // Names may share their ends, so their total can exceed the table.
        left = left.checked_sub(name.len() as u64)?;
        if !name.is_empty() && symbol.st_bind() != abi::STB_LOCAL && !symbol.is_undefined() {
            exports.push(key(at, name, true));
        }
    }
    let wanted = |(at, kind): (usize, u32)| {
        let symbol = symbols
            .get(at)
            .ok()
            .filter(|symbol| symbol.st_bind() == abi::STB_GLOBAL)?;
        // A copy relocation reserves space in the program, but the symbol must still exist in a library.
        let is_wanted = symbol.is_undefined() || [abi::R_X86_64_COPY, abi::R_AARCH64_COPY].contains(&kind);
        name_of(&symbol)
            .filter(|name| is_wanted && !name.is_empty())
            .map(|name| key(at, name, false))
    };
    let (at_load, at_call) = asked_symbols(encoding, dynamic, &get)?;
    let flags = dynamic.value(abi::DT_FLAGS).unwrap_or_default() & abi::DF_BIND_NOW.cast_unsigned();
    let binds_now =
        flags != 0 || dynamic.flags_1 & abi::DF_1_NOW.cast_unsigned() != 0 || dynamic.value(abi::DT_BIND_NOW).is_some();
    Some(LinkSymbols::new(
        exports,
        at_load.into_iter().filter_map(wanted).collect(),
        at_call.into_iter().filter_map(wanted).collect(),
        binds_now,
    ))
}

/// Symbol indexes, each with the type of the relocation that refers to it.
type AskedSymbols = Vec<(usize, u32)>;

/// The symbols that relocations refer to: first those bound before any code runs, then those of `DT_JMPREL`, which may
/// be bound at the first call (glibc elf/dynamic-link.h, `_ELF_DYNAMIC_DO_RELOC`). Of a long table of the first kind,
/// only the beginning is known. `None` if the second table is incomplete.
fn asked_symbols<'a>(
    encoding: ElfEncoding,
    dynamic: &DynamicSection,
    get: &impl Fn(DynamicTable) -> Cow<'a, [u8]>,
) -> Option<(AskedSymbols, AskedSymbols)> {
    // 32-bit processors use REL tables, which are not read.
    if encoding.class == Class::ELF32 {
        return Some((Vec::new(), Vec::new()));
    }
    let read = |table: DynamicTable| {
        let bytes = get(table);
        let table = ParsingTable::<AnyEndian, Rela>::new(encoding.endian, encoding.class, &bytes);
        let named = table.iter().filter(|rela| rela.r_sym > 0);
        named
            .map(|rela| (rela.r_sym as usize, rela.r_type))
            .collect::<AskedSymbols>()
    };
    let functions = dynamic.value(abi::DT_PLTRELSZ).unwrap_or_default();
    let is_held = get(DynamicTable::FunctionRelocations).len() as u64 >= functions;
    let mut at_load = read(DynamicTable::Relocations);
    at_load.retain(|(_, kind)| ![abi::R_X86_64_JUMP_SLOT, abi::R_AARCH64_JUMP_SLOT].contains(kind));
    // Vtables refer to the same symbol many times.
    at_load.sort_unstable();
    at_load.dedup();
    is_held.then(|| (at_load, read(DynamicTable::FunctionRelocations)))
}
