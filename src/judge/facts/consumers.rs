//! Who asks for CUPTI, and what each would get.
//!
//! An object that needs libcupti is a consumer whatever its name; one that opens it at run time is one when a
//! profile knows it, or when it holds the exact name as a string.

use super::companions::{self, CompanionRequest};
use super::consumer_outcome::ConsumerOutcome;
use super::credentials;
use super::cupti_files::CuptiFiles;
use super::file_owner;
use super::library_aliases::last_part;
use super::missing_symbols;
use super::opened_names::{OpenedNames, TextReader, UndecidedOpener};
use super::process_context::ProcessContext;
use super::process_variants::ProcessVariants;
use super::python::{self, ImportedObject, PythonUse};
use super::python_distributions::PythonDistribution;
use super::resolved_objects::{elf_at, opened_object, unresolved_objects};
use super::source_openers::{SourceOpener, find_doubt, find_source_doubt, find_source_openers};
use super::world::ByWorld;
use crate::knowledge::{
    self, ConsumerProfile, FailureImpact, Knowledge, LibraryProfile, RequestKind, is_known_part, opens_library,
};
use image_linkage::elf::{ByteString, ElfFacts, SymbolRole};
use image_linkage::escape;
use image_linkage::layer::FileFacts;
use image_linkage::loader::{
    LoadRefusal, LoadResolution, ProcessSetup, RequestOutcome, SearchStep, SimulatedProcess, StartMode, TriedFile,
};
use image_linkage::path::RootPath;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An object that asks for CUPTI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CuptiConsumer {
    /// The id of its profile, where one knows it.
    pub profile: Option<String>,
    /// The name of the program, from its profile, else the file's.
    pub name: String,
    /// The file that asks, without links.
    pub object: RootPath,
    /// Whether it needs CUPTI or opens it.
    pub asks: RequestKind,
    /// The name it asks for; the first of several.
    pub wants: ByteString,
    /// What breaks without it.
    pub required: FailureImpact,
    /// The program that loads the object, where it is known; the object itself, where that is a program.
    pub program: Option<RootPath>,
    /// The Python that imports it, or why none does; `None` for what is no part of a package.
    pub python: Option<PythonUse>,
    /// What becomes of its request in each world.
    pub outcome: ByWorld<ConsumerOutcome>,
    /// Why only a run could tell what becomes of it in the image as it is; the outcome is then that without what is not
    /// known.
    pub open: Option<String>,
    /// Why it may get another copy than that, where it gets one for sure.
    pub other_copies: Option<String>,
}

impl CuptiConsumer {
    /// Whether it gets the library in the image as it is, for sure.
    pub fn is_served(&self) -> bool {
        self.open.is_none() && self.outcome.as_is.outcome == RequestOutcome::Loaded
    }

    /// Why only a run could tell what it gets, if so: what is not known of its process, or of a damaged file.
    pub fn undecided_words(&self) -> Option<&str> {
        let gets = &self.outcome.as_is;
        let is_unforetold = |step: &SearchStep| match step {
            SearchStep::Tried { tried, .. } => matches!(tried, TriedFile::Refused(LoadRefusal::Unforetold(_))),
            _ => false,
        };
        let is_damaged = gets.outcome == RequestOutcome::Refused && gets.trace.iter().any(is_unforetold);
        let open = self.open.as_deref().or(self.other_copies.as_deref());
        open.or(Some(gets.message.as_str()).filter(|_| is_damaged))
    }

    /// Why no Python of the image imports it as that starts, where it is part of a package.
    pub fn unreachable(&self) -> Option<&str> {
        match &self.python {
            Some(PythonUse::Unreachable { why, .. }) => Some(why),
            _ => None,
        }
    }

    /// Whether it asks for the library and does not get it in the image as it is, for sure.
    pub fn misses_library(&self) -> bool {
        let outcome = self.outcome.as_is.outcome;
        // What no Python imports asks for nothing.
        self.unreachable().is_none()
            && self.open.is_none()
            && matches!(outcome, RequestOutcome::NotFound | RequestOutcome::Refused)
    }
}

/// Finds the consumers and what each gets, and the objects of which only a run could tell what they open.
pub(super) fn find_consumers(
    contexts: &ByWorld<ProcessContext>,
    found: &CuptiFiles,
    knowledge: &Knowledge,
    profiles: &[ConsumerProfile],
    distributions: &[PythonDistribution],
    circumstances: &Circumstances<'_>,
) -> (Vec<CuptiConsumer>, Vec<UndecidedOpener>) {
    // What the library's own files and the parts of known programs hold is no news.
    let is_told_elsewhere = |name: &[u8]| knowledge.library.is_family(name) || is_known_part(profiles, name);
    let texts = TextReader::new(&contexts.as_is.rootfs, knowledge, found, distributions);
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
        // A DT_NEEDED entry decides before any code runs, so that a string beside it adds nothing.
        let (asks, opened) = match needed {
            Some(name) => (RequestKind::Needed, OpenedNames::from_needed(name)),
            None => (RequestKind::Dlopen, texts.find_opened_names(&object, elf, profile)),
        };
        // Of glibc a static program opens what fits the C library in it (elf/dl-support.c), of musl nothing at all.
        if asks == RequestKind::Dlopen && elf.is_static() {
            undecided.extend(opened.known().is_some().then(|| opened.into_undecided(object)));
            continue;
        }
        let ask =
            |names: &[ByteString]| consumer(contexts, knowledge.library, &object, known, asks, names, circumstances);
        match settle_names(&opened, found, &ask) {
            Some(consumer) => match find_doubt(&contexts.as_is, knowledge.library, &consumer, profiles, &sources) {
                Some(doubt) => undecided.push(doubt),
                None => consumers.push(consumer),
            },
            None if opened.is_silent() || is_told_elsewhere(object.name()) => {}
            None => undecided.push(opened.into_undecided(object.clone())),
        }
        for variant in profile.iter().flat_map(|profile| &profile.variants) {
            let beside = texts.library_beside(&object, &variant.beside);
            consumers.extend(beside.map(|path| CuptiConsumer {
                name: variant.name.clone(),
                ..ask(&[path])
            }));
        }
    }
    let ask = |path: &RootPath, names: &[ByteString]| {
        let nobody = KnownProfiles {
            own: None,
            before: None,
            all: profiles,
        };
        let asks = RequestKind::Dlopen;
        consumer(contexts, knowledge.library, path, nobody, asks, names, circumstances)
    };
    for SourceOpener { path, text } in sources {
        if text.hints.is_empty() {
            let consumer = ask(&path, &text.exact);
            match find_source_doubt(&contexts.as_is, &consumer) {
                Some(doubt) => undecided.push(doubt),
                None => consumers.push(consumer),
            }
        } else {
            undecided.push(UndecidedOpener {
                object: path,
                profile: None,
                holds: text.exact.into_iter().chain(text.hints).collect(),
                after: None,
            });
        }
    }
    (consumers, undecided)
}

/// The objects that ask for the library, each once, by path.
fn list_askers(found: &CuptiFiles, knowledge: &Knowledge, profiles: &[ConsumerProfile]) -> BTreeSet<RootPath> {
    // What lies in a tool's own folder finds that tool's CUPTI; it is asked about where a profile knows it.
    let is_asker =
        |path: &&RootPath| opens_library(profiles, path) || !file_owner::is_private_copy(knowledge.tables, path);
    found.askers.iter().filter(is_asker).cloned().collect()
}

/// Whether an object of no profile gets what it wants once another program's package is imported before it.
pub(super) fn is_served_after(
    context: &ProcessContext,
    library: &LibraryProfile,
    consumer: &CuptiConsumer,
    before: &ConsumerProfile,
    all: &[ConsumerProfile],
) -> bool {
    let asker = ConsumerRequest {
        object: &consumer.object,
        asks: consumer.asks,
        names: std::slice::from_ref(&consumer.wants),
        known: KnownProfiles {
            own: None,
            before: Some(before),
            all,
        },
        user: None,
    };
    gets(context, library, &asker, &[]).outcome == RequestOutcome::Loaded
}

/// The consumer that an object is by the names that it opens; nothing where only a run could tell.
fn settle_names(
    opened: &OpenedNames,
    found: &CuptiFiles,
    ask: &dyn Fn(&[ByteString]) -> CuptiConsumer,
) -> Option<CuptiConsumer> {
    let is_served = |consumer: &CuptiConsumer| consumer.outcome.as_is.outcome == RequestOutcome::Loaded;
    let ask_some = |names: &[ByteString]| Some(names).filter(|names| !names.is_empty()).map(ask);
    let known = opened.known().map(ask);
    // Whoever gets what its bytes name gets it.
    if known.as_ref().is_some_and(is_served) {
        return known;
    }
    // A file of an alias' name that is another library is none of ours.
    let is_copy = |path: &RootPath| found.files.iter().any(|(file, _)| file == path);
    let is_ours = |consumer: &CuptiConsumer| consumer.outcome.as_is.real_path.as_ref().is_some_and(is_copy);
    let aliased = ask_some(&opened.aliases).filter(|consumer| is_served(consumer) && is_ours(consumer));
    // One that gets nothing by its name may open what comes of its other texts.
    let may_get_other = || ask_some(&opened.possible).as_ref().is_some_and(is_served);
    aliased.or_else(|| known.filter(|_| !opened.looks_elsewhere && !may_get_other()))
}

/// What lies around a program that asks.
pub(super) struct Circumstances<'c> {
    /// The libraries beside the library that are asked for as well.
    pub wanted: &'c [CompanionRequest],
    /// How else processes may start.
    pub variants: &'c ProcessVariants,
    pub users: LibraryUsers<'c>,
}

/// The programs that need a library, or open one by a text that ends in its name, by that name; a few of many.
pub(super) struct LibraryUsers<'c>(BTreeMap<&'c [u8], Vec<&'c RootPath>>);

impl<'c> LibraryUsers<'c> {
    pub(super) fn new(objects: &'c [(RootPath, Arc<FileFacts>)]) -> Self {
        let mut users: BTreeMap<&[u8], Vec<&RootPath>> = BTreeMap::new();
        for (path, facts) in objects {
            let programs = facts.elf.as_deref().filter(|elf| elf.is_program()).into_iter();
            let texts = programs.flat_map(|elf| elf.needed.iter().chain(&elf.mentions));
            for name in texts.map(|text| last_part(text)).collect::<BTreeSet<_>>() {
                let of_name = users.entry(name).or_default();
                if of_name.len() < USERS {
                    of_name.push(path);
                }
            }
        }
        Self(users)
    }

    fn of(&self, object: &RootPath) -> impl Iterator<Item = &'c RootPath> {
        self.0.get(object.name()).into_iter().flatten().copied()
    }
}

/// The programs of one library that are looked at.
const USERS: usize = 4;

/// The profile of an object, and those of the packages that its own may import.
#[derive(Clone, Copy)]
struct KnownProfiles<'p> {
    own: Option<&'p ConsumerProfile>,
    /// One that may be imported before an object of no profile.
    before: Option<&'p ConsumerProfile>,
    all: &'p [ConsumerProfile],
}

impl<'p> KnownProfiles<'p> {
    /// The profile of what is imported before an object: its own, else that of the package whose libraries it needs.
    fn imported(&self, elf: Option<&ElfFacts>) -> Option<&'p ConsumerProfile> {
        let needed = elf.map(|elf| elf.needed.as_slice()).unwrap_or_default();
        let brings = |profile: &&ConsumerProfile| {
            let mut names = profile.python.iter().flat_map(|python| &python.brings);
            names.any(|name| needed.iter().any(|needed| **needed == *name.as_bytes()))
        };
        self.own.or(self.before).or_else(|| self.all.iter().find(brings))
    }
}

/// What an object is called in reports that no profile knows.
fn shown_name(object: &RootPath) -> String {
    // Modules of many packages have one name.
    let package = python::is_source(object.name()).then(|| object.parent());
    let shown = match package {
        Some(package) => [package.name(), b"/", object.name()].concat(),
        None => object.name().to_vec(),
    };
    escape::escape_bytes(&shown)
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
    };
    let ask =
        |context: &ProcessContext, asker: &ConsumerRequest<'_>| gets(context, library, asker, circumstances.wanted);
    let mut outcome = ByWorld::map(contexts, |context| ask(context, &asker));
    let loader = ObjectLoader::find(&contexts.as_is, object);
    // The search paths of a program count for what its libraries open (elf/dl-load.c, `_dl_map_object`), and what it has
    // mapped is there for them.
    if matches!(loader, ObjectLoader::Unknown) && outcome.as_is.outcome != RequestOutcome::Loaded {
        let mut users = circumstances.users.of(object);
        let served = |user: &&RootPath| {
            let asker = ConsumerRequest {
                user: Some(user),
                ..asker
            };
            ask(&contexts.as_is, &asker).outcome == RequestOutcome::Loaded
        };
        asker.user = users.find(served);
        if asker.user.is_some() {
            outcome = ByWorld::map(contexts, |context| ask(context, &asker));
        }
    }
    let (open, other_copies) = circumstances
        .variants
        .open_reasons(&outcome.as_is, |context| ask(context, &asker));
    let (program, python) = match loader {
        ObjectLoader::Program => (Some(object.clone()), None),
        ObjectLoader::Python(imported) => (Some(imported.program().clone()), Some(imported.used_by())),
        ObjectLoader::Nobody(why) => (None, Some(why)),
        ObjectLoader::User(_) | ObjectLoader::Unknown => (asker.user.cloned(), None),
    };
    // Reports show a bare name where there is one: the path of a wheel's own copy is only the first that is tried.
    let bare = names.iter().find(|name| !name.contains(&b'/'));
    let opened = || names.iter().find(|name| outcome.as_is.path.as_ref() == Some(*name));
    let wants = bare.or_else(opened).or(names.first()).cloned().unwrap_or_default();
    CuptiConsumer {
        profile: profile.map(|profile| profile.id.clone()),
        name: profile.map_or_else(|| shown_name(object), |profile| profile.name.clone()),
        // Without a profile: a missing DT_NEEDED entry stops the program, a dlopen that fails can be caught.
        required: match (profile, asks) {
            (Some(profile), _) => profile.required,
            (None, RequestKind::Needed) => FailureImpact::Import,
            (None, RequestKind::Dlopen) => FailureImpact::Profiling,
        },
        object: object.clone(),
        asks,
        wants,
        program,
        python,
        outcome,
        open,
        other_copies,
    }
}

/// Who loads an object.
enum ObjectLoader<'c> {
    /// It is a program itself.
    Program,
    /// The interpreter that finds it as part of a package.
    Python(ImportedObject<'c>),
    /// It is part of a package that no Python finds.
    Nobody(PythonUse),
    /// A program that needs it, or opens it by its path.
    User(&'c RootPath),
    /// A program that is not known.
    Unknown,
}

impl<'c> ObjectLoader<'c> {
    fn find(context: &'c ProcessContext, object: &RootPath) -> Self {
        if elf_at(&context.rootfs, object).is_some_and(ElfFacts::is_program) {
            return Self::Program;
        }
        match python::import_object(&context.python, &context.rootfs, object) {
            Some(Ok(imported)) => Self::Python(imported),
            Some(Err(why)) => Self::Nobody(why),
            None => Self::Unknown,
        }
    }
}

/// Who asks, and for what.
#[derive(Clone, Copy)]
struct ConsumerRequest<'a> {
    object: &'a RootPath,
    asks: RequestKind,
    names: &'a [ByteString],
    known: KnownProfiles<'a>,
    /// The program that loads the object, where no more is known of that than that it names it.
    user: Option<&'a RootPath>,
}

/// Starts who loads the object, and loads it into that process; where it is the program, what it starts with.
fn load(
    process: &mut SimulatedProcess<'_>,
    context: &ProcessContext,
    object: &RootPath,
    opener: &ObjectLoader<'_>,
    known: KnownProfiles<'_>,
) -> LoadResolution {
    match opener {
        ObjectLoader::Program => process.start(&object.absolute(), StartMode::Executed),
        ObjectLoader::Python(imported) => {
            let profile = known.imported(elf_at(&context.rootfs, object));
            imported.load(process, profile, known.all)
        }
        ObjectLoader::User(program) => {
            let started = process.start(&program.absolute(), StartMode::Executed);
            match process.map_of_path(object) {
                Some(_) => started,
                None => process.open(&object.absolute(), process.map_of_path(program)),
            }
        }
        ObjectLoader::Nobody(_) | ObjectLoader::Unknown => {
            process.start_unknown();
            process.open(&object.absolute(), None)
        }
    }
}

fn gets(
    context: &ProcessContext,
    library: &LibraryProfile,
    asker: &ConsumerRequest<'_>,
    wanted: &[CompanionRequest],
) -> ConsumerOutcome {
    let ConsumerRequest {
        object, names, known, ..
    } = *asker;
    let opener = asker
        .user
        .map_or_else(|| ObjectLoader::find(context, object), ObjectLoader::User);
    if let ObjectLoader::Nobody(PythonUse::Unreachable { why, .. }) = &opener {
        return ConsumerOutcome::not_found(why.clone());
    }
    let run = |setup: &ProcessSetup<'_>| {
        let mut process = SimulatedProcess::new(setup);
        let loaded = load(&mut process, context, object, &opener, known);
        let mut gets = match (asker.asks, loaded.root) {
            // An object that is not mapped asks for nothing: what keeps it away is the outcome.
            (RequestKind::Needed, _) | (_, None) => of_need(&loaded, names),
            (RequestKind::Dlopen, _) => {
                // The toolkit is looked for by a Python of its own.
                let find = |name: &[u8]| find_by_name(setup, &opener, name);
                let names = with_opened_files(&opener, known.own, &loaded, names, &find);
                let caller = caller(asker, &loaded);
                of_open(&mut process, caller, &names, opens_namespace(context, caller))
            }
        };
        let cupti = gets.real_path.as_ref();
        // Asked for in this very process: what is mapped by now answers, and its search paths count.
        gets.companions = companions::look_up_companions(&process, Some(object), cupti, wanted);
        gets.with_other_failures(&loaded, names)
    };
    let mut gets = context
        .with_setup(run)
        .unwrap_or_else(|| ConsumerOutcome::not_found("the image has no dynamic loader".to_owned()));
    if gets.outcome != RequestOutcome::Loaded {
        let obstacle = credentials::search_obstacle(&context.rootfs, names, &gets.trace);
        gets = gets.with_obstacle(obstacle);
    }
    if asker.asks == RequestKind::Needed && gets.outcome == RequestOutcome::Loaded {
        let objects = std::mem::take(&mut gets.objects);
        let called = missing_symbols::find_preloaded_library(&context.rootfs, library, object, &objects);
        if let Some(called) = called.filter(|called| gets.real_path.as_ref() != Some(&called.real_path)) {
            gets.path = Some(called.path.clone());
            gets.real_path = Some(called.real_path.clone());
            gets.how = Some(called.how);
            gets.trace.clone_from(&called.trace);
        }
        gets.objects = objects;
    }
    gets.missing_symbols = missing_symbols::find_missing_symbols(&context.rootfs, library, object, &gets);
    gets
}

/// What answers to a need that was followed.
pub(super) enum NeededLookup {
    To(RootPath),
    /// A library that the container runtime brings.
    Driver,
    /// Nothing, or nothing that can be told without the program that loads the object.
    Unknown,
}

/// Where the loader gets to from `object`, in the process that loads it, for a name that it needs.
pub(super) fn follow_needed(
    context: &ProcessContext,
    profiles: &[ConsumerProfile],
    object: &RootPath,
    name: &ByteString,
) -> NeededLookup {
    let run = |setup: &ProcessSetup<'_>| {
        let opener = ObjectLoader::find(context, object);
        let own = profiles.iter().find(|profile| profile.fits(object));
        let known = KnownProfiles {
            own,
            before: None,
            all: profiles,
        };
        let loaded = load(&mut SimulatedProcess::new(setup), context, object, &opener, known);
        let missing = loaded.unresolved.iter().find(|missing| missing.name == *name);
        match (loaded.object_for(name), missing.map(|missing| missing.outcome)) {
            // A name can be answered and fail all the same, where the object lacks a version that is asked for.
            (Some(found), None) => NeededLookup::To(found.real_path.clone()),
            (_, Some(RequestOutcome::ProvidedAtRuntime)) => NeededLookup::Driver,
            _ => NeededLookup::Unknown,
        }
    };
    context.with_setup(run).unwrap_or(NeededLookup::Unknown)
}

/// What became of the `DT_NEEDED` entry.
fn of_need(loaded: &LoadResolution, names: &[ByteString]) -> ConsumerOutcome {
    let wanted = names.first().cloned().unwrap_or_default();
    if let Some(refused) = loaded.unresolved.iter().find(|missing| missing.name == wanted) {
        return ConsumerOutcome::failed(refused, &loaded.objects);
    }
    match loaded.object_for(&wanted) {
        Some(object) => ConsumerOutcome::found(object, &loaded.objects),
        // The object was not mapped at all: what stopped it is the reason.
        None => match loaded.unresolved.first() {
            Some(first) => ConsumerOutcome::failed(first, &loaded.objects),
            None => ConsumerOutcome::not_found(format!("{}: not asked for", escape::escape_bytes(&wanted))),
        },
    }
}

/// The object whose code calls dlopen: the one that the profile says, where it is mapped, or the asker.
fn caller<'a>(asker: &ConsumerRequest<'a>, loaded: &'a LoadResolution) -> &'a RootPath {
    // dlopen searches the DT_RUNPATH of its caller: TensorFlow's call stands in libtensorflow_framework.so.
    if python::is_source(asker.object.name()) {
        // The call stands in ctypes, or in the program that has it built in.
        let opener = loaded.root.and_then(|root| loaded.objects.get(root));
        return opener.map_or(asker.object, |opener| &opener.real_path);
    }
    let mut paths = loaded.objects.iter().map(|object| &object.real_path);
    let through = asker.known.own.and_then(|profile| profile.through.as_deref());
    through
        .and_then(|through| paths.find(|path| knowledge::matches_name_pattern(path.name(), through)))
        .unwrap_or(asker.object)
}

/// Where a new process of an interpreter finds a library by its name.
fn find_by_name(setup: &ProcessSetup<'_>, opener: &ObjectLoader<'_>, name: &[u8]) -> Option<RootPath> {
    let ObjectLoader::Python(imported) = opener else {
        return None;
    };
    let mut process = SimulatedProcess::new(setup);
    process.start(&imported.program().absolute(), StartMode::Executed);
    let opened = process.open(name, process.map_of_path(imported.program()));
    opened_object(&opened)
        .filter(|_| opened.loads())
        .map(|object| RootPath::new(&object.path))
}

/// The names that are opened, in order: one that is mapped already, the files that the profile says, then the others.
fn with_opened_files(
    opener: &ObjectLoader<'_>,
    profile: Option<&ConsumerProfile>,
    loaded: &LoadResolution,
    names: &[ByteString],
    find: &dyn Fn(&[u8]) -> Option<RootPath>,
) -> Vec<ByteString> {
    let (ObjectLoader::Python(imported), Some(profile)) = (opener, profile) else {
        return names.to_vec();
    };
    let Some(python) = &profile.python else {
        return names.to_vec();
    };
    let finder = python.finder.as_deref();
    let files = imported.opened_files(&python.opens, finder, find);
    let later = imported.opened_files(&python.falls_back_on, finder, find);
    // Who opens nothing but names gets what is mapped by them anyway.
    let mapped = names.iter().filter(|name| loaded.object_for(name).is_some());
    let mapped: Vec<ByteString> = mapped.filter(|_| !files.is_empty()).cloned().collect();
    let first = mapped.into_iter().chain(files);
    first.chain(names.iter().cloned()).chain(later).collect()
}

/// Whether an object opens libraries in namespaces of their own alone: it imports dlmopen and not dlopen.
fn opens_namespace(context: &ProcessContext, caller: &RootPath) -> bool {
    let elf = elf_at(&context.rootfs, caller);
    let imports = |name: &[u8]| {
        let mut symbols = elf.into_iter().flat_map(|elf| &elf.symbols);
        symbols.any(|symbol| symbol.role != SymbolRole::Export && *symbol.name == *name)
    };
    imports(b"dlmopen") && !imports(b"dlopen")
}

/// What the first of the names that opens gives, else what the first one gives.
fn of_open(
    process: &mut SimulatedProcess<'_>,
    caller: &RootPath,
    names: &[ByteString],
    is_namespace: bool,
) -> ConsumerOutcome {
    let caller = process.map_of_path(caller);
    let mut first = None;
    for name in names {
        let resolution = if is_namespace {
            process.open_in_new_namespace(name, caller)
        } else {
            process.open(name, caller)
        };
        if let Some(object) = opened_object(&resolution).filter(|_| resolution.loads()) {
            return ConsumerOutcome::found(object, &resolution.objects);
        }
        if let Some(failure) = unresolved_objects(&resolution).next() {
            // The first name is what the program means, the later ones are what it falls back on.
            first.get_or_insert_with(|| ConsumerOutcome::failed(failure, &resolution.objects));
        }
    }
    first.unwrap_or_else(|| ConsumerOutcome::not_found("no name is known that it opens".to_owned()))
}
