//! The symbols an object exports and imports. Names and versions are stored as hashes, because an image may have
//! millions.

use serde::{Deserialize, Serialize};

/// The exported and imported symbols of one object.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LinkSymbols {
    /// Exported definitions, sorted.
    exports: Box<[SymbolKey]>,
    /// Imports of data and the GOT. The loader resolves them before any code runs.
    at_load: Box<[SymbolKey]>,
    /// Imported functions. The loader resolves them at the first call, unless all are bound at once.
    at_call: Box<[SymbolKey]>,
    /// Whether all imports are bound at load time: `DF_BIND_NOW`, `DF_1_NOW`.
    pub binds_now: bool,
}

/// A symbol as hashes of its name and version. The version is 0 if there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct SymbolKey {
    name: u32,
    version: u32,
}

/// The version bit that hides a definition from unversioned references (gABI, `VERSYM_HIDDEN`).
const HIDDEN: u32 = 1;

/// A version as a hash shifted by one bit to make room for HIDDEN. The highest bit can be dropped: similar version
/// names differ in the low bits.
fn version_key(hash: u32) -> u32 {
    (hash << 1).max(2)
}

impl SymbolKey {
    /// A symbol key. `version` is the hash of the version name.
    pub(super) fn new(name: &[u8], version: Option<u32>, is_hidden: bool) -> Self {
        let version = version.map_or(0, |hash| version_key(hash) | u32::from(is_hidden));
        let name = gnu_hash(name);
        Self { name, version }
    }

    /// Whether this definition satisfies a reference (glibc elf/dl-lookup.c, `check_match`).
    fn answers(self, wanted: Self) -> bool {
        self.version == 0
            || self.version & !HIDDEN == wanted.version
            || wanted.version == 0 && self.version & HIDDEN == 0
    }
}

/// The hash used by `DT_GNU_HASH`.
pub(super) fn gnu_hash(name: &[u8]) -> u32 {
    name.iter().fold(5381, |hash: u32, byte| {
        hash.wrapping_mul(33).wrapping_add(u32::from(*byte))
    })
}

fn sorted(mut keys: Vec<SymbolKey>) -> Box<[SymbolKey]> {
    keys.sort_unstable();
    keys.dedup();
    keys.into_boxed_slice()
}

impl LinkSymbols {
    /// Builds the sets from unsorted symbols.
    pub(super) fn new(
        exports: Vec<SymbolKey>,
        at_load: Vec<SymbolKey>,
        at_call: Vec<SymbolKey>,
        binds_now: bool,
    ) -> Self {
        Self {
            exports: sorted(exports),
            at_load: sorted(at_load),
            at_call: sorted(at_call),
            binds_now,
        }
    }

    /// Whether it exports this name.
    pub fn defines(&self, name: &[u8]) -> bool {
        !self.definitions(gnu_hash(name)).is_empty()
    }

    /// Whether it has a strong import of this name.
    pub fn imports(&self, name: &[u8]) -> bool {
        let hash = gnu_hash(name);
        self.imports_at_load(name) || self.at_call.iter().any(|key| key.name == hash)
    }

    /// Whether the loader resolves this name before any code runs, even with lazy binding.
    pub fn imports_at_load(&self, name: &[u8]) -> bool {
        let hash = gnu_hash(name);
        self.at_load.iter().any(|key| key.name == hash)
    }

    fn definitions(&self, name: u32) -> &[SymbolKey] {
        let from = self.exports.partition_point(|key| key.name < name);
        let to = self.exports.partition_point(|key| key.name <= name);
        self.exports.get(from..to).unwrap_or_default()
    }

    /// Whether an import with one of these versions is defined by `other`. Without `all`, checks only imports bound at
    /// load time.
    pub(crate) fn binds_version<'v>(&self, versions: impl Iterator<Item = &'v [u8]>, other: &Self, all: bool) -> bool {
        let versions: Vec<u32> = versions.map(|name| version_key(gnu_hash(name))).collect();
        let at_call = self.at_call.iter().filter(|_| all);
        let mut wanted = self.at_load.iter().chain(at_call);
        wanted.any(|wanted| versions.contains(&wanted.version) && !other.definitions(wanted.name).is_empty())
    }

    /// The number of imports that no object in `others` defines. Without `all`, counts only imports bound at load time.
    pub fn count_unbound<'s>(&self, others: &(impl Iterator<Item = &'s Self> + Clone), all: bool) -> usize {
        let at_call: &[SymbolKey] = if all { &self.at_call } else { &[] };
        let wanted = self.at_load.iter().chain(at_call);
        wanted
            .filter(|wanted| !others.clone().any(|other| other.satisfies(**wanted)))
            .count()
    }

    fn satisfies(&self, wanted: SymbolKey) -> bool {
        let mut definitions = self.definitions(wanted.name).iter();
        definitions.any(|definition| definition.answers(wanted))
    }

    /// The number of exports and imports, a measure of the time to search them.
    pub(crate) fn count(&self) -> usize {
        self.exports.len() + self.at_load.len() + self.at_call.len()
    }

    /// The bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        self.count() * size_of::<SymbolKey>()
    }
}
