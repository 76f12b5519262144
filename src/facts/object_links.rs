//! Finds the missing dependencies of all objects in an image, as `ldd` would, grouped by library.
//!
//! A program starts as the kernel would start it. A library is mapped on its own, as in `ldd`, so a dependency that
//! another object of its process usually loads is reported as missing.

use std::collections::{BTreeMap, BTreeSet};

use elf::abi::ET_DYN;

use crate::facts::image_facts::ImageFacts;
use crate::facts::merged_layers::Gap;
use crate::facts::objects::interpreter::is_only_program;
use crate::facts::objects::process_context::ProcessContext;
use crate::facts::objects::resolved_objects::{driver_libraries, is_undetermined, unresolved_objects};
use image_linkage::elf::{ByteString, ElfFacts};
use image_linkage::escape;
use image_linkage::loader::{Arch, LoadResolution, RequestOutcome, SearchStep, UnresolvedRequest};
use image_linkage::loader::{TraceLine, trace_lines};
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, Rootfs};

/// The maximum number of objects mapped in all loads together, about eight seconds. In a crafted image, thousands of
/// objects may all need each other. PyTorch 2.8 with its dependencies maps 30,000.
const MAPPED: usize = 2_000_000;
/// The maximum number of loader steps in all loads together, beyond those of one load: a few seconds.
const STEPS: u64 = 40_000_000;
/// The maximum number of missing libraries to report; an image can name a million.
const TOLD: usize = 1_000;
/// The maximum number of locations to report for a library outside of the search path.
const PLACES: usize = 3;

/// The missing dependencies of an image's objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectLinks {
    /// The number of checked programs.
    pub programs: usize,
    /// The number of checked libraries.
    pub libraries: usize,
    /// The programs and libraries that do not load.
    pub failing: BTreeSet<RootPath>,
    /// The number of objects for other processors, which are not checked.
    pub foreign: usize,
    /// The number of objects that the image's user cannot load, which are not checked either.
    pub denied: usize,
    /// The missing dependencies, by name.
    pub lacks: Vec<LackedLibrary>,
    /// The driver's libraries, with the number of objects that need each.
    pub from_driver: BTreeMap<ByteString, usize>,
    /// The parts of the check that stopped early.
    pub gaps: BTreeSet<Gap>,
}

/// A library, or a version of one, that objects need and do not get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LackedLibrary {
    /// The requested name, or the object's own path if the loader refuses the object itself.
    pub name: ByteString,
    /// The symbol version that the found library lacks.
    pub version: Option<ByteString>,
    /// Whether nothing was found, or the found file does not load.
    pub outcome: RequestOutcome,
    /// The loader's message for the first object.
    pub message: String,
    /// The loader's search for the first object.
    pub searched: Vec<TraceLine>,
    /// The objects that need it directly, with their layers, counted from 0.
    pub needed_by: BTreeMap<RootPath, usize>,
    /// The number of objects that do not load because of it, including indirect ones.
    pub stops: usize,
    /// The number of programs among these.
    pub stops_programs: usize,
    /// The first files with its name that are in the image but not on the search path.
    pub elsewhere: Vec<RootPath>,
}

impl ObjectLinks {
    /// The verdict in one line.
    pub fn verdict(&self) -> String {
        let all = self.programs + self.libraries;
        match (self.failing.len(), self.lacks.len()) {
            (0, _) if !self.gaps.is_empty() => {
                "whether every object finds what it needs cannot be determined".to_owned()
            }
            (0, _) if all == 0 => "the image has no object to ask".to_owned(),
            (0, _) => format!("all {all} objects find what they need"),
            (1, 1) => format!("1 of {all} objects does not load: one thing is missing"),
            (failing, 1) => format!("{failing} of {all} objects do not load: one thing is missing"),
            (failing, lacks) => format!("{failing} of {all} objects do not load: {lacks} things are missing"),
        }
    }
}

/// Checks the objects of the image as it is: those at or below the `chosen` paths, or all if there are none.
///
/// Errors: a sentence about a chosen path without any object.
pub fn survey_objects(facts: &ImageFacts, chosen: &[String]) -> Result<ObjectLinks, String> {
    let context = &facts.contexts.as_is;
    let mut survey = LinkSurvey {
        context,
        links: ObjectLinks::default(),
        lacks: BTreeMap::new(),
        mapped: 0,
        before: context.steps_taken(),
    };
    let mut places = Vec::new();
    for path in chosen {
        places.push(real_place(&context.rootfs, path)?);
    }
    let objects = survey.list_objects(&places);
    for (place, named) in places.iter().zip(chosen) {
        if !objects.iter().any(|object| object.path.starts_with(place)) {
            let platform = &facts.image.platform;
            return Err(format!(
                "there is no object for {platform} at {}",
                escape::escape_bytes(named.as_bytes())
            ));
        }
    }
    for object in &objects {
        if let Some(end) = survey.end() {
            survey.gap("the objects that are left", end);
            break;
        }
        survey.ask(object);
    }
    Ok(survey.finish())
}

/// Resolves the links in a path of the image.
///
/// Errors: There is no such path; a bare name gets the path of a file with this name.
fn real_place(rootfs: &Rootfs, path: &str) -> Result<RootPath, String> {
    rootfs.lookup(path.as_bytes()).map(|found| found.path).map_err(|error| {
        let shown = escape::escape_bytes(path.as_bytes());
        let mut files = Vec::new();
        rootfs.visit(|place, _, _| files.extend((place.name() == path.as_bytes()).then(|| place.absolute())));
        match files.first().map(|file| escape::escape_bytes(file)) {
            Some(file) => format!(
                "{shown} is a name and not a path: name {file}, or follow the name as the loader does: \
                cupti-audit tree IMAGE {shown}"
            ),
            None => format!("{shown}: {error}"),
        }
    })
}

/// An object to check.
struct AskedObject {
    path: RootPath,
    layer: usize,
    is_program: bool,
    /// The name of its processor and class.
    arch: &'static str,
}

/// Requests with the same key have the same missing dependency: its name and version, the outcome, and the processor
/// and class of the objects.
type LackKey = (ByteString, Option<ByteString>, RequestOutcome, &'static str);

struct LinkSurvey<'f> {
    context: &'f ProcessContext,
    links: ObjectLinks,
    lacks: BTreeMap<LackKey, LackedLibrary>,
    mapped: usize,
    /// The number of steps before the first object.
    before: u64,
}

impl LinkSurvey<'_> {
    fn gap(&mut self, what: &str, why: &str) {
        // Same limit as for missing libraries, because each gap takes a line.
        if self.links.gaps.len() < TOLD {
            let (what, why) = (what.to_owned(), why.to_owned());
            self.links.gaps.insert(Gap { what, why });
        }
    }

    /// Why no more objects are checked.
    fn end(&self) -> Option<&'static str> {
        let is_over = self.mapped > MAPPED || self.context.steps_taken() - self.before > STEPS;
        is_over.then_some("they need each other in more ways than are followed")
    }

    fn list_objects(&mut self, places: &[RootPath]) -> Vec<AskedObject> {
        let mut objects = Vec::new();
        self.context.rootfs.visit(|path, _, node| {
            let NodeKind::File(file) = &node.kind else { return };
            let is_chosen = places.is_empty() || places.iter().any(|place| path.starts_with(place));
            let Some(elf) = file.elf.as_deref().filter(|elf| is_chosen && is_linked(elf)) else {
                return;
            };
            let Some(arch) = Arch::of_object(elf).filter(|_| self.context.has_loader_for(elf)) else {
                self.links.foreign += 1;
                return;
            };
            objects.push(AskedObject {
                path: path.clone(),
                layer: node.layer,
                is_program: is_only_program(elf),
                arch: arch.name,
            });
        });
        objects
    }

    fn ask(&mut self, object: &AskedObject) {
        let Some(started) = self.context.start_program(&object.path.absolute()) else {
            // Without a loader no library can be mapped.
            self.links.foreign += 1;
            return;
        };
        self.mapped += started.objects.len();
        if let Some(end) = self.context.budget_end() {
            return self.gap("some objects", &end);
        }
        if is_denied(&started) {
            self.links.denied += 1;
            return;
        }
        self.count(object);
        for name in driver_libraries(&started) {
            *self.links.from_driver.entry(name.into()).or_default() += 1;
        }
        for unread in &started.unread {
            self.gap(unread, "what it needs is not known");
        }
        self.add_lacks(object, &started);
    }

    fn count(&mut self, object: &AskedObject) {
        if object.is_program {
            self.links.programs += 1;
        } else {
            self.links.libraries += 1;
        }
    }

    fn add_lacks(&mut self, object: &AskedObject, started: &LoadResolution) {
        let mut told = BTreeSet::new();
        let mut is_failing = false;
        for missing in unresolved_objects(started) {
            if is_undetermined(&missing.trace) {
                self.gap(&escape::escape_bytes(&missing.name), &missing.message);
                continue;
            }
            is_failing = true;
            self.add_lack(object, started, missing, &mut told);
        }
        if is_failing {
            self.links.failing.insert(object.path.clone());
        }
    }

    fn add_lack(
        &mut self,
        object: &AskedObject,
        started: &LoadResolution,
        missing: &UnresolvedRequest,
        told: &mut BTreeSet<LackKey>,
    ) {
        let key = (
            missing.name.clone(),
            missing.missing_version.clone(),
            missing.outcome,
            object.arch,
        );
        // Several objects in one process may need it.
        let is_first = told.insert(key.clone());
        if self.lacks.len() >= TOLD && !self.lacks.contains_key(&key) {
            let why = format!("more than {TOLD} things are missing, and the rest is not told");
            return self.gap("what else is missing", &why);
        }
        let rootfs = &self.context.rootfs;
        let parent = missing.requested_by.and_then(|number| started.objects.get(number));
        let requester = parent.map_or(&object.path, |parent| &parent.real_path);
        let found = rootfs.lookup(&requester.absolute()).ok();
        let layer = found.map_or(object.layer, |found| rootfs.node(found.node).layer);
        let lack = self
            .lacks
            .entry(key)
            .or_insert_with_key(|(name, version, outcome, _)| LackedLibrary {
                name: name.clone(),
                version: version.clone(),
                outcome: *outcome,
                message: missing.message.clone(),
                searched: trace_lines(&missing.trace, &started.objects),
                needed_by: BTreeMap::new(),
                stops: 0,
                stops_programs: 0,
                elsewhere: Vec::new(),
            });
        lack.needed_by.insert(requester.clone(), layer);
        lack.stops += usize::from(is_first);
        lack.stops_programs += usize::from(is_first && object.is_program);
    }

    fn finish(mut self) -> ObjectLinks {
        let mut lacks = std::mem::take(&mut self.lacks);
        let rootfs = &self.context.rootfs;
        let names: BTreeSet<ByteString> = lacks.keys().map(|(name, ..)| name.clone()).collect();
        // A single walk for all libraries, because an image may have a hundred thousand files.
        rootfs.visit(|path, _, node| {
            let soname = match &node.kind {
                NodeKind::File(file) => file.elf.as_ref().and_then(|elf| elf.soname.as_deref()),
                NodeKind::Symlink(_) => None,
                NodeKind::Directory(_) | NodeKind::Special => return,
            };
            let own = [Some(path.name()), soname.filter(|soname| *soname != path.name())];
            for name in own
                .into_iter()
                .flatten()
                .map(ByteString::from)
                .filter(|name| names.contains(name))
            {
                let elf = rootfs.file(&path.absolute()).and_then(|file| file.elf.as_deref());
                if let Some(arch) = elf.and_then(Arch::of_object)
                    && let Some(lack) = lacks.get_mut(&(name, None, RequestOutcome::NotFound, arch.name))
                    && lack.elsewhere.len() < PLACES
                {
                    lack.elsewhere.push(path.clone());
                }
            }
        });
        self.join_refused(&mut lacks);
        ObjectLinks {
            lacks: lacks.into_values().collect(),
            ..self.links
        }
    }

    /// Removes damaged libraries that another entry already reports as a refused dependency.
    fn join_refused(&self, lacks: &mut BTreeMap<LackKey, LackedLibrary>) {
        let rootfs = &self.context.rootfs;
        let mut places = BTreeSet::new();
        for lack in lacks.values().filter(|lack| lack.outcome == RequestOutcome::Refused) {
            let file = lack
                .searched
                .last()
                .and_then(|line| rootfs.lookup(line.path.as_bytes()).ok());
            places.extend(file.map(|file| file.path.absolute()));
        }
        lacks.retain(|(name, ..), lack| !lack.searched.is_empty() || !places.contains(&name[..]));
    }
}

/// Whether the loader handles an object; not for object files and static programs.
fn is_linked(elf: &ElfFacts) -> bool {
    elf.dynamic && !elf.is_static() && (elf.is_program() || elf.kind == ET_DYN)
}

/// Whether the image's user cannot load the object itself.
fn is_denied(started: &LoadResolution) -> bool {
    let mut own = started
        .unresolved
        .iter()
        .filter(|missing| missing.requested_by.is_none());
    own.any(|missing| missing.trace.iter().any(|step| SearchStep::denial(step).is_some()))
}
