//! Finds the consumers of CUPTI and what each would get.
//!
//! An object with a `DT_NEEDED` entry for libcupti is always a consumer. An object that calls dlopen is one if a
//! profile lists it, or if it contains the exact name as a string.

mod cupti_consumer;
mod library_request;
mod object_loader;

pub use self::cupti_consumer::CuptiConsumer;
pub(crate) use self::library_request::is_served_after;
pub(crate) use self::object_loader::{LibraryUsers, NeededLookup, ObjectLinks, follow_needed};

use self::library_request::{ConsumerRequest, gets, spell_names};
use self::object_loader::{KnownProfiles, LibraryUser, ObjectLoader};
use crate::facts::objects::process_context::ProcessContext;
use crate::facts::objects::resolved_objects::{elf_at, is_undetermined};
use crate::facts::objects::world::ByWorld;
use crate::facts::software::companions::CompanionRequest;
use crate::facts::software::consumer_outcome::ConsumerOutcome;
use crate::facts::software::cupti_files::CuptiFiles;
use crate::facts::software::file_owner;
use crate::facts::software::opened_names::{OpenedNames, TextReader, UndecidedOpener};
use crate::facts::software::process_variants::ProcessVariants;
use crate::facts::software::python;
use crate::facts::software::source_openers::{
    SourceOpener, find_doubt, find_source_doubt, find_source_openers, opened_by_command,
};
use crate::knowledge::{
    ConsumerProfile, FailureImpact, Knowledge, LibraryProfile, RequestKind, is_known_part, opens_library,
};
use image_linkage::elf::ByteString;
use image_linkage::escape;
use image_linkage::loader::RequestOutcome;
use image_linkage::path::RootPath;
use python_path::PythonDistribution;
use python_path::is_source;
use std::collections::BTreeSet;

/// Finds the consumers with their results, and the objects whose requests cannot be determined statically.
pub(crate) fn find_consumers(
    contexts: &ByWorld<ProcessContext>,
    found: &CuptiFiles,
    knowledge: &Knowledge,
    profiles: &[ConsumerProfile],
    distributions: &[PythonDistribution],
    circumstances: &Circumstances<'_>,
) -> (Vec<CuptiConsumer>, Vec<UndecidedOpener>) {
    // The library's own files and the parts of known programs are reported elsewhere.
    let is_told_elsewhere = |name: &[u8]| knowledge.library.is_family(name) || is_known_part(profiles, name);
    let texts = TextReader::new(&contexts.as_is, knowledge, found, distributions);
    let sources = find_source_openers(&contexts.as_is.rootfs, knowledge.library, profiles, found);
    let (mut consumers, mut undecided) = (Vec::new(), Vec::new());
    for object in list_askers(found, knowledge, profiles) {
        let Some(elf) = elf_at(&contexts.as_is.rootfs, &object) else {
            continue;
        };
        let profile = profiles.iter().find(|profile| profile.fits(&object));
        let known = KnownProfiles {
            own: profile,
            before: None,
            all: profiles,
        };
        let needed = elf.needed.iter().find(|name| knowledge.library.is_request(name));
        // The loader resolves a DT_NEEDED entry before any code runs, so strings in the object do not matter.
        let (asks, opened) = match needed {
            Some(name) => (RequestKind::Needed, OpenedNames::from_needed(name)),
            None => (RequestKind::Dlopen, texts.find_opened_names(&object, elf, profile)),
        };
        // In a static program, glibc's dlopen needs libraries that match the C library in it (elf/dl-support.c). In
        // musl it always fails.
        if asks == RequestKind::Dlopen && elf.is_static() {
            undecided.extend(opened.known().is_some().then(|| opened.into_undecided(object)));
            continue;
        }
        let ask =
            |names: &[ByteString]| consumer(contexts, knowledge.library, &object, known, asks, names, circumstances);
        match settle_names(&opened, found, &ask) {
            Some(consumer) => match find_doubt(
                &contexts.as_is,
                knowledge.library,
                &consumer,
                profiles,
                (&sources, found),
            ) {
                Some(doubt) => undecided.push(doubt),
                None => add_consumer(
                    &mut consumers,
                    with_openers_before(consumer, contexts, found, &sources),
                    &contexts.as_is,
                ),
            },
            None if opened.is_silent() || is_told_elsewhere(object.name()) => {}
            None => undecided.push(opened.into_undecided(object.clone())),
        }
        for variant in profile.iter().flat_map(|profile| &profile.variants) {
            if texts.has_relative(&object, &variant.names) {
                let names: Vec<ByteString> = variant.names.iter().map(|name| name.as_bytes().into()).collect();
                consumers.push(CuptiConsumer {
                    name: variant.name.clone(),
                    ..ask(&names)
                });
            }
        }
    }
    let (asking, open) = ask_sources(contexts, knowledge.library, sources, profiles, circumstances);
    for consumer in asking {
        add_consumer(&mut consumers, consumer, &contexts.as_is);
    }
    undecided.extend(open);
    (consumers, undecided)
}

/// Adds the libraries that earlier code may have opened: the container's own script, or a module that the import runs.
fn with_openers_before(
    mut consumer: CuptiConsumer,
    contexts: &ByWorld<ProcessContext>,
    found: &CuptiFiles,
    sources: &[SourceOpener],
) -> CuptiConsumer {
    let by_command = || opened_by_command(&contexts.as_is, &consumer, sources);
    consumer.open = consumer.open.clone().or_else(by_command);
    let gets = consumer.outcome.as_is.real_path.as_ref();
    let has_others = gets.is_some_and(|gets| found.files.iter().any(|(file, _)| file != gets));
    if consumer.profile.is_none() && has_others && consumer.undecided_words().is_none() {
        let imported = python::import_object(&contexts.as_is.python, &contexts.as_is.rootfs, &consumer.object);
        let module = imported
            .and_then(Result::ok)
            .and_then(|imported| imported.opening_module());
        consumer.other_copies =
            module.map(|module| format!("which copy it gets is not known: {module} opens libraries before"));
    }
    consumer
}

/// Adds a consumer, and shares its search traces with those of the previous one.
fn add_consumer(consumers: &mut Vec<CuptiConsumer>, mut consumer: CuptiConsumer, context: &ProcessContext) {
    let before = consumers.last().map(|before| &before.outcome);
    let (as_is, nvidia) = (before.map(|before| &before.as_is), before.map(|before| &before.nvidia));
    consumer.outcome.as_is.share_traces(as_is, &context.budget);
    consumer.outcome.nvidia.share_traces(nvidia, &context.budget);
    consumers.push(consumer);
}

/// Splits Python modules that open the library: consumers, whose text contains the whole name, and undecided ones.
fn ask_sources(
    contexts: &ByWorld<ProcessContext>,
    library: &LibraryProfile,
    sources: Vec<SourceOpener>,
    profiles: &[ConsumerProfile],
    circumstances: &Circumstances<'_>,
) -> (Vec<CuptiConsumer>, Vec<UndecidedOpener>) {
    let known = KnownProfiles {
        own: None,
        before: None,
        all: profiles,
    };
    let asks = RequestKind::Dlopen;
    let (whole, open): (Vec<_>, Vec<_>) = sources.into_iter().partition(|source| source.text.hints.is_empty());
    let ask = |source: SourceOpener| {
        let (path, names) = (&source.path, &source.text.exact);
        consumer(contexts, library, path, known, asks, names, circumstances)
    };
    let may_open = |SourceOpener { path, text }: SourceOpener| UndecidedOpener {
        object: path,
        profile: None,
        holds: text.exact.into_iter().chain(text.hints).collect(),
        after: None,
    };
    let mut undecided: Vec<UndecidedOpener> = open.into_iter().map(may_open).collect();
    let mut consumers: Vec<CuptiConsumer> = whole.into_iter().map(ask).collect();
    consumers.retain(|consumer| {
        let doubt = find_source_doubt(&contexts.as_is, consumer);
        undecided.extend(doubt.clone());
        doubt.is_none()
    });
    (consumers, undecided)
}

/// Known programs that request nothing, because the library is part of them or was left out. Only their start matters.
pub(crate) fn find_silent_programs(
    contexts: &ByWorld<ProcessContext>,
    library: &LibraryProfile,
    profiles: &[ConsumerProfile],
    objects: impl Iterator<Item = RootPath>,
    circumstances: &Circumstances<'_>,
) -> Vec<CuptiConsumer> {
    let ask = |object: RootPath| {
        let known = KnownProfiles {
            own: profiles.iter().find(|profile| profile.fits(&object)),
            before: None,
            all: profiles,
        };
        consumer(
            contexts,
            library,
            &object,
            known,
            RequestKind::Needed,
            &[],
            circumstances,
        )
    };
    objects.map(ask).collect()
}

/// The objects that request the library, without duplicates, by path.
fn list_askers(found: &CuptiFiles, knowledge: &Knowledge, profiles: &[ConsumerProfile]) -> BTreeSet<RootPath> {
    // Objects in a tool's own directory find that tool's CUPTI. They count only if a profile lists them.
    let is_asker =
        |path: &&RootPath| opens_library(profiles, path) || !file_owner::is_private_copy(knowledge.tables, path);
    found.askers.iter().filter(is_asker).cloned().collect()
}

/// The consumer for an object and the names that it opens; `None` if they cannot be determined statically.
fn settle_names(
    opened: &OpenedNames,
    found: &CuptiFiles,
    ask: &dyn Fn(&[ByteString]) -> CuptiConsumer,
) -> Option<CuptiConsumer> {
    let is_served = |consumer: &CuptiConsumer| consumer.outcome.as_is.asked_file().is_some();
    let ask_some = |names: &[ByteString]| Some(names).filter(|names| !names.is_empty()).map(ask);
    let known = opened.known().map(ask);
    // A name in the object's bytes that resolves is certain.
    if known.as_ref().is_some_and(is_served) {
        return known;
    }
    // An alias may match the file of another library.
    let is_copy = |path: &RootPath| found.files.iter().any(|(file, _)| file == path);
    let is_ours = |consumer: &CuptiConsumer| consumer.outcome.as_is.asked_file().is_some_and(is_copy);
    let aliased = ask_some(&opened.aliases).filter(|consumer| is_served(consumer) && is_ours(consumer));
    // A request that fails by its own name may still succeed through the object's other strings.
    let may_get = |other: &CuptiConsumer| is_served(other) || other.open.is_some();
    let may_get_other = || ask_some(&opened.possible).as_ref().is_some_and(may_get);
    aliased.or_else(|| known.filter(|_| !opened.looks_elsewhere && !may_get_other()))
}

/// The context of a program's request.
pub(crate) struct Circumstances<'c> {
    /// The companion libraries that are requested beside the library.
    pub wanted: &'c [CompanionRequest],
    /// Other ways in which processes may start.
    pub variants: &'c ProcessVariants,
    pub users: LibraryUsers<'c>,
    pub links: ObjectLinks<'c>,
}

fn consumer(
    contexts: &ByWorld<ProcessContext>,
    library: &LibraryProfile,
    object: &RootPath,
    known: KnownProfiles<'_>,
    asks: RequestKind,
    names: &[ByteString],
    circumstances: &Circumstances<'_>,
) -> CuptiConsumer {
    let profile = known.own;
    let mut asker = ConsumerRequest {
        object,
        asks,
        names,
        known,
        user: None,
        opened_as: None,
    };
    let ask =
        |context: &ProcessContext, asker: &ConsumerRequest<'_>| gets(context, library, asker, circumstances.wanted);
    let mut outcome = ByWorld::map(contexts, |context| ask(context, &asker));
    let loader = ObjectLoader::find(&contexts.as_is, object);
    if matches!(loader, ObjectLoader::Unknown) {
        let is_served = outcome.as_is.outcome == RequestOutcome::Loaded;
        let users = circumstances.users.of(&contexts.as_is, object);
        let with = |user| ConsumerRequest {
            user: Some(user),
            ..asker
        };
        asker.user = deciding_user(&users, is_served, |user| ask(&contexts.as_is, &with(user)));
        if asker.user.is_some() {
            outcome = ByWorld::map(contexts, |context| ask(context, &asker));
        }
    }
    let variants = circumstances.variants;
    let answer = variants.judge_outcome(&outcome.as_is, |context| ask(context, &asker));
    let open = answer.open.or_else(|| contexts.as_is.budget_end());
    let nobody = asker.user.is_none() && matches!(loader, ObjectLoader::Unknown | ObjectLoader::Nobody(_));
    let links = circumstances.links.that_move(&contexts.as_is.rootfs, object);
    let by_link = |link| {
        let opened_as = Some(link);
        ask(&contexts.as_is, &ConsumerRequest { opened_as, ..asker })
    };
    let open = open.or_else(|| deciding_link(links.filter(|_| nobody), outcome.as_is.outcome, by_link));
    let gets = &outcome.as_is;
    let is_damaged = gets.outcome == RequestOutcome::Refused && is_undetermined(&gets.trace);
    let open = open.or_else(|| is_damaged.then(|| gets.message.clone()));
    let by = asker.user.map_or(object, |user| user.object);
    let loader = asker.user.map_or(loader, |_| ObjectLoader::find(&contexts.as_is, by));
    let (program, python) = match loader {
        ObjectLoader::Program => (Some(by.clone()), None),
        ObjectLoader::Python(imported) => (Some(imported.program().clone()), Some(imported.used_by())),
        ObjectLoader::Nobody(why) => (None, Some(why)),
        ObjectLoader::User(..) | ObjectLoader::Unknown => (None, None),
    };
    let names = &*spell_names(&contexts.as_is, object, known.own, names);
    // Reports show a bare name if there is one; the path of a wheel's own copy is only the first attempt.
    let bare = names.iter().find(|name| !name.contains(&b'/'));
    let opened = || names.iter().find(|name| outcome.as_is.path.as_ref() == Some(*name));
    let wants = bare.or_else(opened).or(names.first()).cloned().unwrap_or_default();
    // Without a profile: a missing DT_NEEDED entry stops the program, while a program can handle a failed dlopen.
    let required = match (profile, asks) {
        (Some(profile), _) => profile.required,
        (None, RequestKind::Needed) => FailureImpact::Import,
        (None, RequestKind::Dlopen) => FailureImpact::Profiling,
    };
    CuptiConsumer {
        profile: profile.map(|profile| profile.id.clone()),
        name: profile.map_or_else(|| shown_name(object), |profile| profile.name.clone()),
        required,
        unloaded: profile.and_then(|profile| profile.unloaded).unwrap_or(required),
        object: object.clone(),
        asks,
        wants,
        program,
        python,
        outcome,
        open,
        other_copies: answer.other_copies,
        basis: answer.basis,
    }
}

/// Returns why the link through which a library is opened matters: one gives a different result than the real path.
fn deciding_link<'l>(
    mut links: impl Iterator<Item = &'l RootPath>,
    answer: RequestOutcome,
    ask: impl Fn(&'l RootPath) -> ConsumerOutcome,
) -> Option<String> {
    let other = links.find(|link| ask(link).outcome != answer)?;
    Some(format!("it gets another answer where it is opened as {other}"))
}

/// Selects the process in which to judge a library without a known loader: the first user whose process gets the
/// library. If the library resolves by itself, the first user counts, and only if none of the users starts.
fn deciding_user<'u>(
    users: &[LibraryUser<'u>],
    is_served: bool,
    ask: impl Fn(LibraryUser<'u>) -> ConsumerOutcome,
) -> Option<LibraryUser<'u>> {
    let mut all = users.iter().copied();
    if is_served {
        return users
            .first()
            .copied()
            .filter(|_| all.all(|user| ask(user).start_failure.is_some()));
    }
    // A program's search paths apply to its libraries' dlopen calls, and the objects that it has mapped are reused.
    all.find(|user| {
        let gets = ask(*user);
        gets.outcome == RequestOutcome::Loaded && gets.start_failure.is_none()
    })
}

/// The name in reports of an object without a profile.
fn shown_name(object: &RootPath) -> String {
    // Modules in different packages often share a name, so show the package too.
    let package = is_source(object.name()).then(|| object.parent());
    let shown = match package {
        Some(package) => [package.name(), b"/", object.name()].concat(),
        None => object.name().to_vec(),
    };
    escape::escape_bytes(&shown)
}
