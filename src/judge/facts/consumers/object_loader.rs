//! Who loads an object that asks for a library, and the process in which it asks.

use crate::byte_search::contains_bytes;
use crate::judge::facts::library_aliases::last_part;
use crate::judge::facts::process_context::ProcessContext;
use crate::judge::facts::python::{self, ImportedObject, PythonUse};
use crate::judge::facts::resolved_objects::{elf_at, unbound_symbols};
use crate::judge::facts::start_failure::StartFailure;
use crate::knowledge::ConsumerProfile;
use image_linkage::elf::{ByteString, ElfFacts};
use image_linkage::layer::FileFacts;
use image_linkage::loader::{LoadResolution, ProcessSetup, RequestOutcome, SimulatedProcess, StartMode};
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Who loads an object.
pub(super) enum ObjectLoader<'c> {
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
    pub(super) fn find(context: &'c ProcessContext, object: &RootPath) -> Self {
        if elf_at(&context.rootfs, object).is_some_and(ElfFacts::is_program) {
            return Self::Program;
        }
        match python::import_object(&context.python, &context.rootfs, object) {
            Some(Ok(imported)) => Self::Python(imported),
            Some(Err(why)) => Self::Nobody(why),
            None => Self::Unknown,
        }
    }

    /// The program of the process in which `object` asks, where one is known.
    pub(super) fn program<'o>(&'o self, object: &'o RootPath) -> Option<&'o RootPath> {
        match self {
            Self::Program => Some(object),
            Self::Python(imported) => Some(imported.program()),
            Self::User(program) => Some(program),
            Self::Nobody(_) | Self::Unknown => None,
        }
    }

    /// A failure of the loader, where it ends the process that asks for sure: Python, and a program that is not known,
    /// may have mapped what is in the image before they come to the object.
    pub(super) fn end_by(
        &self,
        failure: StartFailure,
        loaded: &LoadResolution,
        context: &ProcessContext,
        known: KnownProfiles<'_>,
    ) -> Option<StartFailure> {
        let is_followed = match self {
            Self::Program | Self::User(_) => true,
            // What its package opens before is in its profile; before the interpreter nothing is mapped.
            Self::Python(imported) => {
                let root = loaded.root.and_then(|root| loaded.objects.get(root));
                let is_interpreter = root.is_some_and(|root| root.real_path == *imported.program());
                is_interpreter || known.own.is_some_and(|profile| profile.python.is_some())
            }
            Self::Nobody(_) | Self::Unknown => false,
        };
        let is_process = !matches!(self, Self::Nobody(_) | Self::Unknown);
        let is_gone = |name: &ByteString| !context.has_library_named(name);
        let mut unbound = loaded
            .unresolved
            .iter()
            .filter(|missing| unbound_symbols(missing).is_some());
        let is_sure = is_followed
            || failure.missing.iter().any(is_gone)
            || unbound.any(|unbound| context.lacks_imports_of(&RootPath::new(&unbound.name), true));
        is_sure.then_some(StartFailure { is_process, ..failure })
    }
}

/// The profile of an object, and those of the packages that its own may import.
#[derive(Clone, Copy)]
pub(super) struct KnownProfiles<'p> {
    pub own: Option<&'p ConsumerProfile>,
    /// One that may be imported before an object of no profile.
    pub before: Option<&'p ConsumerProfile>,
    pub all: &'p [ConsumerProfile],
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

/// The programs that need a library, or open one by a text that ends in its name, by that name; a few of many.
pub(in crate::judge::facts) struct LibraryUsers<'c>(BTreeMap<&'c [u8], Vec<&'c RootPath>>);

impl<'c> LibraryUsers<'c> {
    pub(in crate::judge::facts) fn new(objects: &'c [(RootPath, Arc<FileFacts>)]) -> Self {
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

    pub(super) fn of(&self, object: &RootPath) -> impl Iterator<Item = &'c RootPath> {
        self.0.get(object.name()).into_iter().flatten().copied()
    }
}

/// The links to objects, by the file name that they lead to.
pub(in crate::judge::facts) struct ObjectLinks<'c>(BTreeMap<&'c [u8], Vec<&'c RootPath>>);

impl<'c> ObjectLinks<'c> {
    pub(in crate::judge::facts) fn new(links: &'c [(RootPath, ByteString)]) -> Self {
        let mut by_name: BTreeMap<&[u8], Vec<&RootPath>> = BTreeMap::new();
        for (link, target) in links {
            let of_name = by_name.entry(last_part(target)).or_default();
            if of_name.len() < USERS {
                of_name.push(link);
            }
        }
        Self(by_name)
    }

    /// The links of other folders to an object whose search path begins at its own folder: that of the link by which it is
    /// opened (elf/dl-object.c, `_dl_new_object`).
    pub(super) fn that_move(&self, rootfs: &Rootfs, object: &RootPath) -> impl Iterator<Item = &'c RootPath> {
        let elf = elf_at(rootfs, object);
        let paths = elf.into_iter().flat_map(|elf| elf.runpath.iter().chain(&elf.rpath));
        let mut paths = paths.filter(|path| contains_bytes(path, ORIGIN));
        let links = paths.next().and_then(|_| self.0.get(object.name()));
        let leads = |link: &&RootPath| {
            let found = rootfs.lookup(&link.absolute());
            link.parent() != object.parent() && found.is_ok_and(|found| found.path == *object)
        };
        links.into_iter().flatten().copied().filter(leads)
    }
}

/// The token of the folder of an object, with or without braces.
const ORIGIN: &[u8] = b"ORIGIN";
/// The programs of one library, and the links to one, that are looked at.
const USERS: usize = 4;

/// Starts who loads the object, and loads it into that process; where it is the program, what it starts with.
pub(super) fn load(
    process: &mut SimulatedProcess<'_>,
    context: &ProcessContext,
    (object, opened_as): (&RootPath, Option<&RootPath>),
    opener: &ObjectLoader<'_>,
    known: KnownProfiles<'_>,
) -> LoadResolution {
    let path = opened_as.unwrap_or(object).absolute();
    match opener {
        ObjectLoader::Program => process.start(&object.absolute(), context.start_mode(object)),
        ObjectLoader::Python(imported) => {
            let profile = known.imported(elf_at(&context.rootfs, object));
            imported.load(process, profile, known.all)
        }
        ObjectLoader::User(program) => {
            let started = process.start(&program.absolute(), StartMode::Executed);
            match process.map_of_path(object) {
                Some(_) => started,
                None => process.open(&path, process.map_of_path(program)),
            }
        }
        ObjectLoader::Nobody(_) | ObjectLoader::Unknown => {
            process.start_unknown();
            process.open(&path, None)
        }
    }
}

/// What answers to a need that was followed.
pub(in crate::judge::facts) enum NeededLookup {
    To(RootPath),
    /// A library that the container runtime brings.
    Driver,
    /// Nothing, or nothing that can be told without the program that loads the object.
    Unknown,
}

/// Where the loader gets to from `object`, in the process that loads it, for a name that it needs.
pub(in crate::judge::facts) fn follow_needed(
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
        let loaded = load(
            &mut SimulatedProcess::new(setup),
            context,
            (object, None),
            &opener,
            known,
        );
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
