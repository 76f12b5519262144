//! The result of a program's request in one world, and the symbols that the result lacks.

use crate::facts::objects::credentials::SearchObstacle;
use crate::facts::objects::load_answer::LoadAnswer;
use crate::facts::objects::resolved_objects::elf_at;
use crate::facts::objects::start_failure::StartFailure;
use crate::facts::software::companions::CompanionLookup;
use crate::knowledge::LibraryProfile;
use image_linkage::elf::{ByteString, DynamicSymbol, ElfFacts, SymbolRole};
use image_linkage::loader::{LoadedObject, LoaderBudget, SearchStage, UnresolvedRequest};
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;

/// The result of a consumer's request in one world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerOutcome {
    /// The loader's answer, or that of the process that ends before its request.
    pub answer: LoadAnswer,
    /// The CUPTI symbols that the consumer imports but its copy does not export.
    pub missing_symbols: Vec<ByteString>,
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

impl From<LoadAnswer> for ConsumerOutcome {
    fn from(answer: LoadAnswer) -> Self {
        Self {
            answer,
            missing_symbols: Vec::new(),
            other_failures: Vec::new(),
            needs_driver: false,
            start_failure: None,
            unread: Vec::new(),
            companions: Vec::new(),
        }
    }
}

impl ConsumerOutcome {
    /// Shares equal searches with another outcome.
    pub(crate) fn share_searches(&mut self, other: Option<&Self>, budget: &LoaderBudget) {
        self.answer
            .search
            .share_with(other.map(|other| &other.answer.search), budget);
        for (number, companion) in self.companions.iter_mut().enumerate() {
            let same = other.and_then(|other| other.companions.get(number));
            companion
                .answer
                .search
                .share_with(same.map(|same| &same.answer.search), budget);
        }
        for failure in &self.other_failures {
            budget.keep_unresolved(failure);
        }
    }

    /// Adds the obstacle in the search, which the loader's message lacks.
    pub(crate) fn add_obstacle(&mut self, obstacle: &SearchObstacle) {
        let Err(failure) = &mut self.answer.result else { return };
        // If the last step was denied, the loader's message already says "permission denied", so only add the reason.
        let is_said = self
            .answer
            .search
            .steps()
            .last()
            .is_some_and(|step| step.denial().is_some());
        let words = match obstacle {
            SearchObstacle::Denied(denial) if is_said => denial.to_string(),
            SearchObstacle::Denied(denial) => format!("permission denied: {denial}"),
            SearchObstacle::Ignored(what, why) => format!("{what} is ignored: {why}"),
        };
        failure.message = format!("{} ({words})", failure.message);
    }

    /// The file that it gets, or would get if its process did not end first.
    pub(crate) fn requested_file(&self) -> Option<&RootPath> {
        match &self.start_failure {
            Some(failure) => failure.would_get.as_ref(),
            None => self.answer.real_path(),
        }
    }

    /// Marks that the process ends before its request, so it gets nothing.
    pub(crate) fn ended(mut self, mut failure: StartFailure) -> Self {
        failure.would_get = self.answer.real_path().cloned();
        if failure.finds_library || self.answer.is_loaded() {
            self.answer = failure.answer.clone();
            self.missing_symbols.clear();
            self.companions.clear();
        }
        self.start_failure = Some(failure);
        self
    }
}

/// The symbols that `object` imports and no object in its process exports, sorted by name. A performance library that
/// is not in the process is skipped, because it is already reported as missing.
pub(crate) fn find_missing_symbols(
    rootfs: &Rootfs,
    library: &LibraryProfile,
    object: &RootPath,
    objects: &[LoadedObject],
) -> Vec<ByteString> {
    let Some(consumer) = elf_at(rootfs, object) else {
        return Vec::new();
    };
    // ld.so binds symbols in the scope of the whole process, not only in the requested library.
    let process: Vec<&ElfFacts> = objects
        .iter()
        .filter_map(|object| elf_at(rootfs, &object.real_path))
        .collect();
    // With an empty prefix every import would count as the library's.
    let mut families: Vec<&[u8]> = Vec::new();
    if !library.symbols.is_empty() {
        families.push(library.symbols.as_bytes());
    }
    for family in &library.companion_symbols {
        if process.iter().any(|elf| exports_of(elf, family.as_bytes())) {
            families.push(family.as_bytes());
        }
    }
    let mut missing: Vec<ByteString> = Vec::new();
    for family in families {
        for import in imports_of(consumer, family) {
            if !process.iter().any(|elf| defines(elf, import)) {
                missing.push(import.name.clone());
            }
        }
    }
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
    if library.symbols.is_empty() {
        return None;
    }
    let consumer = elf_at(rootfs, object)?;
    let mut preloaded = objects.iter().filter(|object| object.how == SearchStage::Preload);
    preloaded.find(|object| {
        let mut imports = imports_of(consumer, library.symbols.as_bytes());
        elf_at(rootfs, &object.real_path).is_some_and(|elf| imports.any(|import| defines(elf, import)))
    })
}

fn imports_of<'e>(elf: &'e ElfFacts, family: &'e [u8]) -> impl Iterator<Item = &'e DynamicSymbol> {
    let symbols = elf.symbols.iter();
    symbols.filter(move |symbol| symbol.role == SymbolRole::Import && symbol.name.starts_with(family))
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
