//! Reads the symbols of an object that concern the others of its process.

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
use super::link_symbols::{LinkSymbols, SymbolKey};
use super::range::ElfEncoding;
use super::symbol_hash::gnu_hash;
use super::tables::{DynamicSection, DynamicTable, until_nul};

/// The bytes of the symbols and of their names beyond which they are not looked at. libtorch_cuda, which has the most, has
/// 11 MB of names.
const TABLES: u64 = 16 << 20;

/// Reads the tables; nothing where one is large, or not held to its end. `versions` are the names behind the indexes of
/// versions.
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
    let indexes = get(DynamicTable::VersionIndexes);
    let indexes = ParsingTable::<AnyEndian, VersionIndex>::new(encoding.endian, encoding.class, &indexes);
    let versions: BTreeMap<u16, u32> = versions.iter().map(|(index, name)| (*index, gnu_hash(name))).collect();
    let name_of = |symbol: &Symbol| Some(until_nul(strings.get(usize::try_from(symbol.st_name).ok()?..)?));
    let key = |at: usize, name: &[u8], is_definition: bool| {
        let index = indexes.get(at).ok();
        // 0 and 1 stand for no version, and 1 for the base, whatever its name is.
        let version = index
            .as_ref()
            .map(VersionIndex::index)
            .filter(|index| *index > abi::VER_NDX_GLOBAL);
        let version = version.and_then(|index| versions.get(&index).copied());
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
        // Names may end one another, so that their sum is larger than the table.
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
        // What is copied from a library has its place in the program, and has to be there for all that.
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

/// Symbols by their numbers, each with the type of a relocation that asks for it.
type AskedSymbols = Vec<(usize, u32)>;

/// The symbols that relocations ask for, before any code runs and at the first call of a function: those of `DT_JMPREL`
/// (glibc elf/dynamic-link.h, `_ELF_DYNAMIC_DO_RELOC`). Of the former only the beginning is known of a long table; `None`
/// where the latter are not all held.
fn asked_symbols<'a>(
    encoding: ElfEncoding,
    dynamic: &DynamicSection,
    get: &impl Fn(DynamicTable) -> Cow<'a, [u8]>,
) -> Option<(AskedSymbols, AskedSymbols)> {
    // The 32-bit processors have other ones, which are not read.
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
    let is_call = |(_, kind): &(usize, u32)| [abi::R_X86_64_JUMP_SLOT, abi::R_AARCH64_JUMP_SLOT].contains(kind);
    let mut at_load = read(DynamicTable::Relocations);
    at_load.retain(|asked| !is_call(asked));
    // A vtable asks for one symbol many times.
    at_load.sort_unstable();
    at_load.dedup();
    is_held.then(|| (at_load, read(DynamicTable::FunctionRelocations)))
}
