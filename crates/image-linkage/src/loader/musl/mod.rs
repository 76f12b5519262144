//! The parts specific to musl: its search, and its treatment of found files (musl ldso/dynlink.c).
//!
//! musl ignores `DT_SONAME` and symbol versions. A library answers to the file name under which a search found it, and
//! to no name if it was opened by path.

pub(super) mod detect;
mod search;
mod verify;

use super::link_map::{LinkMap, LinkMaps, ProcessSetup, SearchHit, SearchLists, SearchMiss, split_names};
use super::load_queue::DependencyKind;
use super::object_check::{ObjectRole, OpenedObject};
use super::resolution::UnresolvedRequest;
use super::search::{LibraryRequest, LibrarySearch};
use super::trace::{SearchStep, TriedFile};
use crate::elf::ByteString;
use crate::escape;
use crate::layer::FileFacts;

/// Name prefixes that always refer to musl itself.
const RESERVED: [&[u8]; 7] = [
    b"libc.",
    b"libpthread.",
    b"librt.",
    b"libm.",
    b"libdl.",
    b"libutil.",
    b"libxnet.",
];

/// The state of musl's search in one process.
#[derive(Clone, Default)]
pub(super) struct MuslSearch {
    memory: search::SearchMemory,
}

impl LibrarySearch for MuslSearch {
    fn preload_names(&self, maps: &LinkMaps<'_>) -> Vec<ByteString> {
        let mut names = variable_names(maps);
        // "Only trust user/env if kernel says we're not suid/sgid" (`__dls3`)
        names.retain(|_| maps.identity.secure.is_none());
        names
    }

    fn ignored_preloads(&self, maps: &LinkMaps<'_>) -> Vec<(ByteString, String)> {
        let Some(why) = maps.identity.secure else {
            return Vec::new();
        };
        let names = variable_names(maps).into_iter();
        names.map(|name| (name, why.to_string())).collect()
    }

    fn preload_requester(&self, _: &LinkMaps<'_>) -> Option<usize> {
        // `load_preload` passes no requesting object, so only LD_LIBRARY_PATH and the defaults are searched.
        None
    }

    /// musl searches on behalf of the program, whoever calls `dlopen`.
    fn open_requester(&self, maps: &LinkMaps<'_>, _: Option<usize>) -> Option<usize> {
        maps.main()
    }

    fn keeps_requester(&self) -> bool {
        true
    }

    /// musl supports neither tokens in names nor filters.
    fn dependencies(&self, _: &LinkMaps<'_>, map: &LinkMap) -> Vec<(ByteString, DependencyKind)> {
        let needed = map.elf().needed.iter();
        needed.map(|name| (name.clone(), DependencyKind::Needed)).collect()
    }

    fn refuse_need(&self, _: &LinkMaps<'_>, _: &[u8]) -> Option<SearchMiss> {
        None
    }

    fn find_mapped_name(&self, maps: &LinkMaps<'_>, name: &[u8]) -> Option<usize> {
        // All of them are in musl's single file, so nothing is searched (`load_library`, "reserved").
        if RESERVED.iter().any(|own| name.starts_with(own)) || *name == *maps.setup.linker.path {
            return musl_itself(maps);
        }
        maps.position(|map| map.names.iter().any(|own| **own == *name))
    }

    fn search_path(&self, maps: &LinkMaps<'_>, requester: Option<usize>) -> SearchLists {
        search::search_path(maps, requester)
    }

    fn search_library(
        &mut self,
        maps: &LinkMaps<'_>,
        request: LibraryRequest<'_>,
        trace: &mut Vec<SearchStep>,
    ) -> Result<SearchHit, SearchMiss> {
        search::search_library(maps, request, &mut self.memory, trace)
    }

    /// musl itself if the file is any C library, otherwise the object with the same inode, except the program. musl
    /// detects a C library by `__libc_start_main` and `stdin`; the soname is equivalent.
    fn find_mapped_file(&self, maps: &LinkMaps<'_>, opened: &OpenedObject) -> Option<usize> {
        let soname = opened.facts.elf.as_ref()?.soname.as_deref();
        if soname.is_some_and(|soname| soname.starts_with(b"libc.")) {
            return musl_itself(maps);
        }
        maps.position_of(opened, |map| !map.is_main())
    }

    /// The file name, the first time a search finds the object. musl itself gets no alias.
    fn new_alias(&self, setup: &ProcessSetup<'_>, map: &LinkMap, name: &[u8]) -> Option<ByteString> {
        let base = map.path.rsplit(|&byte| byte == b'/').next();
        let is_first = map.names.is_empty() && !name.contains(&b'/') && map.path != setup.linker.path;
        base.filter(|_| is_first).map(Into::into)
    }

    fn name_requester(&self, miss: SearchMiss, map: &LinkMap) -> SearchMiss {
        let by = format!(" (needed by {})", escape::escape_bytes(&map.path));
        let message = miss.message + &by;
        SearchMiss { message, ..miss }
    }

    /// musl does not distinguish programs and libraries.
    fn verify_object(&self, setup: &ProcessSetup<'_>, facts: &FileFacts, _: ObjectRole) -> TriedFile {
        verify::verify_object(facts, setup.linker)
    }

    fn check_loaded(&self, maps: &LinkMaps<'_>, order: &[usize]) -> Vec<UnresolvedRequest> {
        verify::check_machines(maps, order)
    }

    fn boxed_clone(&self) -> Box<dyn LibrarySearch> {
        Box::new(self.clone())
    }
}

fn variable_names(maps: &LinkMaps<'_>) -> Vec<ByteString> {
    let variable = maps.setup.environment.preload.as_deref().unwrap_or_default();
    // Separators: `isspace` and colons. There is no preload file (`load_preload`).
    split_names(variable, b": \t\n\x0b\x0c\r")
}

fn musl_itself(maps: &LinkMaps<'_>) -> Option<usize> {
    let path = &maps.setup.linker.path;
    maps.position(|map| map.path == *path)
}
