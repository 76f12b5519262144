//! The tables of the dynamic section: strings, symbols, hash, versions, relocations.

use std::collections::HashMap;

use super::write::{Writer, half, wide, word};
use super::{Class, DT_SONAME, Elf, Endian, Hash, Machine};

/// `VER_FLG_WEAK` of a version need.
pub const VER_FLG_WEAK: u16 = 2;
const VER_FLG_BASE: u16 = 1;

/// The required versions of one file.
#[derive(Debug, Clone)]
pub struct Need {
    file: Vec<u8>,
    /// Each version with its flags.
    versions: Vec<(Vec<u8>, u16)>,
}

/// One symbol of the dynamic symbol table.
#[derive(Debug, Clone)]
pub struct Symbol {
    name: Vec<u8>,
    from: From,
    binding: u8,
}

/// The origin of a symbol, with its version.
#[derive(Debug, Clone, PartialEq, Eq)]
enum From {
    Here(Option<Vec<u8>>),
    Elsewhere(Option<(Vec<u8>, Vec<u8>)>),
}

const STB_GLOBAL: u8 = 1;
const STB_WEAK: u8 = 2;
const STT_FUNC: u8 = 2;

impl Symbol {
    pub(super) fn export(name: &[u8], version: Option<&[u8]>) -> Self {
        Self {
            name: name.to_vec(),
            from: From::Here(version.map(<[u8]>::to_vec)),
            binding: STB_GLOBAL,
        }
    }

    pub(super) fn import(name: &[u8], version: Option<(&[u8], &[u8])>) -> Self {
        let version = version.map(|(file, version)| (file.to_vec(), version.to_vec()));
        Self {
            name: name.to_vec(),
            from: From::Elsewhere(version),
            binding: STB_GLOBAL,
        }
    }

    pub(super) fn weak(mut self) -> Self {
        self.binding = STB_WEAK;
        self
    }

    fn is_export(&self) -> bool {
        matches!(self.from, From::Here(_))
    }
}

/// Adds a version definition, unless it exists.
pub fn define(defs: &mut Vec<Vec<u8>>, version: &[u8]) {
    if !defs.iter().any(|known| known == version) {
        defs.push(version.to_vec());
    }
}

/// Adds a version requirement, unless it exists.
pub fn need(needs: &mut Vec<Need>, file: &[u8], version: &[u8], flags: u16) {
    if !needs.iter().any(|need| need.file == file) {
        let (file, versions) = (file.to_vec(), Vec::new());
        needs.push(Need { file, versions });
    }
    for need in needs.iter_mut().filter(|need| need.file == file) {
        if !need.versions.iter().any(|(known, _)| known == version) {
            need.versions.push((version.to_vec(), flags));
        }
    }
}

/// The tables of one object. Their sizes do not depend on addresses.
pub struct Tables {
    /// `DT_STRTAB`.
    pub strings: Vec<u8>,
    /// The string table offsets of [`Elf`]'s names, in order.
    pub name_offsets: Vec<u64>,
    /// `DT_SYMTAB`.
    pub symbols: Vec<u8>,
    /// `DT_HASH` or `DT_GNU_HASH`.
    pub hash: Vec<u8>,
    /// `DT_VERSYM`; empty without versions.
    pub versym: Vec<u8>,
    /// `DT_VERNEED`.
    pub verneed: Vec<u8>,
    /// The number of files with version requirements.
    pub verneed_count: usize,
    /// `DT_VERDEF`.
    pub verdef: Vec<u8>,
    /// The number of version definitions, including the base.
    pub verdef_count: usize,
    /// `DT_RELA`, which binds every import; empty for machines with unsupported relocations.
    pub relocations: Vec<u8>,
    /// The number of bytes that the relocations write.
    pub got_bytes: usize,
}

/// A growing string table; equal strings share an offset.
struct Strings {
    bytes: Vec<u8>,
    known: HashMap<Vec<u8>, u32>,
}

impl Strings {
    fn new() -> Self {
        let (bytes, known) = (vec![0], HashMap::from([(Vec::new(), 0)]));
        Self { bytes, known }
    }

    fn add(&mut self, text: &[u8]) -> u32 {
        if let Some(at) = self.known.get(text) {
            return *at;
        }
        let at = word(self.bytes.len());
        self.bytes.extend_from_slice(text);
        self.bytes.push(0);
        self.known.insert(text.to_vec(), at);
        at
    }
}

/// Builds the tables of `elf`. All functions are at `code`, and the imports are bound from `got` on.
pub fn make(elf: &Elf, code: u64, got: u64) -> Tables {
    let mut strings = Strings::new();
    let name_offsets = elf.names.iter().map(|(_, name)| u64::from(strings.add(name))).collect();
    // DT_GNU_HASH requires imports first.
    let (exports, imports): (Vec<&Symbol>, Vec<&Symbol>) = elf.symbols.iter().partition(|symbol| symbol.is_export());
    let ordered: Vec<&Symbol> = imports.iter().chain(&exports).copied().collect();
    let base = base_version(elf);
    let versioned = base.is_some() || !elf.needs.is_empty();
    let relocations = relocations(elf, imports.len(), got);
    Tables {
        name_offsets,
        symbols: symbol_table(elf, &ordered, code, &mut strings),
        hash: match elf.hash {
            Hash::Sysv => sysv_hash(elf, &ordered),
            Hash::Gnu => gnu_hash(elf, imports.len(), &exports),
        },
        versym: if versioned { versym(elf, &ordered) } else { Vec::new() },
        verneed: verneed(elf, &mut strings),
        verneed_count: elf.needs.len(),
        verdef: base.map_or_else(Vec::new, |base| verdef(elf, base, &mut strings)),
        verdef_count: base.map_or(0, |_| elf.defs.len() + 1),
        got_bytes: if relocations.is_empty() { 0 } else { imports.len() * 8 },
        relocations,
        strings: strings.bytes,
    }
}

/// The name of the base version, if versions are defined: the soname.
fn base_version(elf: &Elf) -> Option<&[u8]> {
    let soname = elf.names.iter().find(|(tag, _)| *tag == DT_SONAME);
    (!elf.defs.is_empty()).then(|| soname.map_or(b"".as_slice(), |(_, name)| name))
}

fn symbol_table(elf: &Elf, symbols: &[&Symbol], code: u64, strings: &mut Strings) -> Vec<u8> {
    let mut out = Writer::new(elf);
    symbol_entry(elf, &mut out, (0, 0, 0, 0));
    for symbol in symbols {
        // Any nonzero section is valid, because there are no section headers.
        let (section, value) = if symbol.is_export() { (1, code) } else { (0, 0) };
        let kind = symbol.binding << 4 | STT_FUNC;
        symbol_entry(elf, &mut out, (strings.add(&symbol.name), kind, section, value));
    }
    out.into_bytes()
}

fn symbol_entry(elf: &Elf, out: &mut Writer, (name, kind, section, value): (u32, u8, u16, u64)) {
    out.word(name);
    match elf.class {
        Class::Elf32 => out.address(value).address(0).raw(&[kind, 0]).half(section),
        Class::Elf64 => out.raw(&[kind, 0]).half(section).address(value).address(0),
    };
}

/// One bucket with a chain of all symbols. Words have four bytes, or eight on 64-bit s390.
fn sysv_hash(elf: &Elf, symbols: &[&Symbol]) -> Vec<u8> {
    let count = word(symbols.len()) + 1;
    let chain = (1..count).map(|index| if index + 1 < count { index + 1 } else { 0 });
    let front = [1, count, u32::from(count > 1), 0];
    let mut out = Writer::new(elf);
    for number in front.into_iter().chain(chain) {
        match elf.machine {
            Machine::S390 => out.address(u64::from(number)),
            _ => out.word(number),
        };
    }
    out.into_bytes()
}

/// One bucket, and a Bloom filter that accepts everything.
fn gnu_hash(elf: &Elf, imports: usize, exports: &[&Symbol]) -> Vec<u8> {
    let first = word(imports) + 1;
    let mut out = Writer::new(elf);
    out.word(1).word(first).word(1).word(0).address(u64::MAX);
    out.word(if exports.is_empty() { 0 } else { first });
    for (index, symbol) in exports.iter().enumerate() {
        let last = u32::from(index + 1 == exports.len());
        let hash = symbol.name.iter().fold(5381_u32, |hash, byte| {
            hash.wrapping_mul(33).wrapping_add(u32::from(*byte))
        });
        out.word(hash & !1 | last);
    }
    out.into_bytes()
}

/// The System V ABI's hash, still used for version names.
fn elf_hash(name: &[u8]) -> u32 {
    name.iter().fold(0, |hash: u32, byte| {
        let hash = (hash << 4).wrapping_add(u32::from(*byte));
        let high = hash & 0xf000_0000;
        (hash ^ high >> 24) & !high
    })
}

/// Version indices start at 2: first the definitions, then the requirements.
const FIRST_INDEX: usize = 2;

fn versym(elf: &Elf, symbols: &[&Symbol]) -> Vec<u8> {
    let mut out = Writer::new(elf);
    out.half(0);
    for symbol in symbols {
        out.half(half(version_index(elf, symbol)));
    }
    out.into_bytes()
}

/// The version index of a symbol; 1 means global and unversioned.
fn version_index(elf: &Elf, symbol: &Symbol) -> usize {
    let index = match &symbol.from {
        From::Here(None) | From::Elsewhere(None) => None,
        From::Here(Some(version)) => elf.defs.iter().position(|known| known == version),
        From::Elsewhere(Some((file, version))) => {
            let all = elf.needs.iter().flat_map(|need| {
                let names = need.versions.iter().map(|(name, _)| name);
                names.map(|name| (&need.file, name))
            });
            all.into_iter()
                .position(|known| known == (file, version))
                .map(|index| index + elf.defs.len())
        }
    };
    index.map_or(1, |index| index + FIRST_INDEX)
}

fn verneed(elf: &Elf, strings: &mut Strings) -> Vec<u8> {
    let mut out = Writer::new(elf);
    let mut index = FIRST_INDEX + elf.defs.len();
    for (nth, need) in elf.needs.iter().enumerate() {
        let count = need.versions.len();
        let next = if nth + 1 == elf.needs.len() {
            0
        } else {
            16 + 16 * word(count)
        };
        out.half(1).half(half(count)).word(strings.add(&need.file));
        out.word(16).word(next);
        for (nth, (version, flags)) in need.versions.iter().enumerate() {
            out.word(elf_hash(version)).half(*flags).half(half(index));
            out.word(strings.add(version));
            out.word(if nth + 1 == count { 0 } else { 16 });
            index += 1;
        }
    }
    out.into_bytes()
}

fn verdef(elf: &Elf, base: &[u8], strings: &mut Strings) -> Vec<u8> {
    let mut out = Writer::new(elf);
    let named = elf.defs.iter().map(Vec::as_slice);
    for (nth, version) in std::iter::once(base).chain(named).enumerate() {
        let flags = if nth == 0 { VER_FLG_BASE } else { 0 };
        let next = if nth == elf.defs.len() { 0 } else { 28 };
        out.half(1).half(flags).half(half(nth + 1)).half(1);
        out.word(elf_hash(version)).word(20).word(next);
        out.word(strings.add(version)).word(0);
    }
    out.into_bytes()
}

/// One `GLOB_DAT` relocation per import, which makes the loader look it up.
fn relocations(elf: &Elf, imports: usize, got: u64) -> Vec<u8> {
    let kind = match (elf.machine, elf.class, elf.endian) {
        (Machine::X86_64, Class::Elf64, Endian::Little) => 6,
        (Machine::Aarch64, Class::Elf64, Endian::Little) => 1025,
        _ => return Vec::new(),
    };
    let mut out = Writer::new(elf);
    for index in 0..imports {
        out.address(got + 8 * wide(index));
        out.address(wide(index + 1) << 32 | kind).address(0);
    }
    out.into_bytes()
}
