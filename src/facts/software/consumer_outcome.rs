//! The result of a program's request in one world, and the symbols that the result lacks.

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

/// The result of a consumer's request in one world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerOutcome {
    /// The outcome of the request.
    pub outcome: RequestOutcome,
    /// The path under which the loader opened it.
    pub path: Option<ByteString>,
    /// The path with links resolved.
    pub real_path: Option<RootPath>,
    /// How it was found.
    pub how: Option<SearchStage>,
    /// The loader's message if the request failed, with access denials and ignored settings.
    pub message: String,
    /// The steps of the search, in the loader's order.
    pub trace: Arc<[SearchStep]>,
    /// The names of the objects that the search steps refer to by number.
    pub objects: ObjectNames,
    /// The CUPTI symbols that the consumer imports but its copy does not export.
    pub missing_symbols: Vec<ByteString>,
    /// The missing symbol version, if that is why the request fails.
    pub missing_version: Option<ByteString>,
    /// The object's other dependencies that fail.
    pub other_failures: Vec<UnresolvedRequest>,
    /// Whether its process needs a library of NVIDIA's driver to start.
    pub needs_driver: bool,
    /// The failure that ends the process before its request, independent of the library.
    pub start_failure: Option<StartFailure>,
    /// Objects with unreadable tables among those loaded.
    pub unread: Vec<String>,
    /// The results for the companion libraries.
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
            needs_driver: false,
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

    /// Replaces the object that the request resolves to.
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

    /// Shares equal traces with another outcome, because thousands of objects may search the same directories. Traces
    /// that are not shared count against the budget.
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

    /// Adds the obstacle in the search, which the loader's message lacks.
    pub(crate) fn with_obstacle(mut self, obstacle: Option<SearchObstacle>) -> Self {
        // If the last step was denied, the loader's message already says "permission denied", so only add the reason.
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

    /// The file that it gets, or would get if its process did not end first.
    pub(crate) fn asked_file(&self) -> Option<&RootPath> {
        let failure = self.start_failure.as_ref();
        self.real_path
            .as_ref()
            .or(failure.and_then(|failure| failure.would_get.as_ref()))
    }

    /// Marks that the process ends before its request, so it gets nothing.
    pub(crate) fn ended(mut self, mut failure: StartFailure) -> Self {
        failure.would_get = self.real_path.take();
        if failure.gets_library {
            self = Self {
                outcome: failure.outcome,
                message: failure.words.clone(),
                trace: failure.trace.as_slice().into(),
                objects: failure.objects.clone(),
                other_failures: self.other_failures,
                needs_driver: self.needs_driver,
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

/// The symbols that `object` imports and no object in its process exports, sorted by name. A performance library that
/// is not in the process is skipped, because it is already reported as missing.
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
    // ld.so binds symbols in the scope of the whole process, not only in the requested library.
    let process: Vec<&ElfFacts> = objects
        .iter()
        .filter_map(|object| elf_at(rootfs, &object.real_path))
        .collect();
    // With an empty prefix every import would count as the library's.
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

/// The preloaded object that `object`'s imports of the library bind to, regardless of its `DT_NEEDED` entry. See
/// ld.so(8): "Additional, user-specified, ELF shared objects to be loaded before all others".
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

/// Whether an object defines an import at the requested version. An object without versions matches any.
fn defines(elf: &ElfFacts, import: &DynamicSymbol) -> bool {
    elf.symbols.iter().any(|symbol| {
        symbol.role == SymbolRole::Export
            && symbol.name == import.name
            && (import.version.is_none() || elf.verdef.is_empty() || symbol.version == import.version)
    })
}
