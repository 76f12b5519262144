//! Whether the tables of an object hold what they should where the dynamic section says that they lie. A table that is
//! read at a wrong place leads the loader astray, and nothing but what stands in it tells.

use std::collections::{BTreeMap, BTreeSet};

use elf::abi;
use elf::endian::{AnyEndian, EndianParse as _};
use elf::file::Class;
use elf::parse::ParsingTable;
use elf::relocation::Rela;
use elf::symbol::Symbol;

use super::address_space::{AddressSpace, MemoryUse};
use super::load_fault::LoadFault;
use super::range::ElfEncoding;
use super::string_table::StringTable;
use super::symbol_hash::gnu_hash;
use super::symbol_versions::elf_hash;
use super::tables::{DynamicSection, DynamicTable};

/// The tables of one object, as far as they are held.
pub(super) struct HeldTables<'t> {
    pub encoding: ElfEncoding,
    pub machine: u16,
    /// Whether the object moves, so that relocations put every address into its place.
    pub moves: bool,
    pub dynamic: &'t DynamicSection,
    pub space: &'t AddressSpace,
    pub get: &'t dyn Fn(DynamicTable) -> Vec<u8>,
    /// The first bytes at a place of the file, as far as they are held.
    pub code: &'t dyn Fn(u64) -> Vec<u8>,
    /// The end of the headers, in which no code can be.
    pub headers: u64,
}

/// What leads nowhere where a function does that runs when the object is loaded.
const FUNCTION: LoadFault = LoadFault::Wild("a function that runs at load");
/// The bytes of a function that are looked at.
pub(super) const INSTRUCTION: usize = 4;

/// The symbols whose version is looked at.
const SYMBOLS: usize = 4096;

impl HeldTables<'_> {
    /// The bytes of a table; `None` where it is not held to its end.
    fn whole(&self, table: DynamicTable) -> Option<Vec<u8>> {
        let range = self.dynamic.range(table)?;
        let bytes = (self.get)(table);
        (bytes.len() as u64 >= range.bytes).then_some(bytes)
    }

    /// What is wrong; `versions` are the indexes of versions that the object defines or needs, where they are known.
    pub(crate) fn faults(&self, names: &mut StringTable<'_>, versions: Option<&BTreeSet<u16>>) -> Vec<LoadFault> {
        let wild = |table: DynamicTable| LoadFault::Wild(table.what());
        let mut faults = Vec::new();
        // The first string of every table is the empty one (gABI, "String Table").
        let begins = names.string(0).is_none_or(|first| first.is_empty());
        faults.extend((!begins).then_some(wild(DynamicTable::Strings)));
        faults.extend((!self.symbols_begin()).then_some(wild(DynamicTable::Symbols)));
        faults.extend((!self.hash_finds(names)).then_some(wild(DynamicTable::Hash)));
        let leads = versions.is_none_or(|versions| self.indexes_lead(versions));
        faults.extend((!leads).then_some(wild(DynamicTable::VersionIndexes)));
        faults.extend(self.relocation_fault());
        let one = [abi::DT_INIT, abi::DT_FINI].map(|tag| self.dynamic.value(tag));
        let is_wild = one.into_iter().flatten().any(|address| !self.may_run(address));
        faults.extend(is_wild.then_some(FUNCTION));
        faults
    }

    /// Whether the first symbol is the empty one (gABI, "Symbol Table").
    fn symbols_begin(&self) -> bool {
        let (size, word) = match self.encoding.class {
            Class::ELF32 => (16, 4),
            Class::ELF64 => (24, 8),
        };
        let bytes = self
            .dynamic
            .range(DynamicTable::Symbols)
            .map(|_| (self.get)(DynamicTable::Symbols));
        let first = bytes.as_deref().and_then(|bytes| bytes.get(..size));
        let is_aligned = self
            .dynamic
            .value(abi::DT_SYMTAB)
            .is_none_or(|address| address % word == 0);
        is_aligned && first.is_none_or(|first| first.iter().all(|byte| *byte == 0))
    }

    /// Whether the hash table finds the first symbol that is in it.
    fn hash_finds(&self, names: &mut StringTable<'_>) -> bool {
        let (Some(hash), Some(symbols)) = (self.whole(DynamicTable::Hash), self.whole(DynamicTable::Symbols)) else {
            return true;
        };
        if !names.is_whole() {
            return true;
        }
        let ElfEncoding { endian, class } = self.encoding;
        let word = |at: usize| endian.parse_u32_at(&mut at.clone(), &hash).ok();
        let symbols = ParsingTable::<AnyEndian, Symbol>::new(endian, class, &symbols);
        let mut name_of = |symbol: u32| {
            let symbol = symbols.get(symbol as usize).ok()?;
            names.string(u64::from(symbol.st_name))
        };
        let found = if self.dynamic.value(abi::DT_GNU_HASH).is_some() {
            gnu_hash_finds(class, &word, &mut name_of)
        } else {
            sysv_hash_finds(&word, &mut name_of)
        };
        // A place behind the table is no answer, but where only its beginning is held.
        found.unwrap_or(hash.len() as u64 >= super::tables::LOOKED_AT)
    }

    /// Whether every symbol's index is that of a version which is there. 0 and 1 stand for none.
    fn indexes_lead(&self, versions: &BTreeSet<u16>) -> bool {
        let (Some(indexes), Some(symbols)) = (
            self.whole(DynamicTable::VersionIndexes),
            self.whole(DynamicTable::Symbols),
        ) else {
            return true;
        };
        let endian = self.encoding.endian;
        let size = match self.encoding.class {
            Class::ELF32 => 16,
            Class::ELF64 => 24,
        };
        let count = (symbols.len() / size).min(indexes.len() / 2).min(SYMBOLS);
        let mut at = 0;
        (0..count).all(|nth| {
            let index = endian.parse_u16_at(&mut at, &indexes).unwrap_or_default() & 0x7fff;
            // The first is that of the empty symbol.
            if nth == 0 {
                index == 0
            } else {
                index <= 1 || versions.contains(&index)
            }
        })
    }

    fn relocation_fault(&self) -> Option<LoadFault> {
        // Those of other processors are not known here.
        if self.machine != abi::EM_X86_64 || self.encoding.class != Class::ELF64 {
            return None;
        }
        let ElfEncoding { endian, class } = self.encoding;
        let relative = self.dynamic.value(abi::DT_RELACOUNT).unwrap_or_default();
        let is_closed =
            |rela: &Rela| rela.r_type != abi::R_X86_64_NONE && !self.space.holds(rela.r_offset, 8, MemoryUse::Write);
        let mut functions = BTreeMap::new();
        for table in [DynamicTable::Relocations, DynamicTable::FunctionRelocations] {
            let bytes = self.whole(table).unwrap_or_default();
            let relocations = ParsingTable::<AnyEndian, Rela>::new(endian, class, &bytes);
            for (nth, rela) in relocations.iter().enumerate() {
                // The loader believes the count and asserts it.
                if table == DynamicTable::Relocations
                    && (nth as u64) < relative
                    && rela.r_type != abi::R_X86_64_RELATIVE
                {
                    return Some(LoadFault::Assertion(
                        "ELFW(R_TYPE) (reloc->r_info) == R_X86_64_RELATIVE",
                    ));
                }
                let is_unknown = !RELOCATIONS.contains(&rela.r_type);
                if is_unknown || is_closed(&rela) && !self.dynamic.writes_code() {
                    return Some(LoadFault::Wild(table.what()));
                }
                if is_function(&rela, self.space) {
                    let is_address = rela.r_type == abi::R_X86_64_RELATIVE;
                    functions.insert(
                        rela.r_offset,
                        Some(rela.r_addend.cast_unsigned()).filter(|_| is_address),
                    );
                }
            }
        }
        self.wild_function(&functions)
    }

    /// Whether what lies at an address may be code, as far as it is held: no header, and not zeros, which are an
    /// instruction that writes to where it stands on x86-64, and none on others.
    fn may_run(&self, address: u64) -> bool {
        let Some((place, _)) = self.space.file_place(address) else {
            return true;
        };
        let code = (self.code)(place);
        place >= self.headers && (code.len() < INSTRUCTION || code.iter().any(|byte| *byte != 0))
    }

    /// A function of a list that no relocation puts there, or one without code.
    fn wild_function(&self, functions: &BTreeMap<u64, Option<u64>>) -> Option<LoadFault> {
        let value = |tag| self.dynamic.value(tag);
        // Compact relocations are not read, and of long tables only the beginning is.
        let size = value(abi::DT_RELASZ).unwrap_or_default();
        let held = self.whole(DynamicTable::Relocations).unwrap_or_default();
        let is_whole = held.len() as u64 >= size;
        if !self.moves || !is_whole || value(super::tables::DT_RELR).is_some() || value(abi::DT_REL).is_some() {
            return None;
        }
        let lists = [
            (abi::DT_INIT_ARRAY, abi::DT_INIT_ARRAYSZ),
            (abi::DT_FINI_ARRAY, abi::DT_FINI_ARRAYSZ),
            (abi::DT_PREINIT_ARRAY, abi::DT_PREINIT_ARRAYSZ),
        ];
        let is_wild = |(list, bytes)| {
            let (list, bytes) = (value(list)?, value(bytes)?);
            let mut places = (0..bytes / 8).map(|nth| list.wrapping_add(8 * nth));
            // One that is not there ends it: no size makes this longer than the table of relocations.
            places.find(|place| match functions.get(place) {
                Some(Some(address)) => !self.may_run(*address),
                Some(None) => false,
                None => true,
            })
        };
        let found = lists.into_iter().find_map(is_wild);
        found.map(|_| FUNCTION)
    }
}

/// The relocations that glibc knows (sysdeps/x86_64/dl-machine.h, `elf_machine_rela`).
const RELOCATIONS: [u32; 16] = [0, 1, 2, 5, 6, 7, 8, 10, 16, 17, 18, 32, 33, 36, 37, 38];

/// Whether a relocation puts the address of code into its place, or that of a symbol, which may be one.
fn is_function(rela: &Rela, space: &AddressSpace) -> bool {
    let is_code = || {
        let address = rela.r_addend.cast_unsigned();
        space.file_place(address).is_some() && space.holds(address, 1, MemoryUse::Run)
    };
    match rela.r_type {
        abi::R_X86_64_RELATIVE => is_code(),
        kind => kind == abi::R_X86_64_64,
    }
}

fn gnu_hash_finds(
    class: Class,
    word: &dyn Fn(usize) -> Option<u32>,
    name_of: &mut dyn FnMut(u32) -> Option<Box<[u8]>>,
) -> Option<bool> {
    let (buckets, first, filter, shift) = (word(0)?, word(4)?, word(8)?, word(12)?);
    let (bits, words) = match class {
        Class::ELF32 => (32_u32, 1),
        Class::ELF64 => (64, 2),
    };
    let filter_end = 16 + 4 * words * filter as usize;
    let bucket = |nth: u32| word(filter_end + 4 * nth as usize);
    if buckets == 0 {
        return Some(false);
    }
    // An object without exports has a table of one empty bucket.
    if (0..buckets.min(64)).all(|nth| bucket(nth) == Some(0)) {
        return Some(buckets > 1 || word(filter_end + 4 * (buckets as usize + 2)).is_none());
    }
    let hash = gnu_hash(&name_of(first)?);
    let chain = word(filter_end + 4 * buckets as usize)?;
    let at = (hash / bits) & filter.wrapping_sub(1);
    let bit = |number: u32| {
        let number = number % bits;
        let half = word(16 + 4 * (words * at as usize + number as usize / 32))?;
        Some(half >> (number % 32) & 1 == 1)
    };
    let passes = bit(hash)? && bit(hash.checked_shr(shift)?)?;
    Some(passes && bucket(hash % buckets)? == first && chain | 1 == hash | 1)
}

fn sysv_hash_finds(
    word: &dyn Fn(usize) -> Option<u32>,
    name_of: &mut dyn FnMut(u32) -> Option<Box<[u8]>>,
) -> Option<bool> {
    let buckets = word(0)?;
    let heads = (0..buckets.min(1024)).map(|nth| (nth, word(8 + 4 * nth as usize)));
    let Some((nth, head)) = heads.into_iter().find(|(_, head)| *head != Some(0)) else {
        return Some(true);
    };
    Some(elf_hash(&name_of(head?)?) % buckets == nth)
}
