//! Symbols that nothing in a process defines: what ld.so calls an undefined symbol once it binds them
//! (glibc elf/dl-lookup.c, `_dl_lookup_symbol_x`).

use std::collections::BTreeSet;

use super::{SimulatedProcess, unresolved};
use crate::elf::LinkSymbols;
use crate::escape;
use crate::loader::link_map::{LinkMap, SearchMiss};
use crate::loader::machine::Libc;
use crate::loader::resolution::{RequestOutcome, UnresolvedRequest};
use crate::loader::trace::{LoadRefusal, SearchStage, SearchStep, TriedFile};
use crate::path::RootPath;

impl SimulatedProcess<'_> {
    /// The first among the object at this path and what it needs that imports what nothing in the process defines.
    /// Nothing is said where that is not known of every object of the process.
    pub fn find_unbound(&self, object: &RootPath) -> Option<UnresolvedRequest> {
        let first = self.map_of_path(object)?;
        let of = self.maps.get(first)?;
        let near: Vec<&LinkMap> = self.maps.iter().filter(|map| map.shares_namespace(of)).collect();
        // What is not in the image may define anything.
        let is_whole = |map: &&LinkMap| map.needs.iter().all(|(_, answer)| answer.is_some());
        let all: Option<Vec<&LinkSymbols>> = near.iter().map(|map| map.elf().link_symbols.as_deref()).collect();
        let all = all.filter(|_| near.iter().all(is_whole))?;
        let (mut pending, mut seen) = (vec![first], BTreeSet::new());
        while let Some(number) = pending.pop() {
            let Some(map) = self.maps.get(number).filter(|_| seen.insert(number)) else {
                continue;
            };
            let own = map.elf().link_symbols.as_deref()?;
            match own.count_unbound(&all.iter().copied()) {
                0 => pending.extend(map.needs.iter().rev().filter_map(|(_, answer)| *answer)),
                unbound => return Some(self.unbound(map, own, unbound)),
            }
        }
        None
    }

    fn unbound(&self, map: &LinkMap, own: &LinkSymbols, unbound: usize) -> UnresolvedRequest {
        let words = format!("undefined symbols: nothing in the process defines {unbound} of those that it imports");
        // musl binds all at once; glibc does what the object says, and else what who opens it says.
        let is_bound = own.binds_now || matches!(self.maps.setup.linker.libc, Libc::Musl);
        let refusal = if is_bound && self.maps.main().is_some() {
            LoadRefusal::Mapping(words)
        } else {
            LoadRefusal::Unforetold(words)
        };
        let message = format!("{}: {refusal}", escape::escape_bytes(&map.path));
        let step = SearchStep::Tried {
            how: SearchStage::Start,
            path: map.path.clone().into(),
            tried: TriedFile::Refused(refusal),
        };
        let outcome = RequestOutcome::Refused;
        unresolved(&map.path, None, SearchMiss { outcome, message }, vec![step])
    }
}
