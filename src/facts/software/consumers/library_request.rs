//! Resolves an object's request for a library in the process that loads the object.

use super::cupti_consumer::CuptiConsumer;
use super::object_loader::{KnownProfiles, LibraryUser, ObjectLoader, ObjectToLoad};
use super::trial::TrialCase;
use crate::facts::objects::credentials::search_obstacle;
use crate::facts::objects::load_answer::LoadAnswer;
use crate::facts::objects::process_context::ProcessContext;
use crate::facts::objects::resolved_objects::{driver_libraries, elf_at, opened_object, unbound_symbols};
use crate::facts::objects::start_failure::{self, StartFailure};
use crate::facts::software::companions::{CompanionRequest, look_up_companions};
use crate::facts::software::consumer_outcome::{ConsumerOutcome, find_missing_symbols, find_preloaded_library};
use crate::knowledge::{self, ConsumerProfile, LibraryProfile, RequestKind, split_variable};
use image_linkage::elf::{ByteString, ElfFacts, SymbolRole};
use image_linkage::escape;
use image_linkage::loader::{
    LoadResolution, LoadedObject, ProcessSetup, SimulatedProcess, StartMode, UnresolvedRequest,
};
use image_linkage::path::RootPath;
use python_path::{PythonUse, is_source};
use std::borrow::Cow;

/// The request of an object.
#[derive(Clone, Copy)]
pub(crate) struct ConsumerRequest<'a> {
    pub library: &'a LibraryProfile,
    pub object: &'a RootPath,
    pub request_kind: RequestKind,
    pub names: &'a [ByteString],
    pub known: KnownProfiles<'a>,
    /// The companion libraries that are requested beside the library.
    pub companions: &'a [CompanionRequest],
    /// The user that loads the object, if its only known link to the object is that it names it.
    pub user: Option<LibraryUser<'a>>,
    /// The link through which the object is opened, if that matters: `$ORIGIN` is then the link's directory.
    pub opened_as: Option<&'a RootPath>,
}

impl<'a> ConsumerRequest<'a> {
    /// The result in one world, with the companion libraries.
    pub(super) fn resolve(&self, context: &ProcessContext) -> ConsumerOutcome {
        let names = self.spelled_names(context);
        let loader = match (self.user, self.opened_as) {
            (Some(user), _) => ObjectLoader::User(user, Box::new(ObjectLoader::find(context, user.object))),
            (None, Some(_)) => ObjectLoader::Unknown,
            (None, None) => ObjectLoader::find(context, self.object),
        };
        if let ObjectLoader::Nobody(PythonUse::Unreachable { site, why, is_broken }) = &loader {
            let outcome = ConsumerOutcome::from(LoadAnswer::not_found(why.clone()));
            return if *is_broken {
                outcome.ended(StartFailure::of_python(context, site, why))
            } else {
                outcome
            };
        }
        let program = loader.program(self.object);
        if let Some(failure) = program.and_then(|program| StartFailure::of_interpreter(context, program)) {
            return ConsumerOutcome::from(failure.answer.clone()).ended(failure);
        }
        let own = program.and_then(|program| context.of_program(program));
        let context = own.as_ref().unwrap_or(context);
        let process = RequestProcess {
            context,
            request: &ConsumerRequest { names: &names, ..*self },
            loader: &loader,
        };
        let Some((mut outcome, objects)) = context.with_setup(|setup| process.ask(setup)) else {
            return LoadAnswer::not_found("the image has no dynamic loader".to_owned()).into();
        };
        if !outcome.answer.is_loaded() {
            let obstacle = search_obstacle(&context.rootfs, &names, outcome.answer.search.steps());
            if let Some(obstacle) = obstacle {
                outcome.add_obstacle(&obstacle);
            }
        } else if self.request_kind == RequestKind::Needed
            && let Some(called) = find_preloaded_library(&context.rootfs, self.library, self.object, &objects)
            && outcome.answer.real_path() != Some(&called.real_path)
        {
            outcome.answer = LoadAnswer::of_object(called, &objects);
        }
        outcome
    }

    /// The names of a profile as the program opens them, with the values of variables and the folder of its object.
    pub(super) fn spelled_names(&self, context: &ProcessContext) -> Cow<'a, [ByteString]> {
        let Some(profile) = self.known.own.filter(|profile| !profile.names.is_empty()) else {
            return Cow::Borrowed(self.names);
        };
        let mut decisive = profile.decisive.iter();
        let deciding = decisive.find(|variable| value_of(context, variable).is_some());
        let mut spelled = Vec::new();
        for name in self.names {
            let variable = split_variable(std::str::from_utf8(name).unwrap_or_default());
            if deciding.is_some_and(|deciding| variable.is_none_or(|(variable, _)| variable != deciding)) {
                continue;
            }
            match variable {
                Some((variable, rest)) => {
                    let value = value_of(context, variable);
                    spelled.extend(value.map(|value| format!("{value}{rest}").into_bytes().into()));
                }
                None if name.starts_with(b"../") => {
                    spelled.push(self.object.parent().join(name).absolute().into());
                }
                None => spelled.push(name.clone()),
            }
        }
        Cow::Owned(spelled)
    }
}

/// The value of a variable that is set and not empty.
fn value_of<'c>(context: &'c ProcessContext, variable: &str) -> Option<&'c String> {
    let value = context.entry.variables.get(variable);
    value.filter(|value| !value.is_empty())
}

/// Whether an object without a profile gets its library once another program's package is imported before it.
pub(crate) fn is_served_after(case: &TrialCase<'_>, consumer: &CuptiConsumer, before: &ConsumerProfile) -> bool {
    let names = std::slice::from_ref(&consumer.requested_name);
    let mut request = case.request(&consumer.object, consumer.request_kind, names);
    request.known.own = None;
    request.known.before = Some(before);
    request.companions = &[];
    request.resolve(&case.contexts.as_is).answer.is_loaded()
}

/// A request in the process that makes it.
struct RequestProcess<'r> {
    context: &'r ProcessContext,
    request: &'r ConsumerRequest<'r>,
    loader: &'r ObjectLoader<'r>,
}

impl RequestProcess<'_> {
    /// Starts the process, loads the object and performs its request. Also returns the objects of the process.
    fn ask(&self, setup: &ProcessSetup<'_>) -> (ConsumerOutcome, Vec<LoadedObject>) {
        let ConsumerRequest {
            library, object, names, ..
        } = *self.request;
        let rootfs = &self.context.rootfs;
        let mut process = SimulatedProcess::new(setup);
        let target = ObjectToLoad {
            object,
            opened_as: self.request.opened_as,
            known: self.request.known,
        };
        let loaded = self.loader.load(&mut process, self.context, &target);
        let (answer, mapped) = match (self.request.request_kind, loaded.root) {
            // An object that is not mapped makes no request; the outcome is the reason for that.
            (RequestKind::Needed, _) | (_, None) => (of_need(&loaded, names), None),
            (RequestKind::Dlopen, _) => {
                let caller = self.caller(&loaded);
                let call = OpenCall::of(object, elf_at(rootfs, caller));
                open_first(&mut process, caller, &self.opened_names(setup, &loaded), call)
            }
        };
        let objects = mapped.as_ref().unwrap_or(&loaded.objects);
        let unbound = answer.real_path().and_then(|cupti| process.find_unbound(cupti));
        let mut outcome: ConsumerOutcome = match unbound {
            Some(unbound) => LoadAnswer::of_failure(&unbound, objects).into(),
            None => answer.into(),
        };
        // Companions are resolved in this process, because its mapped objects and search paths apply.
        let cupti = outcome.answer.real_path();
        outcome.companions = look_up_companions(&process, Some(object), cupti, self.request.companions);
        if outcome.answer.is_loaded() {
            outcome.missing_symbols = find_missing_symbols(rootfs, library, object, objects);
        }
        outcome.other_failures = start_failure::other_failures(&loaded, names, self.request.request_kind);
        self.drop_repeated_symbols(&mut outcome);
        outcome.needs_driver = !driver_libraries(&loaded).is_empty();
        outcome.unread.clone_from(&loaded.unread);
        if let Some(failure) = StartFailure::of_loader(&loaded, &outcome.other_failures)
            && let Some(mut failure) = self.loader.end_by(failure, &loaded, self.context, target.known)
        {
            let mut unresolved = loaded.unresolved.iter();
            failure.finds_library = !unresolved.any(|missing| names.contains(&missing.name));
            outcome = outcome.ended(failure);
        }
        (outcome, mapped.unwrap_or(loaded.objects))
    }

    /// Drops the failure that repeats missing symbols of the library, which are reported by name.
    fn drop_repeated_symbols(&self, outcome: &mut ConsumerOutcome) {
        let object = self.request.object;
        let symbols = elf_at(&self.context.rootfs, object).and_then(|elf| elf.link_symbols.as_deref());
        let missing = &outcome.missing_symbols;
        let at_load = missing
            .iter()
            .filter(|name| symbols.is_some_and(|symbols| symbols.imports_at_load(name)));
        let told = [missing.len(), at_load.count()];
        outcome.other_failures.retain(|failure: &UnresolvedRequest| {
            let is_told = unbound_symbols(failure).is_some_and(|count| told.contains(&count));
            !(RootPath::new(&failure.name) == *object && is_told)
        });
    }

    /// The object that calls dlopen: the one in the profile if it is mapped, else the requester.
    fn caller<'l>(&'l self, loaded: &'l LoadResolution) -> &'l RootPath {
        let object = self.request.object;
        // dlopen searches the DT_RUNPATH of its caller: TensorFlow calls it in libtensorflow_framework.so.
        if is_source(object.name()) {
            // The caller is ctypes, or the program that has it built in.
            return opened_object(loaded).map_or(object, |opener| &opener.real_path);
        }
        let mut paths = loaded.objects.iter().map(|object| &object.real_path);
        let through = self.request.known.own.and_then(|profile| profile.through.as_deref());
        through
            .and_then(|through| paths.find(|path| knowledge::matches_name_pattern(path.name(), through)))
            .unwrap_or(object)
    }

    /// The names in the order of opening: mapped ones, the files in the profile, then the others.
    fn opened_names(&self, setup: &ProcessSetup<'_>, loaded: &LoadResolution) -> Vec<ByteString> {
        let names = self.request.names;
        let python = self.request.known.own.and_then(|profile| profile.python.as_ref());
        let (ObjectLoader::Python(imported), Some(python)) = (self.loader, python) else {
            return names.to_vec();
        };
        // Python finds the toolkit in a separate process.
        let find: &dyn Fn(&[u8]) -> Option<RootPath> = &|name| find_by_name(setup, imported.program(), name);
        let finder = python.finder.as_deref();
        let files = imported.opened_files(&python.opens, finder, find);
        let later = imported.opened_files(&python.falls_back_on, finder, find);
        let mut opened = Vec::new();
        // If the profile lists no files, dlopen by name returns the mapped object anyway.
        if !files.is_empty() {
            let mapped = names.iter().filter(|name| loaded.object_for(name).is_some());
            opened.extend(mapped.cloned());
        }
        opened.extend(files);
        opened.extend(names.iter().cloned());
        opened.extend(later);
        opened
    }
}

/// The library that a new process of the program finds by name.
fn find_by_name(setup: &ProcessSetup<'_>, program: &RootPath, name: &[u8]) -> Option<RootPath> {
    let mut process = SimulatedProcess::new(setup);
    process.start(&program.absolute(), StartMode::Executed);
    let opened = process.open(name, process.map_of_path(program));
    let answer = LoadAnswer::of_open(&opened)?;
    answer.file().map(|file| RootPath::new(&file.path))
}

/// The answer to the `DT_NEEDED` entry.
fn of_need(loaded: &LoadResolution, names: &[ByteString]) -> LoadAnswer {
    let wanted = names.first().cloned().unwrap_or_default();
    let refused = loaded.unresolved.iter().find(|missing| missing.name == wanted);
    if let Some(failure) = refused.or_else(|| start_failure::failure_of_library(loaded, &wanted)) {
        return LoadAnswer::of_failure(failure, &loaded.objects);
    }
    // A program that requests nothing has everything once it is loaded.
    let itself = if names.is_empty() { opened_object(loaded) } else { None };
    if let Some(object) = loaded.object_for(&wanted).or(itself) {
        return LoadAnswer::of_object(object, &loaded.objects);
    }
    // The object was not mapped; report what stopped it.
    match loaded.unresolved.first() {
        Some(first) => LoadAnswer::of_failure(first, &loaded.objects),
        None => LoadAnswer::not_found(format!("{}: not asked for", escape::escape_bytes(&wanted))),
    }
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
    fn of(object: &RootPath, caller: Option<&ElfFacts>) -> Self {
        if is_source(object.name()) {
            Self::Bound
        } else if caller.is_some_and(|elf| imports(elf, b"dlmopen") && !imports(elf, b"dlopen")) {
            Self::Namespace
        } else {
            Self::Dlopen
        }
    }
}

fn imports(elf: &ElfFacts, name: &[u8]) -> bool {
    let mut symbols = elf.symbols.iter();
    symbols.any(|symbol| symbol.role != SymbolRole::Export && *symbol.name == *name)
}

/// The answer for the first name that opens, else for the first name; with the objects of the process.
fn open_first(
    process: &mut SimulatedProcess<'_>,
    caller: &RootPath,
    names: &[ByteString],
    call: OpenCall,
) -> (LoadAnswer, Option<Vec<LoadedObject>>) {
    let caller = process.map_of_path(caller);
    let mut first = None;
    for name in names {
        let opened = match call {
            OpenCall::Dlopen => process.open(name, caller),
            OpenCall::Bound => process.open_now(name, caller),
            OpenCall::Namespace => process.open_in_new_namespace(name, caller),
        };
        match LoadAnswer::of_open(&opened) {
            Some(answer) if answer.is_loaded() => return (answer, Some(opened.objects)),
            // The program intends the first name; the later ones are fallbacks.
            answer => first = first.or(answer),
        }
    }
    let unnamed = "no name is known that it opens";
    (first.unwrap_or_else(|| LoadAnswer::not_found(unnamed.to_owned())), None)
}
