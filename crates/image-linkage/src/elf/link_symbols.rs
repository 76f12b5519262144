//! What an object has for the others of its process, and what it wants of them: names by their hashes, of which an image
//! may have millions.

use std::borrow::Cow;

use elf::abi;
use elf::endian::{AnyEndian, EndianParse as _};
use elf::parse::ParsingTable;
use elf::symbol::Symbol;
use serde::{Deserialize, Serialize};

use super::content_check::gnu_hash;
use super::range::ElfEncoding;
use super::tables::{DynamicSection, DynamicTable, until_nul};

/// The symbols of one object.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LinkSymbols {
    /// The hashes of what it defines for others, sorted.
    exports: Box<[u32]>,
    /// Those of what it cannot do without, sorted.
    imports: Box<[u32]>,
    /// Whether all of them are bound when it is mapped: `DF_BIND_NOW`, `DF_1_NOW`.
    pub binds_now: bool,
}

/// The bytes of the symbols and of their names beyond which they are not looked at. libstdc++ has half a megabyte.
const TABLES: u64 = 1 << 20;

impl LinkSymbols {
    /// Reads both tables; nothing where one is large, or not held to its end.
    pub(super) fn read<'a>(
        encoding: ElfEncoding,
        dynamic: &DynamicSection,
        get: impl Fn(DynamicTable) -> Cow<'a, [u8]>,
    ) -> Option<Self> {
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
            match symbol.is_undefined() {
                false => exports.push(gnu_hash(name)),
                true if at < undefined && symbol.st_bind() == abi::STB_GLOBAL => imports.push(gnu_hash(name)),
                true => {}
            }
        }
        let sorted = |mut hashes: Vec<u32>| {
            hashes.sort_unstable();
            hashes.dedup();
            hashes.into_boxed_slice()
        };
        let flags = dynamic.value(abi::DT_FLAGS).unwrap_or_default() & abi::DF_BIND_NOW.cast_unsigned();
        Some(Self {
            exports: sorted(exports),
            imports: sorted(imports),
            binds_now: flags != 0 || dynamic.flags_1 & abi::DF_1_NOW.cast_unsigned() != 0,
        })
    }

    /// Whether it defines this name for others.
    pub fn defines(&self, name: &[u8]) -> bool {
        self.exports.binary_search(&gnu_hash(name)).is_ok()
    }

    /// Whether it cannot do without a definition of this name.
    pub fn imports(&self, name: &[u8]) -> bool {
        self.imports.binary_search(&gnu_hash(name)).is_ok()
    }

    /// How many of its imports none of these objects has.
    pub(crate) fn count_unbound<'s>(&self, all: &(impl Iterator<Item = &'s Self> + Clone)) -> usize {
        let is_nowhere = |name: &&u32| !all.clone().any(|other| other.exports.binary_search(name).is_ok());
        self.imports.iter().filter(is_nowhere).count()
    }

    /// The bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.exports) + size_of_val(&*self.imports)
    }
}
