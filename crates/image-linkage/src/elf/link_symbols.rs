//! What an object has for the others of its process, and what it wants of them: names by their hashes, of which an image
//! may have millions.

use serde::{Deserialize, Serialize};

use super::symbol_hash::gnu_hash;

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

impl LinkSymbols {
    /// The symbols of an object by the hashes of their names, in any order.
    pub(super) fn new(exports: Vec<u32>, imports: Vec<u32>, binds_now: bool) -> Self {
        let sorted = |mut hashes: Vec<u32>| {
            hashes.sort_unstable();
            hashes.dedup();
            hashes.into_boxed_slice()
        };
        Self {
            exports: sorted(exports),
            imports: sorted(imports),
            binds_now,
        }
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
