//! Reads the symbols of an object that concern the others of its process.

use std::borrow::Cow;

use elf::abi;
use elf::endian::{AnyEndian, EndianParse as _};
use elf::parse::ParsingTable;
use elf::symbol::Symbol;

use super::link_symbols::LinkSymbols;
use super::range::ElfEncoding;
use super::symbol_hash::gnu_hash;
use super::tables::{DynamicSection, DynamicTable, until_nul};

/// The bytes of the symbols and of their names beyond which they are not looked at. libstdc++ has half a megabyte.
const TABLES: u64 = 1 << 20;

/// Reads both tables; nothing where one is large, or not held to its end.
pub(super) fn read_link_symbols<'a>(
    encoding: ElfEncoding,
    dynamic: &DynamicSection,
    get: impl Fn(DynamicTable) -> Cow<'a, [u8]>,
) -> Option<LinkSymbols> {
    let whole = |table| {
        let range = dynamic.range(table).filter(|range| range.bytes <= TABLES)?;
        Some(get(table)).filter(|bytes| bytes.len() as u64 == range.bytes)
    };
    let (symbols, strings) = (whole(DynamicTable::Symbols)?, whole(DynamicTable::Strings)?);
    let hash = get(DynamicTable::Hash);
    let second = encoding.endian.parse_u32_at(&mut 4, &hash).ok()?;
    // What is not defined stands before the first symbol of the one table, and among all of the other.
    let undefined = usize::try_from(second).ok()?;
    let table = ParsingTable::<AnyEndian, Symbol>::new(encoding.endian, encoding.class, &symbols);
    let (mut exports, mut imports) = (Vec::new(), Vec::new());
    let mut left = TABLES;
    for (at, symbol) in table.iter().enumerate() {
        let name = until_nul(strings.get(usize::try_from(symbol.st_name).ok()?..).unwrap_or_default());
        // Names may end one another, so that their sum is larger than the table.
        left = left.checked_sub(name.len() as u64)?;
        if name.is_empty() || symbol.st_bind() == abi::STB_LOCAL {
            continue;
        }
        if !symbol.is_undefined() {
            exports.push(gnu_hash(name));
        } else if at < undefined && symbol.st_bind() == abi::STB_GLOBAL {
            imports.push(gnu_hash(name));
        }
    }
    let flags = dynamic.value(abi::DT_FLAGS).unwrap_or_default() & abi::DF_BIND_NOW.cast_unsigned();
    let binds_now = flags != 0 || dynamic.flags_1 & abi::DF_1_NOW.cast_unsigned() != 0;
    Some(LinkSymbols::new(exports, imports, binds_now))
}
