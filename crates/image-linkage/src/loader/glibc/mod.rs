//! The parts specific to glibc: search, checks, preloads, and settings of its `ld.so`.

pub(super) mod detect;
mod preload;
mod search;
mod search_places;
mod verify;
mod versions;

pub use versions::glibc_version;

use super::dynamic_tokens;
use super::link_map::{LinkMap, LinkMaps, ProcessSetup, SearchHit, SearchLists, SearchMiss};
use super::load_queue::DependencyKind;
use super::object_check::{ObjectRole, OpenedObject};
use super::resolution::{RequestOutcome, UnresolvedRequest};
use super::search::{LibraryRequest, LibrarySearch};
use super::trace::{SearchStep, TriedFile};
use crate::elf::{ByteString, FilterKind};
use crate::escape;
use crate::layer::FileFacts;

/// The state of glibc's search in one process.
#[derive(Clone, Default)]
pub(super) struct GlibcSearch {
    memory: search::SearchMemory,
}

impl LibrarySearch for GlibcSearch {
    fn preload_names(&self, maps: &LinkMaps<'_>) -> Vec<ByteString> {
        preload::preload_names(maps)
    }

    fn ignored_preloads(&self, maps: &LinkMaps<'_>) -> Vec<(ByteString, String)> {
        preload::ignored_preloads(maps)
    }

    fn preload_requester(&self, maps: &LinkMaps<'_>) -> Option<usize> {
        maps.main()
    }

    fn open_requester(&self, _: &LinkMaps<'_>, caller: Option<usize>) -> Option<usize> {
        caller
    }

    /// `__RTLD_CALLMAP`: the caller's paths are used to find the object but not its dependencies.
    fn keeps_requester(&self) -> bool {
        false
    }

    fn dependencies(&self, maps: &LinkMaps<'_>, map: &LinkMap) -> Vec<(ByteString, DependencyKind)> {
        let tokens = maps.tokens(map);
        let elf = map.elf();
        let needed = elf.needed.iter().map(|name| (name, DependencyKind::Needed));
        let filters = elf.filters.iter().map(|(name, kind)| match kind {
            FilterKind::Standard => (name, DependencyKind::Filter),
            FilterKind::Auxiliary => (name, DependencyKind::Auxiliary),
        });
        needed
            .chain(filters)
            .filter_map(|(name, kind)| {
                // Secure-execution mode rejects a name with a token later.
                if maps.identity.secure.is_some() {
                    return Some((name.clone(), kind));
                }
                // All tokens have a value here, so no name is dropped.
                let name = dynamic_tokens::expand_tokens(name, &tokens)?;
                Some((name.into_boxed_slice(), kind))
            })
            .collect()
    }

    /// As in glibc's `expand_dst` (elf/dl-deps.c).
    fn refuse_need(&self, maps: &LinkMaps<'_>, name: &[u8]) -> Option<SearchMiss> {
        let has_token = maps.identity.secure.is_some() && dynamic_tokens::has_token(name);
        has_token.then(|| SearchMiss {
            outcome: RequestOutcome::Refused,
            message: format!("{}: DST not allowed in SUID/SGID programs", escape::escape_bytes(name)),
        })
    }

    fn find_mapped_name(&self, maps: &LinkMaps<'_>, name: &[u8]) -> Option<usize> {
        let named = maps
            .answering(name)
            .find(|&number| maps.get(number).is_some_and(|map| maps.reaches(map)));
        // The program's own name is empty (elf/rtld.c, `dl_main`).
        named.or_else(|| maps.position(|map| maps.reaches(map) && name.is_empty() && map.is_main()))
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

    fn find_mapped_file(&self, maps: &LinkMaps<'_>, opened: &OpenedObject) -> Option<usize> {
        maps.position_of(opened, |_| true)
    }

    /// Every name that led to an object becomes one of its names (elf/dl-load.c, `add_name_to_object`).
    fn new_alias(&self, _: &ProcessSetup<'_>, _: &LinkMap, name: &[u8]) -> Option<ByteString> {
        Some(name.into())
    }

    fn name_requester(&self, miss: SearchMiss, _: &LinkMap) -> SearchMiss {
        miss
    }

    fn verify_object(&self, setup: &ProcessSetup<'_>, facts: &FileFacts, role: ObjectRole) -> TriedFile {
        verify::verify_object(facts, setup.linker, role)
    }

    fn check_loaded(&self, maps: &LinkMaps<'_>, order: &[usize]) -> Vec<UnresolvedRequest> {
        versions::check_versions(maps, order)
    }

    fn boxed_clone(&self) -> Box<dyn LibrarySearch> {
        Box::new(self.clone())
    }
}
