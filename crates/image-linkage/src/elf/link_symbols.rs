//! What an object has for the others of its process, and what it wants of them: names and versions by their hashes, of
//! which an image may have millions.

use serde::{Deserialize, Serialize};

use super::symbol_hash::gnu_hash;

/// The symbols of one object.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LinkSymbols {
    /// What it defines for others, sorted.
    exports: Box<[SymbolKey]>,
    /// What its data and its table of addresses hold: the loader looks for it before any code runs.
    at_load: Box<[SymbolKey]>,
    /// The functions that it calls, which are looked for at the first call, unless all is bound at once.
    at_call: Box<[SymbolKey]>,
    /// Whether all of them are bound when it is mapped: `DF_BIND_NOW`, `DF_1_NOW`.
    pub binds_now: bool,
}

/// A symbol by the hash of its name and that of its version, which is 0 where it has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct SymbolKey {
    name: u32,
    version: u32,
}

/// The bit of a version by which a definition is hidden from those that ask for none (gABI, `VERSYM_HIDDEN`).
const HIDDEN: u32 = 1;

/// A version by its hash. Names of versions differ in their last sign, and so do their hashes: the highest bit makes room.
fn version_key(hash: u32) -> u32 {
    (hash << 1).max(2)
}

impl SymbolKey {
    /// A symbol with the hash of its version's name, if it has one.
    pub(super) fn new(name: &[u8], version: Option<u32>, is_hidden: bool) -> Self {
        let version = version.map_or(0, |hash| version_key(hash) | u32::from(is_hidden));
        let name = gnu_hash(name);
        Self { name, version }
    }

    /// Whether a definition is what is asked for (glibc elf/dl-lookup.c, `check_match`).
    fn answers(self, wanted: Self) -> bool {
        self.version == 0
            || self.version & !HIDDEN == wanted.version
            || wanted.version == 0 && self.version & HIDDEN == 0
    }
}

impl LinkSymbols {
    /// The symbols of an object, in any order.
    pub(super) fn new(
        exports: Vec<SymbolKey>,
        at_load: Vec<SymbolKey>,
        at_call: Vec<SymbolKey>,
        binds_now: bool,
    ) -> Self {
        let sorted = |mut keys: Vec<SymbolKey>| {
            keys.sort_unstable();
            keys.dedup();
            keys.into_boxed_slice()
        };
        Self {
            exports: sorted(exports),
            at_load: sorted(at_load),
            at_call: sorted(at_call),
            binds_now,
        }
    }

    /// Whether it defines this name for others.
    pub fn defines(&self, name: &[u8]) -> bool {
        !self.definitions(gnu_hash(name)).is_empty()
    }

    /// Whether it cannot do without a definition of this name.
    pub fn imports(&self, name: &[u8]) -> bool {
        let hash = gnu_hash(name);
        self.imports_at_load(name) || self.at_call.iter().any(|key| key.name == hash)
    }

    /// Whether the loader looks for this name before any code runs, whenever functions are bound.
    pub fn imports_at_load(&self, name: &[u8]) -> bool {
        let hash = gnu_hash(name);
        self.at_load.iter().any(|key| key.name == hash)
    }

    fn definitions(&self, name: u32) -> &[SymbolKey] {
        let from = self.exports.partition_point(|key| key.name < name);
        let to = self.exports.partition_point(|key| key.name <= name);
        self.exports.get(from..to).unwrap_or_default()
    }

    /// Whether it imports something by one of these versions that another object defines: what is bound when it is mapped, or
    /// all.
    pub(crate) fn binds_version<'v>(&self, versions: impl Iterator<Item = &'v [u8]>, other: &Self, all: bool) -> bool {
        let versions: Vec<u32> = versions.map(|name| version_key(gnu_hash(name))).collect();
        let at_call = self.at_call.iter().filter(|_| all);
        let mut wanted = self.at_load.iter().chain(at_call);
        wanted.any(|wanted| versions.contains(&wanted.version) && !other.definitions(wanted.name).is_empty())
    }

    /// How many of its imports none of these others has: of those that are bound when it is mapped, or of all.
    pub fn count_unbound<'s>(&self, others: &(impl Iterator<Item = &'s Self> + Clone), all: bool) -> usize {
        let has = |other: &Self, wanted: SymbolKey| {
            let mut definitions = other.definitions(wanted.name).iter();
            definitions.any(|definition| definition.answers(wanted))
        };
        let at_call = self.at_call.iter().filter(|_| all);
        let wanted = self.at_load.iter().chain(at_call);
        wanted
            .filter(|wanted| !others.clone().any(|other| has(other, **wanted)))
            .count()
    }

    /// The number of its imports and exports: what it takes to look through them.
    pub(crate) fn count(&self) -> usize {
        self.exports.len() + self.at_load.len() + self.at_call.len()
    }

    /// The bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        self.count() * size_of::<SymbolKey>()
    }
}
