//! Determines which process loads an object that requests a library.

use crate::byte_search::{contains_bytes, last_part};
use crate::facts::objects::process_context::ProcessContext;
use crate::facts::objects::resolved_objects::{elf_at, unbound_symbols, unresolved_objects};
use crate::facts::objects::start_failure::StartFailure;
use crate::facts::software::imported_object::{ImportedObject, import_object};
use crate::knowledge::ConsumerProfile;
use image_linkage::elf::{ByteString, ElfFacts};
use image_linkage::layer::FileFacts;
use image_linkage::loader::{LoadResolution, RequestOutcome, SimulatedProcess, StartMode};
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;
use python_path::PythonUse;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The loader of an object.
pub(super) enum ObjectLoader<'c> {
    /// The object is a program itself.
    Program,
    /// An interpreter imports it as part of a package.
    Python(ImportedObject<'c>),
    /// It is part of a package that no Python finds.
    Nobody(PythonUse),
    /// A known object needs it, or opens it by path; with the loader of that object.
    User(LibraryUser<'c>, Box<Self>),
    /// The program is unknown.
    Unknown,
}

impl<'c> ObjectLoader<'c> {
    pub(super) fn find(context: &'c ProcessContext, object: &RootPath) -> Self {
        if elf_at(&context.rootfs, object).is_some_and(ElfFacts::is_program) {
            return Self::Program;
        }
        match import_object(&context.python, &context.rootfs, object) {
            Some(Ok(imported)) => Self::Python(imported),
            Some(Err(why)) => Self::Nobody(why),
            None => Self::Unknown,
        }
    }

    /// The program of the process in which `object` makes its request, if known.
    pub(super) fn program<'o>(&'o self, object: &'o RootPath) -> Option<&'o RootPath> {
        match self {
            Self::Program => Some(object),
            Self::Python(imported) => Some(imported.program()),
            Self::User(user, opener) => opener.program(user.object),
            Self::Nobody(_) | Self::Unknown => None,
        }
    }

    /// Filters out a failure that may not end the requesting process. Python or an unknown program may have mapped the
    /// image's libraries before the object is loaded.
    pub(super) fn end_by(
        &self,
        mut failure: StartFailure,
        loaded: &LoadResolution,
        context: &ProcessContext,
        known: KnownProfiles<'_>,
    ) -> Option<StartFailure> {
        let is_followed = match self {
            Self::Program => true,
            Self::User(_, opener) => matches!(**opener, Self::Program),
            // A profile lists what the package opens before; before the interpreter nothing is mapped.
            Self::Python(imported) => {
                let root = loaded.root.and_then(|root| loaded.objects.get(root));
                let is_interpreter = root.is_some_and(|root| root.real_path == *imported.program());
                is_interpreter || known.own.is_some_and(|profile| profile.python.is_some())
            }
            Self::Nobody(_) | Self::Unknown => false,
        };
        let mut unbound = loaded
            .unresolved
            .iter()
            .filter(|missing| unbound_symbols(missing).is_some());
        let is_sure = is_followed
            || failure.missing.iter().any(|name| !context.has_library_named(name))
            || unbound.any(|unbound| context.lacks_imports_of(&RootPath::new(&unbound.name), true));
        if !is_sure {
            return None;
        }
        failure.is_process = !matches!(self, Self::Nobody(_) | Self::Unknown);
        Some(failure)
    }

    /// Starts the process that loads the object, and loads the object into it. For a program, its start already does
    /// that.
    pub(super) fn load(
        &self,
        process: &mut SimulatedProcess<'_>,
        context: &ProcessContext,
        target: &ObjectToLoad<'_>,
    ) -> LoadResolution {
        let ObjectToLoad {
            object,
            opened_as,
            known,
        } = *target;
        match self {
            Self::Program => process.start(&object.absolute(), context.start_mode(object)),
            Self::Python(imported) => {
                let profile = known.imported(elf_at(&context.rootfs, object));
                imported.load(process, profile, known.all)
            }
            Self::User(user, by) => {
                let started = match **by {
                    Self::Program => process.start(&user.object.absolute(), StartMode::Executed),
                    _ => by.load(
                        process,
                        context,
                        &ObjectToLoad {
                            object: user.object,
                            opened_as: None,
                            known,
                        },
                    ),
                };
                // A program that does not start opens nothing.
                if process.map_of_path(object).is_some() || unresolved_objects(&started).next().is_some() {
                    return started;
                }
                process.open(&user.via.absolute(), process.map_of_path(user.object))
            }
            Self::Nobody(_) | Self::Unknown => {
                process.start_unknown();
                process.open(&opened_as.unwrap_or(object).absolute(), None)
            }
        }
    }
}

/// An object that a process loads.
pub(super) struct ObjectToLoad<'a> {
    pub object: &'a RootPath,
    /// The link through which it is opened, if that matters.
    pub opened_as: Option<&'a RootPath>,
    pub known: KnownProfiles<'a>,
}

/// The profile of an object, and the profiles of packages that it may import.
#[derive(Clone, Copy)]
pub(crate) struct KnownProfiles<'p> {
    pub own: Option<&'p ConsumerProfile>,
    /// A profile that may be imported before an object without one.
    pub before: Option<&'p ConsumerProfile>,
    pub all: &'p [ConsumerProfile],
}

impl<'p> KnownProfiles<'p> {
    /// The profile to import before an object: its own, else the one of the package whose libraries it needs.
    fn imported(&self, elf: Option<&ElfFacts>) -> Option<&'p ConsumerProfile> {
        let needed = elf.map(|elf| elf.needed.as_slice()).unwrap_or_default();
        self.own.or(self.before).or_else(|| {
            let mut profiles = self.all.iter();
            profiles.find(|profile| brings_any(profile, needed))
        })
    }
}

/// Whether a package brings one of these libraries.
fn brings_any(profile: &ConsumerProfile, libraries: &[ByteString]) -> bool {
    let mut brought = profile.python.iter().flat_map(|python| &python.brings);
    brought.any(|name| libraries.iter().any(|library| **library == *name.as_bytes()))
}

/// A program or Python module that brings a library into its process.
#[derive(Clone, Copy)]
pub(crate) struct LibraryUser<'c> {
    pub object: &'c RootPath,
    /// The object that it needs or opens: the library, or another that needs the library, directly or not.
    pub via: &'c RootPath,
}

/// The objects that need a library, and the programs with a string that ends in its name; limited to a few per name.
pub(crate) struct LibraryUsers<'c> {
    objects: &'c [(RootPath, Arc<FileFacts>)],
    /// Keyed by that name, and built on first use.
    by_name: OnceCell<BTreeMap<&'c [u8], Vec<&'c RootPath>>>,
}

impl<'c> LibraryUsers<'c> {
    pub(crate) fn new(objects: &'c [(RootPath, Arc<FileFacts>)]) -> Self {
        Self {
            objects,
            by_name: OnceCell::new(),
        }
    }

    /// Objects that bring a library into their process, through any number of others. The search path of a program
    /// applies to all its libraries (elf/dl-load.c, `_dl_map_object`).
    pub(super) fn of<'o>(&'o self, context: &ProcessContext, library: &'o RootPath) -> Vec<LibraryUser<'o>> {
        let by_name = self.by_name.get_or_init(|| self.list());
        let (mut users, mut between, mut at) = (Vec::new(), vec![library], 0);
        while let Some(&via) = between.get(at) {
            at += 1;
            let soname = elf_at(&context.rootfs, via).and_then(|elf| elf.soname.as_deref());
            let names = BTreeSet::from([via.name(), soname.unwrap_or(via.name())]);
            let naming = names.into_iter().filter_map(|name| by_name.get(name));
            for &object in naming.flatten() {
                match ObjectLoader::find(context, object) {
                    ObjectLoader::Program | ObjectLoader::Python(_) => users.push(LibraryUser { object, via }),
                    _ if between.len() < BETWEEN && !between.contains(&object) => between.push(object),
                    _ => {}
                }
            }
        }
        users
    }

    fn list(&self) -> BTreeMap<&'c [u8], Vec<&'c RootPath>> {
        let mut users: BTreeMap<&[u8], Vec<&RootPath>> = BTreeMap::new();
        for (path, facts) in self.objects {
            let elf = facts.elf.as_deref();
            let opened = elf.filter(|elf| elf.is_program()).map(|elf| &elf.mentions);
            let texts = elf
                .into_iter()
                .flat_map(|elf| &elf.needed)
                .chain(opened.into_iter().flatten());
            for name in texts.map(|text| last_part(text)).collect::<BTreeSet<_>>() {
                let of_name = users.entry(name).or_default();
                if of_name.len() < USERS {
                    of_name.push(path);
                }
            }
        }
        users
    }
}

/// Links to objects, by the file name of their target.
pub(crate) struct ObjectLinks<'c>(BTreeMap<&'c [u8], Vec<&'c RootPath>>);

impl<'c> ObjectLinks<'c> {
    pub(crate) fn new(links: &'c [(RootPath, ByteString)]) -> Self {
        let mut by_name: BTreeMap<&[u8], Vec<&RootPath>> = BTreeMap::new();
        for (link, target) in links {
            let of_name = by_name.entry(last_part(target)).or_default();
            if of_name.len() < USERS {
                of_name.push(link);
            }
        }
        Self(by_name)
    }

    /// Links in other directories to an object with `$ORIGIN` in its search path. The loader sets `$ORIGIN` to the
    /// directory of the opened link (elf/dl-object.c, `_dl_new_object`).
    pub(super) fn that_move(&self, rootfs: &Rootfs, object: &RootPath) -> impl Iterator<Item = &'c RootPath> {
        let elf = elf_at(rootfs, object);
        let mut paths = elf.into_iter().flat_map(|elf| elf.runpath.iter().chain(&elf.rpath));
        let links = if paths.any(|path| contains_bytes(path, ORIGIN)) {
            self.0.get(object.name())
        } else {
            None
        };
        links.into_iter().flatten().copied().filter(|link| {
            let found = rootfs.lookup(&link.absolute());
            link.parent() != object.parent() && found.is_ok_and(|found| found.path == *object)
        })
    }
}

/// The token for an object's directory, with or without braces.
const ORIGIN: &[u8] = b"ORIGIN";
/// The maximum number of users of one library, and of links to one.
const USERS: usize = 4;
/// The maximum number of libraries followed between a library and its users.
const BETWEEN: usize = 16;

/// The result of a dependency.
pub(crate) enum NeededLookup {
    To(RootPath),
    /// A library that the container runtime provides.
    Driver,
    /// Not found, or unknown without the program that loads the object.
    Unknown,
}

/// Resolves a `DT_NEEDED` entry of `object` in the process that loads it.
pub(crate) fn follow_needed(
    context: &ProcessContext,
    profiles: &[ConsumerProfile],
    object: &RootPath,
    name: &ByteString,
) -> NeededLookup {
    let target = ObjectToLoad {
        object,
        opened_as: None,
        known: KnownProfiles {
            own: profiles.iter().find(|profile| profile.fits(object)),
            before: None,
            all: profiles,
        },
    };
    let loaded = context.with_setup(|setup| {
        let loader = ObjectLoader::find(context, object);
        loader.load(&mut SimulatedProcess::new(setup), context, &target)
    });
    let Some(loaded) = loaded else {
        return NeededLookup::Unknown;
    };
    let missing = loaded.unresolved.iter().find(|missing| missing.name == *name);
    match (loaded.object_for(name), missing.map(|missing| missing.outcome)) {
        // A found object can still fail, if it lacks a required version.
        (Some(found), None) => NeededLookup::To(found.real_path.clone()),
        (_, Some(RequestOutcome::ProvidedAtRuntime)) => NeededLookup::Driver,
        _ => NeededLookup::Unknown,
    }
}
