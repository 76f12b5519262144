//! Resolves an object's request for a library in the process that loads the object.

use super::cupti_consumer::CuptiConsumer;
use super::object_loader::{KnownProfiles, LibraryUser, ObjectLoader, load};
use crate::facts::objects::credentials;
use crate::facts::objects::process_context::ProcessContext;
use crate::facts::objects::resolved_objects::{
    driver_libraries, elf_at, opened_object, unbound_symbols, unresolved_objects,
};
use crate::facts::objects::start_failure::{self, StartFailure};
use crate::facts::software::companions::{self, CompanionRequest};
use crate::facts::software::consumer_outcome;
use crate::facts::software::consumer_outcome::ConsumerOutcome;
use crate::knowledge::{self, ConsumerProfile, LibraryProfile, RequestKind, split_variable};
use image_linkage::elf::{ByteString, SymbolRole};
use image_linkage::escape;
use image_linkage::loader::{
    LoadResolution, LoadedObject, ProcessSetup, RequestOutcome, SimulatedProcess, StartMode, UnresolvedRequest,
};
use image_linkage::path::RootPath;
use python_path::{PythonUse, is_source};
use std::borrow::Cow;

/// The object and its request.
#[derive(Clone, Copy)]
pub(super) struct ConsumerRequest<'a> {
    pub object: &'a RootPath,
    pub asks: RequestKind,
    pub names: &'a [ByteString],
    pub known: KnownProfiles<'a>,
    /// The user that loads the object, if its only known link to the object is that it names it.
    pub user: Option<LibraryUser<'a>>,
    /// The link through which the object is opened, if that matters: `$ORIGIN` is then the link's directory.
    pub opened_as: Option<&'a RootPath>,
}

/// The result of the request in one world, with the companion libraries.
pub(super) fn gets(
    context: &ProcessContext,
    library: &LibraryProfile,
    asker: &ConsumerRequest<'_>,
    wanted: &[CompanionRequest],
) -> ConsumerOutcome {
    let names = spell_names(context, asker.object, asker.known.own, asker.names);
    let asker = &ConsumerRequest {
        names: &names,
        ..*asker
    };
    let ConsumerRequest { object, names, .. } = *asker;
    let opener = match (asker.user, asker.opened_as) {
        (Some(user), _) => ObjectLoader::User(user, Box::new(ObjectLoader::find(context, user.object))),
        (None, Some(_)) => ObjectLoader::Unknown,
        (None, None) => ObjectLoader::find(context, object),
    };
    if let ObjectLoader::Nobody(PythonUse::Unreachable { site, why, is_broken }) = &opener {
        let nothing = ConsumerOutcome::not_found(why.clone());
        return if *is_broken {
            nothing.ended(StartFailure::of_python(context, site, why))
        } else {
            nothing
        };
    }
    if let Some(failure) = opener
        .program(object)
        .and_then(|program| StartFailure::of_interpreter(context, program))
    {
        return ConsumerOutcome::not_found(failure.words.clone()).ended(failure);
    }
    let own = opener.program(object).and_then(|program| context.of_program(program));
    let context = own.as_ref().unwrap_or(context);
    let run = |setup: &ProcessSetup<'_>| ask_process(setup, context, library, asker, &opener, wanted);
    let no_loader = || ConsumerOutcome::not_found("the image has no dynamic loader".to_owned());
    let (mut gets, objects) = context.with_setup(run).unwrap_or_else(|| (no_loader(), Vec::new()));
    if gets.outcome != RequestOutcome::Loaded {
        let obstacle = credentials::search_obstacle(&context.rootfs, names, &gets.trace);
        gets = gets.with_obstacle(obstacle);
    }
    if asker.asks == RequestKind::Needed && gets.outcome == RequestOutcome::Loaded {
        let called = consumer_outcome::find_preloaded_library(&context.rootfs, library, object, &objects);
        if let Some(called) = called.filter(|called| gets.real_path.as_ref() != Some(&called.real_path)) {
            gets = gets.with_object(called, &objects);
        }
    }
    gets
}

/// The names of a profile as the program opens them, with the values of variables and the folder of its object.
pub(super) fn spell_names<'n>(
    context: &ProcessContext,
    object: &RootPath,
    profile: Option<&ConsumerProfile>,
    names: &'n [ByteString],
) -> Cow<'n, [ByteString]> {
    let Some(profile) = profile.filter(|profile| !profile.names.is_empty()) else {
        return Cow::Borrowed(names);
    };
    let value = |variable: &str| {
        let value = context.entry.variables.get(variable)?;
        Some(value).filter(|value| !value.is_empty())
    };
    let mut deciding = profile.decisive.iter().map(String::as_str);
    let deciding = deciding.find(|variable| value(variable).is_some());
    let spell = |name: &ByteString| -> Option<ByteString> {
        let text = std::str::from_utf8(name).unwrap_or_default();
        let variable = split_variable(text);
        if deciding.is_some() && variable.map(|(variable, _)| variable) != deciding {
            return None;
        }
        match variable {
            Some((variable, rest)) => Some(format!("{}{rest}", value(variable)?).into_bytes().into()),
            None if name.starts_with(b"../") => Some(object.parent().join(name).absolute().into()),
            None => Some(name.clone()),
        }
    };
    Cow::Owned(names.iter().filter_map(spell).collect())
}

/// Starts the process, loads the object and performs its request.
fn ask_process(
    setup: &ProcessSetup<'_>,
    context: &ProcessContext,
    library: &LibraryProfile,
    asker: &ConsumerRequest<'_>,
    opener: &ObjectLoader<'_>,
    wanted: &[CompanionRequest],
) -> (ConsumerOutcome, Vec<LoadedObject>) {
    let ConsumerRequest {
        object, names, known, ..
    } = *asker;
    let mut process = SimulatedProcess::new(setup);
    let loaded = load(&mut process, context, (object, asker.opened_as), opener, known);
    let (mut gets, mapped) = match (asker.asks, loaded.root) {
        // An object that is not mapped makes no request; the outcome is the reason for that.
        (RequestKind::Needed, _) | (_, None) => (of_need(&loaded, names), None),
        (RequestKind::Dlopen, _) => {
            // Python finds the toolkit in a separate process.
            let find = |name: &[u8]| find_by_name(setup, opener, name);
            let names = with_opened_files(opener, known.own, &loaded, names, &find);
            let caller = caller(asker, &loaded);
            let how = OpenCall::of(context, object, caller);
            of_open(&mut process, caller, &names, how)
        }
    };
    let unbound = gets.real_path.as_ref().and_then(|cupti| process.find_unbound(cupti));
    if let Some(unbound) = unbound {
        gets = ConsumerOutcome::failed(&unbound, mapped.as_ref().unwrap_or(&loaded.objects));
    }
    let cupti = gets.real_path.as_ref();
    // Companions are resolved in this process, because its mapped objects and search paths apply.
    gets.companions = companions::look_up_companions(&process, Some(object), cupti, wanted);
    let objects = mapped.as_ref().unwrap_or(&loaded.objects);
    gets.missing_symbols = consumer_outcome::find_missing_symbols(&context.rootfs, library, object, &gets, objects);
    gets.other_failures = start_failure::other_failures(&loaded, names, asker.asks);
    gets.needs_driver = !driver_libraries(&loaded).is_empty();
    // Missing symbols of the library are reported by name, so drop the failure that repeats them.
    let symbols = elf_at(&context.rootfs, object).and_then(|elf| elf.link_symbols.as_deref());
    let at_load = |name: &&ByteString| symbols.is_some_and(|symbols| symbols.imports_at_load(name));
    let missing = &gets.missing_symbols;
    let told = [missing.len(), missing.iter().filter(at_load).count()];
    let is_told = |failure: &UnresolvedRequest| unbound_symbols(failure).is_some_and(|count| told.contains(&count));
    gets.other_failures
        .retain(|failure| !(RootPath::new(&failure.name) == *object && is_told(failure)));
    gets.unread.clone_from(&loaded.unread);
    let failure = StartFailure::of_loader(&loaded, &gets.other_failures);
    if let Some(failure) = failure.and_then(|failure| opener.end_by(failure, &loaded, context, known)) {
        let mut unresolved = loaded.unresolved.iter();
        let gets_library = !unresolved.any(|missing| names.contains(&missing.name));
        gets = gets.ended(StartFailure {
            gets_library,
            ..failure
        });
    }
    (gets, mapped.unwrap_or(loaded.objects))
}

/// Whether an object without a profile gets its library once another program's package is imported before it.
pub(crate) fn is_served_after(
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
        opened_as: None,
    };
    gets(context, library, &asker, &[]).outcome == RequestOutcome::Loaded
}

/// The result of the `DT_NEEDED` entry.
fn of_need(loaded: &LoadResolution, names: &[ByteString]) -> ConsumerOutcome {
    let wanted = names.first().cloned().unwrap_or_default();
    if let Some(refused) = loaded.unresolved.iter().find(|missing| missing.name == wanted) {
        return ConsumerOutcome::failed(refused, &loaded.objects);
    }
    if let Some(lacking) = start_failure::failure_of_library(loaded, &wanted) {
        return ConsumerOutcome::failed(lacking, &loaded.objects);
    }
    // A program that requests nothing has everything once it is loaded.
    let itself = loaded.root.filter(|_| names.is_empty());
    match loaded
        .object_for(&wanted)
        .or(itself.and_then(|root| loaded.objects.get(root)))
    {
        Some(object) => ConsumerOutcome::found(object, &loaded.objects),
        // The object was not mapped; report what stopped it.
        None => match loaded.unresolved.first() {
            Some(first) => ConsumerOutcome::failed(first, &loaded.objects),
            None => ConsumerOutcome::not_found(format!("{}: not asked for", escape::escape_bytes(&wanted))),
        },
    }
}

/// The object that calls dlopen: the one in the profile if it is mapped, else the requester.
fn caller<'a>(asker: &ConsumerRequest<'a>, loaded: &'a LoadResolution) -> &'a RootPath {
    // dlopen searches the DT_RUNPATH of its caller: TensorFlow calls it in libtensorflow_framework.so.
    if is_source(asker.object.name()) {
        // The caller is ctypes, or the program that has it built in.
        let opener = loaded.root.and_then(|root| loaded.objects.get(root));
        return opener.map_or(asker.object, |opener| &opener.real_path);
    }
    let mut paths = loaded.objects.iter().map(|object| &object.real_path);
    let through = asker.known.own.and_then(|profile| profile.through.as_deref());
    through
        .and_then(|through| paths.find(|path| knowledge::matches_name_pattern(path.name(), through)))
        .unwrap_or(asker.object)
}

/// The library that a new process of the interpreter finds by name.
fn find_by_name(setup: &ProcessSetup<'_>, opener: &ObjectLoader<'_>, name: &[u8]) -> Option<RootPath> {
    let ObjectLoader::Python(imported) = opener else {
        return None;
    };
    let mut process = SimulatedProcess::new(setup);
    process.start(&imported.program().absolute(), StartMode::Executed);
    let resolution = process.open(name, process.map_of_path(imported.program()));
    opened_object(&resolution)
        .filter(|_| resolution.loads())
        .map(|object| RootPath::new(&object.path))
}

/// The names in the order of opening: mapped ones, the files in the profile, then the others.
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
    // If the profile lists no files, dlopen by name returns the mapped object anyway.
    let mapped = names.iter().filter(|name| loaded.object_for(name).is_some());
    let mapped: Vec<ByteString> = mapped.filter(|_| !files.is_empty()).cloned().collect();
    let first = mapped.into_iter().chain(files);
    first.chain(names.iter().cloned()).chain(later).collect()
}

/// The function with which an object opens libraries.
#[derive(Clone, Copy)]
enum OpenCall {
    Dlopen,
    /// `RTLD_NOW`, as in ctypes (Modules/_ctypes/callproc.c, `py_dl_open`).
    Bound,
    /// Only in separate namespaces: the object imports dlmopen and not dlopen.
    Namespace,
}

impl OpenCall {
    fn of(context: &ProcessContext, object: &RootPath, caller: &RootPath) -> Self {
        let elf = elf_at(&context.rootfs, caller);
        let imports = |name: &[u8]| {
            let mut symbols = elf.into_iter().flat_map(|elf| &elf.symbols);
            symbols.any(|symbol| symbol.role != SymbolRole::Export && *symbol.name == *name)
        };
        match () {
            () if is_source(object.name()) => Self::Bound,
            () if imports(b"dlmopen") && !imports(b"dlopen") => Self::Namespace,
            () => Self::Dlopen,
        }
    }
}

/// The result of the first name that opens, else of the first name.
fn of_open(
    process: &mut SimulatedProcess<'_>,
    caller: &RootPath,
    names: &[ByteString],
    how: OpenCall,
) -> (ConsumerOutcome, Option<Vec<LoadedObject>>) {
    let caller = process.map_of_path(caller);
    let mut first = None;
    for name in names {
        let resolution = match how {
            OpenCall::Dlopen => process.open(name, caller),
            OpenCall::Bound => process.open_now(name, caller),
            OpenCall::Namespace => process.open_in_new_namespace(name, caller),
        };
        if let Some(object) = opened_object(&resolution).filter(|_| resolution.loads()) {
            return (
                ConsumerOutcome::found(object, &resolution.objects),
                Some(resolution.objects),
            );
        }
        if let Some(failure) = unresolved_objects(&resolution).next() {
            // The program intends the first name; the later ones are fallbacks.
            first.get_or_insert_with(|| ConsumerOutcome::failed(failure, &resolution.objects));
        }
    }
    let unnamed = || ConsumerOutcome::not_found("no name is known that it opens".to_owned());
    (first.unwrap_or_else(unnamed), None)
}
