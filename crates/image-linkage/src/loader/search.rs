//! What glibc and musl do differently in a process.

use std::ops::ControlFlow;

use super::link_map::{LinkMap, LinkMaps, LoadPhase, ProcessSetup, SearchHit, SearchLists, SearchMiss};
use super::load_queue::DependencyKind;
use super::object_check::{ObjectRole, OpenedObject};
use super::resolution::{RequestOutcome, UnresolvedRequest};
use super::trace::{SearchStep, TriedFile};
use crate::elf::ByteString;
use crate::escape;
use crate::layer::FileFacts;

/// A name that is looked for.
#[derive(Clone, Copy)]
pub(super) struct LibraryRequest<'n> {
    pub name: &'n [u8],
    /// The map whose search paths count; without one, the caller has none.
    pub requester: Option<usize>,
    pub phase: LoadPhase,
}

/// Takes steps of the image's budget; without any left, the search ends.
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

/// The search of one C library; a value belongs to one process, and owns what a search remembers.
pub(super) trait LibrarySearch {
    /// The names that are loaded before all others, in order.
    fn preload_names(&self, maps: &LinkMaps<'_>) -> Vec<ByteString>;

    /// What is not loaded before all others though it is asked for, each with the reason.
    fn ignored_preloads(&self, maps: &LinkMaps<'_>) -> Vec<(ByteString, String)>;

    /// The map whose search paths count for what is preloaded.
    fn preload_requester(&self, maps: &LinkMaps<'_>) -> Option<usize>;

    /// The map whose search paths count for what `caller` opens by dlopen.
    fn open_requester(&self, maps: &LinkMaps<'_>, caller: Option<usize>) -> Option<usize>;

    /// Whether the search paths of who opened an object count for what that object needs.
    fn keeps_requester(&self) -> bool;

    /// What a map needs, in order.
    fn dependencies(&self, maps: &LinkMaps<'_>, map: &LinkMap) -> Vec<(ByteString, DependencyKind)>;

    /// Why a name that a map needs is not even searched for, if so.
    fn refuse_need(&self, maps: &LinkMaps<'_>, name: &[u8]) -> Option<SearchMiss>;

    /// The map that answers to a name without a search.
    fn find_mapped_name(&self, maps: &LinkMaps<'_>, name: &[u8]) -> Option<usize>;

    /// The lists of directories that are searched before the cache and the default ones.
    fn search_path(&self, maps: &LinkMaps<'_>, requester: Option<usize>) -> SearchLists;

    /// Searches, and writes down each step.
    fn search_library(
        &mut self,
        maps: &LinkMaps<'_>,
        request: LibraryRequest<'_>,
        trace: &mut Vec<SearchStep>,
    ) -> Result<SearchHit, SearchMiss>;

    /// The map that a file is which a search has found.
    fn find_mapped_file(&self, maps: &LinkMaps<'_>, opened: &OpenedObject) -> Option<usize>;

    /// The name that a map answers to from now on, now that `name` has led to it.
    fn new_alias(&self, setup: &ProcessSetup<'_>, map: &LinkMap, name: &[u8]) -> Option<ByteString>;

    /// A miss in the words for a `DT_NEEDED` of `map`.
    fn name_requester(&self, miss: SearchMiss, map: &LinkMap) -> SearchMiss;

    /// Whether the loader maps a file with these facts.
    fn verify_object(&self, setup: &ProcessSetup<'_>, facts: &FileFacts, role: ObjectRole) -> TriedFile;

    /// What is found amiss once all maps in `order` are there.
    fn check_loaded(&self, maps: &LinkMaps<'_>, order: &[usize]) -> Vec<UnresolvedRequest>;

    /// A copy for a copy of the process.
    fn boxed_clone(&self) -> Box<dyn LibrarySearch>;
}

impl Clone for Box<dyn LibrarySearch> {
    fn clone(&self) -> Self {
        (**self).boxed_clone()
    }
}
