//! Finds the consumers of CUPTI and what each would get.
//!
//! An object with a `DT_NEEDED` entry for libcupti is always a consumer. An object that calls dlopen is one if a
//! profile lists it, or if it contains the exact name as a string.

mod cupti_consumer;
mod library_request;
mod object_loader;
mod trial;

pub use self::cupti_consumer::CuptiConsumer;
pub(crate) use self::library_request::is_served_after;
pub(crate) use self::object_loader::{LibraryUsers, NeededLookup, ObjectLinks, follow_needed};
pub(crate) use self::trial::TrialCase;

use self::library_request::ConsumerRequest;
use self::trial::ConsumerTrial;
use crate::facts::objects::resolved_objects::elf_at;
use crate::facts::software::file_owner;
use crate::facts::software::imported_object::import_object;
use crate::facts::software::opened_names::{OpenedNames, TextReader, UndecidedOpener};
use crate::facts::software::source_openers::{
    SourceOpener, find_doubt, find_source_doubt, find_source_openers, opened_by_command,
};
use crate::knowledge::{RequestKind, is_known_part, opens_library};
use image_linkage::elf::{ByteString, ElfFacts};
use image_linkage::path::RootPath;
use std::collections::BTreeSet;

/// The consumers with their results, and the objects whose requests cannot be determined statically.
#[derive(Default)]
pub(crate) struct FoundConsumers {
    pub consumers: Vec<CuptiConsumer>,
    pub undecided: Vec<UndecidedOpener>,
}

impl FoundConsumers {
    pub(crate) fn find(case: &TrialCase<'_>) -> Self {
        let mut found = Self::default();
        let sources = find_source_openers(case);
        let search = ConsumerSearch {
            case,
            texts: TextReader::new(&case.contexts.as_is, case.knowledge, case.found, case.distributions),
            sources: &sources,
        };
        for object in list_requesters(case) {
            if let Some(elf) = elf_at(&case.contexts.as_is.rootfs, &object) {
                search.try_object(&object, elf, &mut found);
            }
        }
        found.try_sources(case, &sources);
        found
    }

    /// Adds a consumer, and shares its searches with those of the previous one.
    fn add(&mut self, case: &TrialCase<'_>, mut consumer: CuptiConsumer) {
        let before = self.consumers.last().map(|before| &before.outcome);
        let budget = &case.contexts.as_is.budget;
        let outcome = &mut consumer.outcome;
        outcome.as_is.share_searches(before.map(|before| &before.as_is), budget);
        outcome
            .nvidia
            .share_searches(before.map(|before| &before.nvidia), budget);
        self.consumers.push(consumer);
    }

    /// Splits Python modules that open the library: consumers, whose text contains the whole name, and undecided ones.
    fn try_sources(&mut self, case: &TrialCase<'_>, sources: &[SourceOpener]) {
        let (whole, open): (Vec<_>, Vec<_>) = sources.iter().partition(|source| source.text.hints.is_empty());
        for SourceOpener { path, text } in open {
            self.undecided.push(UndecidedOpener {
                object: path.clone(),
                profile: None,
                holds: text.exact.iter().chain(&text.hints).cloned().collect(),
                after: None,
            });
        }
        for SourceOpener { path, text } in whole {
            let mut request = case.request(path, RequestKind::Dlopen, &text.exact);
            request.known.own = None;
            let consumer = ConsumerTrial::run(case, request);
            match find_source_doubt(&case.contexts.as_is, &consumer) {
                Some(doubt) => self.undecided.push(doubt),
                None => self.add(case, consumer),
            }
        }
    }
}

struct ConsumerSearch<'s, 'c> {
    case: &'s TrialCase<'c>,
    texts: TextReader<'s>,
    sources: &'s [SourceOpener],
}

impl ConsumerSearch<'_, '_> {
    fn try_object(&self, object: &RootPath, elf: &ElfFacts, found: &mut FoundConsumers) {
        let (case, library) = (self.case, self.case.knowledge.library);
        let profile = case.profile_of(object);
        // The loader resolves a DT_NEEDED entry before any code runs, so strings in the object do not matter.
        let (kind, opened) = match elf.needed.iter().find(|name| library.is_request(name)) {
            Some(name) => (RequestKind::Needed, OpenedNames::from_needed(name)),
            None => (RequestKind::Dlopen, self.texts.find_opened_names(object, elf, profile)),
        };
        // In a static program, glibc's dlopen needs libraries that match the C library in it (elf/dl-support.c). In
        // musl it always fails.
        if kind == RequestKind::Dlopen && elf.is_static() {
            if opened.known().is_some() {
                found.undecided.push(opened.into_undecided(object.clone()));
            }
            return;
        }
        match settle_names(case, &case.request(object, kind, &[]), &opened) {
            Some(consumer) => match find_doubt(case, &consumer, self.sources) {
                Some(doubt) => found.undecided.push(doubt),
                None => found.add(case, self.with_openers_before(consumer)),
            },
            // The library's own files and the parts of known programs are reported elsewhere.
            None if opened.is_silent()
                || library.is_family(object.name())
                || is_known_part(case.profiles, object.name()) => {}
            None => found.undecided.push(opened.into_undecided(object.clone())),
        }
        for variant in profile.iter().flat_map(|profile| &profile.variants) {
            if self.texts.has_relative(object, &variant.names) {
                let names: Vec<ByteString> = variant.names.iter().map(|name| name.as_bytes().into()).collect();
                found.consumers.push(CuptiConsumer {
                    name: variant.name.clone(),
                    ..ConsumerTrial::run(case, case.request(object, kind, &names))
                });
            }
        }
    }

    /// Adds the libraries that earlier code may have opened: the container's own script, or a module that the import
    /// runs.
    fn with_openers_before(&self, mut consumer: CuptiConsumer) -> CuptiConsumer {
        let context = &self.case.contexts.as_is;
        if consumer.open.is_none() {
            consumer.open = opened_by_command(context, &consumer, self.sources);
        }
        let copy = consumer.outcome.as_is.answer.real_path();
        let has_others = copy.is_some_and(|copy| self.case.found.files.iter().any(|(file, _)| file != copy));
        if consumer.profile.is_none() && has_others && consumer.undecided_words().is_none() {
            let imported = import_object(&context.python, &context.rootfs, &consumer.object);
            let module = imported
                .and_then(Result::ok)
                .and_then(|imported| imported.opening_module());
            consumer.other_copies =
                module.map(|module| format!("which copy it gets is not known: {module} opens libraries before"));
        }
        consumer
    }
}

/// The consumer for an object and the names that it opens; `None` if they cannot be determined statically.
fn settle_names(case: &TrialCase<'_>, request: &ConsumerRequest<'_>, opened: &OpenedNames) -> Option<CuptiConsumer> {
    let mut known = None;
    if let Some(names) = opened.known() {
        let consumer = ConsumerTrial::run(case, ConsumerRequest { names, ..*request });
        // A name in the object's bytes that resolves is certain.
        if requested_file(&consumer).is_some() {
            return Some(consumer);
        }
        known = Some(consumer);
    }
    if let Some(consumer) = try_names(case, request, &opened.aliases)
        && let Some(requested) = requested_file(&consumer)
        // An alias may match the file of another library.
        && case.found.files.iter().any(|(file, _)| file == requested)
    {
        return Some(consumer);
    }
    if opened.looks_elsewhere || known.is_none() {
        return None;
    }
    // A request that fails by its own name may still succeed through the object's other strings.
    match try_names(case, request, &opened.possible) {
        Some(other) if requested_file(&other).is_some() || other.open.is_some() => None,
        _ => known,
    }
}

fn try_names(case: &TrialCase<'_>, request: &ConsumerRequest<'_>, names: &[ByteString]) -> Option<CuptiConsumer> {
    if names.is_empty() {
        return None;
    }
    Some(ConsumerTrial::run(case, ConsumerRequest { names, ..*request }))
}

fn requested_file(consumer: &CuptiConsumer) -> Option<&RootPath> {
    consumer.outcome.as_is.requested_file()
}

/// Known programs that request nothing, because the library is part of them or was left out. Only their start matters.
pub(crate) fn find_silent_programs(
    case: &TrialCase<'_>,
    objects: impl Iterator<Item = RootPath>,
) -> Vec<CuptiConsumer> {
    objects
        .map(|object| ConsumerTrial::run(case, case.request(&object, RequestKind::Needed, &[])))
        .collect()
}

/// The objects that request the library, without duplicates, by path.
fn list_requesters(case: &TrialCase<'_>) -> BTreeSet<RootPath> {
    // Objects in a tool's own directory find that tool's CUPTI. They count only if a profile lists them.
    let requesters =
        case.found.requesters.iter().filter(|path| {
            opens_library(case.profiles, path) || !file_owner::is_private_copy(case.knowledge.tables, path)
        });
    requesters.cloned().collect()
}
