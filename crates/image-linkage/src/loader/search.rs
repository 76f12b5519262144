//! The differences between glibc and musl in a process.

use std::ops::ControlFlow;

use super::link_map::{LinkMap, LinkMaps, LoadPhase, ProcessSetup, SearchHit, SearchLists, SearchMiss};
use super::load_queue::DependencyKind;
use super::object_check::{ObjectRole, OpenedObject};
use super::resolution::{RequestOutcome, UnresolvedRequest};
use super::trace::{SearchStep, TriedFile};
use crate::elf::ByteString;
use crate::escape;
use crate::layer::FileFacts;

/// A request for a library.
#[derive(Clone, Copy)]
pub(super) struct LibraryRequest<'n> {
    pub name: &'n [u8],
    /// The object whose search paths apply; `None` if the caller has none.
    pub requester: Option<usize>,
    pub phase: LoadPhase,
}

/// Deducts steps from the image's budget. Without budget the search ends.
pub(super) fn spend_steps<T>(maps: &LinkMaps<'_>, name: &[u8], steps: usize) -> ControlFlow<Result<T, SearchMiss>> {
    let budget = &maps.setup.linker.budget;
    if budget.spend(steps) {
        return ControlFlow::Continue(());
    }
    let end = budget.end().unwrap_or_default();
    ControlFlow::Break(Err(SearchMiss {
        outcome: RequestOutcome::Refused,
        message: format!("{}: {end}", escape::escape_bytes(name)),
    }))
}

/// The search of one C library. Each process has its own value with its search state.
pub(super) trait LibrarySearch {
    /// The names to preload, in order.
    fn preload_names(&self, maps: &LinkMaps<'_>) -> Vec<ByteString>;

    /// The names that are not preloaded although requested, with the reason.
    fn ignored_preloads(&self, maps: &LinkMaps<'_>) -> Vec<(ByteString, String)>;

    /// The object whose search paths apply to preloads.
    fn preload_requester(&self, maps: &LinkMaps<'_>) -> Option<usize>;

    /// The object whose search paths apply to a dlopen by `caller`.
    fn open_requester(&self, maps: &LinkMaps<'_>, caller: Option<usize>) -> Option<usize>;

    /// Whether the opener's search paths also apply to the dependencies of the opened object.
    fn keeps_requester(&self) -> bool;

    /// The dependencies of an object, in order.
    fn dependencies(&self, maps: &LinkMaps<'_>, map: &LinkMap) -> Vec<(ByteString, DependencyKind)>;

    /// The reason why a dependency is refused without a search.
    fn refuse_need(&self, maps: &LinkMaps<'_>, name: &[u8]) -> Option<SearchMiss>;

    /// The mapped object that answers to a name.
    fn find_mapped_name(&self, maps: &LinkMaps<'_>, name: &[u8]) -> Option<usize>;

    /// The directories searched before the cache and the defaults.
    fn search_path(&self, maps: &LinkMaps<'_>, requester: Option<usize>) -> SearchLists;

    /// Searches for a library and records each step.
    fn search_library(
        &mut self,
        maps: &LinkMaps<'_>,
        request: LibraryRequest<'_>,
        trace: &mut Vec<SearchStep>,
    ) -> Result<SearchHit, SearchMiss>;

    /// The object already mapped from a found file.
    fn find_mapped_file(&self, maps: &LinkMaps<'_>, opened: &OpenedObject) -> Option<usize>;

    /// A new name for an object after `name` has resolved to it.
    fn new_alias(&self, setup: &ProcessSetup<'_>, map: &LinkMap, name: &[u8]) -> Option<ByteString>;

    /// Adds the requesting object `map` to the message of a miss.
    fn name_requester(&self, miss: SearchMiss, map: &LinkMap) -> SearchMiss;

    /// Whether the loader maps a file with these facts.
    fn verify_object(&self, setup: &ProcessSetup<'_>, facts: &FileFacts, role: ObjectRole) -> TriedFile;

    /// The problems found after all objects in `order` are mapped.
    fn check_loaded(&self, maps: &LinkMaps<'_>, order: &[usize]) -> Vec<UnresolvedRequest>;

    /// Clones the search for a copy of the process.
    fn boxed_clone(&self) -> Box<dyn LibrarySearch>;
}

impl Clone for Box<dyn LibrarySearch> {
    fn clone(&self) -> Self {
        (**self).boxed_clone()
    }
}
