//! What a program that asks for the library gets in one world, and the symbols that this lacks.

use crate::facts::objects::credentials::SearchObstacle;
use crate::facts::objects::resolved_objects::elf_at;
use crate::facts::objects::start_failure::StartFailure;
use crate::facts::software::companions::CompanionLookup;
use crate::knowledge::LibraryProfile;
use image_linkage::elf::{ByteString, DynamicSymbol, ElfFacts, SymbolRole};
use image_linkage::loader::{
    LoadedObject, LoaderBudget, ObjectNames, RequestOutcome, SearchStage, SearchStep, UnresolvedRequest,
};
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;
use std::sync::Arc;

/// What a consumer gets in one world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerOutcome {
    /// What became of the request.
    pub outcome: RequestOutcome,
    /// The path by which the loader opened it.
    pub path: Option<ByteString>,
    /// The same without links.
    pub real_path: Option<RootPath>,
    /// How it was found.
    pub how: Option<SearchStage>,
    /// The loader's words, when it was not, with what the process may not use or trust.
    pub message: String,
    /// The steps of the search, in the loader's order.
    pub trace: Arc<[SearchStep]>,
    /// The objects that the numbers in the search count.
    pub objects: ObjectNames,
    /// The symbols of CUPTI that the consumer imports and the copy it gets does not export.
    pub missing_symbols: Vec<ByteString>,
    /// The version that is missing, where the request fails for want of one.
    pub missing_version: Option<ByteString>,
    /// What else the object needs and does not get.
    pub other_failures: Vec<UnresolvedRequest>,
    /// What ends its process before it can ask, whatever becomes of the library.
    pub start_failure: Option<StartFailure>,
    /// Objects on the way whose tables could not be read.
    pub unread: Vec<String>,
    /// What it gets of the libraries beside libcupti.
    pub companions: Vec<CompanionLookup>,
}

impl ConsumerOutcome {
    pub(crate) fn not_found(message: String) -> Self {
        Self {
            outcome: RequestOutcome::NotFound,
            path: None,
            real_path: None,
            how: None,
            message,
            trace: Arc::default(),
            objects: ObjectNames::default(),
            missing_symbols: Vec::new(),
            missing_version: None,
            other_failures: Vec::new(),
            start_failure: None,
            unread: Vec::new(),
            companions: Vec::new(),
        }
    }

    pub(crate) fn failed(unresolved: &UnresolvedRequest, objects: &[LoadedObject]) -> Self {
        Self {
            outcome: unresolved.outcome,
            missing_version: unresolved.missing_version.clone(),
            trace: unresolved.trace.as_slice().into(),
            objects: ObjectNames::of_trace(objects, &unresolved.trace, None),
            ..Self::not_found(unresolved.message.clone())
        }
    }

    pub(crate) fn found(object: &LoadedObject, objects: &[LoadedObject]) -> Self {
        Self {
            outcome: RequestOutcome::Loaded,
            ..Self::not_found(String::new()).with_object(object, objects)
        }
    }

    /// The same with this object as what is got.
    pub(crate) fn with_object(self, object: &LoadedObject, objects: &[LoadedObject]) -> Self {
        Self {
            path: Some(object.path.clone()),
            real_path: Some(object.real_path.clone()),
            how: Some(object.how),
            trace: object.trace.as_slice().into(),
            objects: ObjectNames::of_trace(objects, &object.trace, Some(object.how)),
            ..self
        }
    }

    /// Shares with another outcome what both tell: thousands of objects may search in the same places. What is not shared
    /// counts as kept.
    pub(crate) fn share_traces(&mut self, other: Option<&Self>, budget: &LoaderBudget) {
        share(&mut self.trace, other.map(|other| &other.trace), budget);
        for (number, companion) in self.companions.iter_mut().enumerate() {
            let same = other.and_then(|other| other.companions.get(number));
            share(&mut companion.trace, same.map(|same| &same.trace), budget);
        }
        for failure in &self.other_failures {
            budget.keep_unresolved(failure);
        }
    }

    /// The same with what stood in the way of the search, which the loader does not say.
    pub(crate) fn with_obstacle(mut self, obstacle: Option<SearchObstacle>) -> Self {
        // What comes last in its search is what the loader says itself: of a denial, the half without the reason.
        let is_said = self.trace.last().is_some_and(|step| step.denial().is_some());
        let words = obstacle.map(|obstacle| match obstacle {
            SearchObstacle::Denied(denial) if is_said => denial.to_string(),
            SearchObstacle::Denied(denial) => format!("permission denied: {denial}"),
            SearchObstacle::Ignored(what, why) => format!("{what} is ignored: {why}"),
        });
        if let Some(words) = words {
            self.message = format!("{} ({words})", self.message);
        }
        self
    }

    /// The file that it gets, or would get if its process did not end before.
    pub(crate) fn asked_file(&self) -> Option<&RootPath> {
        let failure = self.start_failure.as_ref();
        self.real_path
            .as_ref()
            .or(failure.and_then(|failure| failure.would_get.as_ref()))
    }

    /// The same of a process that ends before it asks: nobody gets anything then.
    pub(crate) fn ended(mut self, mut failure: StartFailure) -> Self {
        failure.would_get = self.real_path.take();
        if failure.gets_library {
            self = Self {
                outcome: failure.outcome,
                message: failure.words.clone(),
                trace: failure.trace.as_slice().into(),
                objects: failure.objects.clone(),
                other_failures: self.other_failures,
                unread: self.unread,
                ..Self::not_found(String::new())
            };
        }
        self.start_failure = Some(failure);
        self
    }
}

fn share(trace: &mut Arc<[SearchStep]>, other: Option<&Arc<[SearchStep]>>, budget: &LoaderBudget) {
    match other.filter(|other| *other == trace) {
        Some(other) => *trace = Arc::clone(other),
        None => budget.keep_trace(trace),
    }
}

/// The symbols that `object` imports and that no object of its process exports, in the order of their names. Of a
/// performance library that is not in the process at all nothing is said: that it is missing is said already.
pub(crate) fn find_missing_symbols(
    rootfs: &Rootfs,
    library: &LibraryProfile,
    object: &RootPath,
    gets: &ConsumerOutcome,
    objects: &[LoadedObject],
) -> Vec<ByteString> {
    let Some(consumer) = elf_at(rootfs, object).filter(|_| gets.outcome == RequestOutcome::Loaded) else {
        return Vec::new();
    };
    // ld.so binds in the scope of the whole process, not in the library that was asked for alone.
    let process: Vec<&ElfFacts> = objects
        .iter()
        .filter_map(|object| elf_at(rootfs, &object.real_path))
        .collect();
    // An empty prefix would make every import one of the library's.
    let own = Some(library.symbols.as_bytes()).filter(|own| !own.is_empty());
    let companions = library.companion_symbols.iter().map(String::as_bytes);
    let companions = companions.filter(|family| process.iter().any(|elf| exports_of(elf, family)));
    let mut missing: Vec<ByteString> = own
        .into_iter()
        .chain(companions)
        .flat_map(|family| {
            let imports = consumer
                .symbols
                .iter()
                .filter(|symbol| symbol.role == SymbolRole::Import && symbol.name.starts_with(family));
            imports.filter(|symbol| !process.iter().any(|elf| defines(elf, symbol)))
        })
        .map(|symbol| symbol.name.clone())
        .collect();
    missing.sort();
    missing.dedup();
    missing
}

/// The preloaded object that what `object` imports of the library is bound to, whatever answers to its `DT_NEEDED`
/// entry: ld.so(8), "Additional, user-specified, ELF shared objects to be loaded before all others".
pub(crate) fn find_preloaded_library<'o>(
    rootfs: &Rootfs,
    library: &LibraryProfile,
    object: &RootPath,
    objects: &'o [LoadedObject],
) -> Option<&'o LoadedObject> {
    let family = Some(library.symbols.as_bytes()).filter(|own| !own.is_empty())?;
    let imports = elf_at(rootfs, object)?.symbols.iter();
    let imports: Vec<&DynamicSymbol> = imports
        .filter(|symbol| symbol.role == SymbolRole::Import && symbol.name.starts_with(family))
        .collect();
    let answers = |elf: &ElfFacts| imports.iter().any(|import| defines(elf, import));
    let mut preloaded = objects.iter().filter(|object| object.how == SearchStage::Preload);
    preloaded.find(|object| elf_at(rootfs, &object.real_path).is_some_and(answers))
}

fn exports_of(elf: &ElfFacts, family: &[u8]) -> bool {
    let mut exports = elf.symbols.iter();
    exports.any(|symbol| symbol.role == SymbolRole::Export && symbol.name.starts_with(family))
}

/// Whether an object defines what is imported, at the version that is asked for: without versions it has any.
fn defines(elf: &ElfFacts, import: &DynamicSymbol) -> bool {
    elf.symbols.iter().any(|symbol| {
        symbol.role == SymbolRole::Export
            && symbol.name == import.name
            && (import.version.is_none() || elf.verdef.is_empty() || symbol.version == import.version)
    })
}
