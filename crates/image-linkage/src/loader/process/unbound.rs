//! Relocation failures: symbols that no object in the process defines (glibc elf/dl-lookup.c, `_dl_lookup_symbol_x`),
//! and static TLS that does not fit.

use std::collections::BTreeSet;

use super::{SimulatedProcess, unresolved};
use crate::elf::LinkSymbols;
use crate::escape;
use crate::loader::link_map::{LinkMap, SearchMiss};
use crate::loader::machine::Libc;
use crate::loader::resolution::{LoadResolution, RequestOutcome, UnresolvedRequest};
use crate::loader::trace::{LoadRefusal, SearchStage, SearchStep, TriedFile};
use crate::path::RootPath;

impl SimulatedProcess<'_> {
    /// Relocates the objects mapped since the last call. `at_once` means that their functions are bound now, too.
    pub(super) fn relocate(&mut self, at_once: bool, resolution: &mut LoadResolution) {
        let first = std::mem::replace(&mut self.relocated, self.maps.count());
        let new = first..self.relocated;
        resolution.unresolved.extend(self.storage_refusal(new.clone()));
        let environment = self.maps.setup.environment;
        let at_once = at_once || environment.binds_now || self.maps.setup.linker.libc == Libc::Musl;
        // The loader checks versions first and stops if one is missing.
        let mut outcomes = resolution.unresolved.iter().map(|missing| missing.outcome);
        if outcomes.any(|outcome| outcome != RequestOutcome::ProvidedAtRuntime)
            || !self.search.check_loaded(&self.maps, &self.order).is_empty()
        {
            return;
        }
        let unversioned = new.clone().find_map(|number| self.unversioned(number, at_once));
        resolution.unresolved.extend(unversioned);
        // An unknown program, or the loader of a library examined on its own, may define any symbol.
        let main = self.maps.main().and_then(|main| self.maps.get(main));
        let last = self.maps.get(self.relocated.saturating_sub(1));
        let Some(scope) = last
            .filter(|_| main.is_some_and(|main| main.elf().is_program()))
            .and_then(|last| self.scope(last))
        else {
            return;
        };
        let refused = new.filter_map(|number| {
            let map = self.maps.get(number)?;
            let own = map.elf().link_symbols.as_deref()?;
            let unbound = count_unbound(own, &scope, at_once || own.binds_now);
            (unbound > 0).then(|| refusal_of(number, map, LoadRefusal::Unbound(unbound)))
        });
        resolution.unresolved.extend(refused);
    }

    /// A versioned reference to an object without version tables: glibc aborts when it binds such a symbol, unless
    /// another object comes first (elf/dl-lookup.c, `check_match`).
    fn unversioned(&self, number: usize, at_once: bool) -> Option<UnresolvedRequest> {
        let Libc::Glibc(_) = self.maps.setup.linker.libc else {
            return None;
        };
        let map = self.maps.get(number)?;
        let own = map.elf().link_symbols.as_deref()?;
        map.elf().verneed.iter().find_map(|need| {
            let mut near = self
                .maps
                .answering(&need.file)
                .filter_map(|number| self.maps.get(number));
            let found = near.find(|found| found.shares_namespace(map))?;
            // An object with either table also has a version for each symbol.
            let elf = found.elf();
            if elf.has_verdef || !elf.verneed.is_empty() {
                return None;
            }
            let versions = need.versions.iter().map(|version| &*version.name);
            let binds = own.binds_version(versions, elf.link_symbols.as_deref()?, at_once || own.binds_now);
            binds.then(|| {
                let found = escape::escape_bytes(&found.path);
                let words = format!("it binds versioned symbols to {found}, which has no versions");
                refusal_of(number, map, LoadRefusal::Undetermined(words))
            })
        })
    }

    /// The symbols of all objects in the same scope; `None` if any are unknown.
    fn scope(&self, of: &LinkMap) -> Option<Vec<&LinkSymbols>> {
        let near: Vec<&LinkMap> = self.maps.iter().filter(|map| map.shares_namespace(of)).collect();
        // A missing object may define any symbol.
        if near
            .iter()
            .any(|map| map.needs.iter().any(|(_, answer)| answer.is_none()))
        {
            return None;
        }
        near.iter().map(|map| map.elf().link_symbols.as_deref()).collect()
    }

    /// The first object, among the one at this path and its dependencies, with an import that nothing in the process
    /// defines in the required way. A call to it may end the process.
    pub fn find_unbound(&self, object: &RootPath) -> Option<UnresolvedRequest> {
        let first = self.map_of_path(object)?;
        let scope = self.scope(self.maps.get(first)?)?;
        let (mut pending, mut seen) = (vec![first], BTreeSet::new());
        while let Some(number) = pending.pop() {
            let Some(map) = self.maps.get(number).filter(|_| seen.insert(number)) else {
                continue;
            };
            if let Some(unversioned) = self.unversioned(number, true) {
                return Some(unversioned);
            }
            match count_unbound(map.elf().link_symbols.as_deref()?, &scope, true) {
                0 => pending.extend(map.needs.iter().rev().filter_map(|(_, answer)| *answer)),
                unbound => {
                    let words = LoadRefusal::Unbound(unbound).to_string();
                    return Some(refusal_of(number, map, LoadRefusal::Undetermined(words)));
                }
            }
        }
        None
    }

    /// Whether certainly no object of the process defines this symbol.
    pub fn lacks_symbol(&self, name: &[u8]) -> bool {
        let main = self.maps.main().and_then(|main| self.scope(self.maps.get(main)?));
        main.is_some_and(|scope| !scope.iter().any(|symbols| symbols.defines(name)))
    }

    /// The first new object whose static TLS does not fit after dlopen has mapped it (glibc elf/dl-reloc.c,
    /// `_dl_try_allocate_static_tls`).
    fn storage_refusal(&self, new: std::ops::Range<usize>) -> Option<UnresolvedRequest> {
        if self.maps.setup.linker.libc == Libc::Musl {
            // musl provides static TLS only for objects loaded at program start (ldso/dynlink.c, `do_relocs`).
            let words = "it needs static TLS, which musl provides only at program start";
            return (self.started.max(new.start)..new.end).find_map(|number| {
                let map = self.maps.get(number).filter(|map| map.elf().static_tls > 0)?;
                Some(refusal_of(number, map, LoadRefusal::Undetermined(words.to_owned())))
            });
        }
        let room = self.storage_room();
        let mut used = 0_u64;
        (self.started..new.end).find_map(|number| {
            let map = self.maps.get(number)?;
            // An unknown process has loaded the C library already.
            let is_libc = map.elf().soname.as_deref() == Some(b"libc.so.6");
            let bytes = if is_libc { 0 } else { map.elf().static_tls };
            used = used.saturating_add(bytes.next_multiple_of(STORAGE_UNIT));
            let refusal = match bytes {
                0 => return None,
                _ if used <= room => return None,
                _ if used > room + 2 * STORAGE_UNIT => {
                    LoadRefusal::Mapping("cannot allocate memory in static TLS block".to_owned())
                }
                _ => LoadRefusal::Undetermined(format!(
                    "it needs {bytes} bytes of static TLS, and a process has few to spare"
                )),
            };
            new.contains(&number).then(|| refusal_of(number, map, refusal))
        })
    }

    /// The bytes available for static TLS: 1664 in every version (elf/dl-tls.c, `_dl_tls_static_surplus_init`). Since
    /// 2.33, a tunable sets 512 of them.
    fn storage_room(&self) -> u64 {
        let setup = self.maps.setup;
        let tunables = setup.environment.tunables.as_deref().unwrap_or_default();
        let is_read = self.maps.identity.secure.is_none() && !setup.linker.libc.is_glibc_before((2, 33));
        let given = tunables
            .split(|&byte| byte == b':')
            .filter_map(|tunable| tunable.strip_prefix(b"glibc.rtld.optional_static_tls="))
            .filter_map(|value| std::str::from_utf8(value).ok()?.parse::<u64>().ok())
            .rfind(|_| is_read);
        1152 + given.unwrap_or(512).min(1 << 32)
    }
}

/// The allocation unit of static TLS; no variable needs a larger alignment.
const STORAGE_UNIT: u64 = 64;

fn count_unbound(own: &LinkSymbols, scope: &[&LinkSymbols], all: bool) -> usize {
    // A symbol copied by a copy relocation is also defined in the program.
    let others = scope.iter().copied().filter(|other| !std::ptr::eq(*other, own));
    own.count_unbound(&others, all)
}

fn refusal_of(number: usize, map: &LinkMap, refusal: LoadRefusal) -> UnresolvedRequest {
    let message = format!("{}: {refusal}", escape::escape_bytes(&map.path));
    let step = SearchStep::Tried {
        how: SearchStage::Start,
        path: map.path.clone().into(),
        tried: TriedFile::Refused(refusal),
    };
    let outcome = RequestOutcome::Refused;
    unresolved(&map.path, Some(number), SearchMiss { outcome, message }, vec![step])
}
