//! What each object of an image lacks, by the library that is missing: what `ldd` would say of all of them.
//!
//! A program is started as the kernel does it, a library is mapped by itself, as `ldd` does. So a library that relies on
//! what another object of its process has loaded lacks it here, as it does there.

use std::collections::{BTreeMap, BTreeSet};

use elf::abi::ET_DYN;

use crate::facts::image_facts::{Gap, ImageFacts};
use crate::facts::objects::process_context::ProcessContext;
use crate::facts::objects::resolved_objects::{is_unforetold, unresolved_objects};
use image_linkage::elf::{ByteString, ElfFacts};
use image_linkage::escape;
use image_linkage::loader::{Arch, LoadResolution, RequestOutcome, SearchStep, UnresolvedRequest};
use image_linkage::loader::{TraceLine, trace_lines};
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, Rootfs};

/// The objects that all loads together may map, which is some eight seconds: in an image that is made for it, all objects
/// of thousands need each other. PyTorch 2.8 with all that it needs maps 30,000.
const MAPPED: usize = 2_000_000;
/// The steps of the loader that all loads together may take beyond those of one: a few seconds.
const STEPS: u64 = 40_000_000;
/// The missing libraries that are told; an image can name a million.
const TOLD: usize = 1_000;
/// The places of a library off the search path that are told.
const PLACES: usize = 3;

/// What the objects of an image lack.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectLinks {
    /// The number of programs that were asked.
    pub programs: usize,
    /// The number of libraries that were asked.
    pub libraries: usize,
    /// Those of both that do not load.
    pub failing: BTreeSet<RootPath>,
    /// The objects for other processors, which were not asked.
    pub foreign: usize,
    /// The objects that the user of the image may not load, which were not asked either.
    pub denied: usize,
    /// What is missing, by name.
    pub lacks: Vec<LackedLibrary>,
    /// The libraries of the driver, and how many objects need each.
    pub from_driver: BTreeMap<ByteString, usize>,
    /// What could not be followed to its end.
    pub gaps: BTreeSet<Gap>,
}

/// A library, or a version of one, that objects need and do not get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LackedLibrary {
    /// The name that is asked for; the object's own path where it is itself refused.
    pub name: ByteString,
    /// The version of symbols that the library which was found does not have.
    pub version: Option<ByteString>,
    /// Whether nothing was found, or what was found cannot be loaded.
    pub outcome: RequestOutcome,
    /// The loader's words, of the first object.
    pub message: String,
    /// The loader's search, of the first object.
    pub searched: Vec<TraceLine>,
    /// The objects that ask for it themselves, with their layers, counted from 0.
    pub needed_by: BTreeMap<RootPath, usize>,
    /// How many objects do not load for want of it, those that need it through others included.
    pub stops: usize,
    /// How many of these are programs.
    pub stops_programs: usize,
    /// The first files of its name that lie in the image and that the search does not come to.
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

/// Asks the objects of the image as it is: those at or below the paths `chosen`, or all where there are none.
///
/// Errors: A chosen path with no object at or below it, in a sentence.
pub fn survey_objects(facts: &ImageFacts, chosen: &[String]) -> Result<ObjectLinks, String> {
    let context = &facts.contexts.as_is;
    let mut survey = LinkSurvey {
        context,
        links: ObjectLinks::default(),
        lacks: BTreeMap::new(),
        mapped: 0,
        before: context.steps_taken(),
    };
    let places = chosen.iter().map(|path| real_place(&context.rootfs, path));
    let places: Vec<RootPath> = places.collect::<Result<_, _>>()?;
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

/// A path of the image without links.
fn real_place(rootfs: &Rootfs, path: &str) -> Result<RootPath, String> {
    let found = rootfs.lookup(path.as_bytes());
    let found = found.map_err(|error| format!("{}: {error}", escape::escape_bytes(path.as_bytes())))?;
    Ok(found.path)
}

/// An object that is asked.
struct AskedObject {
    path: RootPath,
    layer: usize,
    is_program: bool,
    interp: Option<ByteString>,
}

/// What makes two requests lack the same.
type LackKey = (ByteString, Option<ByteString>, RequestOutcome);

struct LinkSurvey<'f> {
    context: &'f ProcessContext,
    links: ObjectLinks,
    lacks: BTreeMap<LackKey, LackedLibrary>,
    mapped: usize,
    /// The steps that were taken before the first object.
    before: u64,
}

impl LinkSurvey<'_> {
    fn gap(&mut self, what: &str, why: &str) {
        // As many as there are libraries told: each is a line.
        if self.links.gaps.len() < TOLD {
            let (what, why) = (what.to_owned(), why.to_owned());
            self.links.gaps.insert(Gap { what, why });
        }
    }

    /// Why no more objects are asked.
    fn end(&self) -> Option<&'static str> {
        let is_over = self.mapped > MAPPED || self.context.steps_taken() - self.before > STEPS;
        is_over.then_some("they need each other in more ways than are followed")
    }

    fn list_objects(&mut self, places: &[RootPath]) -> Vec<AskedObject> {
        let mut objects = Vec::new();
        let wanted = self.context.linker.as_ref().map(|linker| linker.arch);
        self.context.rootfs.visit(|path, _, node| {
            let NodeKind::File(file) = &node.kind else { return };
            let is_chosen = places.is_empty() || places.iter().any(|place| path.starts_with(place));
            let Some(elf) = file.elf.as_deref().filter(|elf| is_chosen && is_linked(elf)) else {
                return;
            };
            if !is_for(elf, wanted) {
                self.links.foreign += 1;
                return;
            }
            objects.push(AskedObject {
                path: path.clone(),
                layer: node.layer,
                is_program: elf.is_program() || (elf.interp.is_some() && elf.soname.is_none()),
                interp: elf.interp.clone(),
            });
        });
        objects
    }

    fn ask(&mut self, object: &AskedObject) {
        if let Some(interp) = object.interp.as_ref().filter(|_| object.is_program)
            && self.context.rootfs.file(interp).is_none()
        {
            return self.lacks_interpreter(object, &interp.clone());
        }
        let Some(started) = self.context.start_program(&object.path.absolute()) else {
            // Without a loader nobody maps a library, and a program that names one was told above.
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
            if is_unforetold(&missing.trace) {
                self.gap(&escape::escape_bytes(&missing.name), &missing.message);
                continue;
            }
            is_failing = true;
            let key = (missing.name.clone(), missing.missing_version.clone(), missing.outcome);
            let asker = missing.requested_by.and_then(|number| started.objects.get(number));
            let asker = asker.map_or(&object.path, |asker| &asker.real_path);
            // Several objects of one process may ask for it.
            let is_first = told.insert(key.clone());
            self.add_lack(key, object, asker, is_first, || {
                let lines = trace_lines(&missing.trace, &started.objects);
                (missing.message.clone(), lines)
            });
        }
        if is_failing {
            self.links.failing.insert(object.path.clone());
        }
    }

    fn lacks_interpreter(&mut self, object: &AskedObject, interp: &ByteString) {
        self.count(object);
        self.links.failing.insert(object.path.clone());
        let key = (interp.clone(), None, RequestOutcome::NotFound);
        let asker = object.path.clone();
        self.add_lack(key, object, &asker, true, || {
            let interp = escape::escape_bytes(interp);
            let message = format!(
                "{}: No such file or directory: its interpreter {interp} is not there",
                object.path
            );
            (message, Vec::new())
        });
    }

    fn add_lack(
        &mut self,
        key: LackKey,
        object: &AskedObject,
        asker: &RootPath,
        is_first: bool,
        words: impl FnOnce() -> (String, Vec<TraceLine>),
    ) {
        if self.lacks.len() >= TOLD && !self.lacks.contains_key(&key) {
            let why = format!("more than {TOLD} things are missing, and the rest is not told");
            return self.gap("what else is missing", &why);
        }
        let rootfs = &self.context.rootfs;
        let found = rootfs.lookup(&asker.absolute()).ok();
        let layer = found.map_or(object.layer, |found| rootfs.node(found.node).layer);
        let lack = self.lacks.entry(key).or_insert_with_key(|(name, version, outcome)| {
            let (message, searched) = words();
            LackedLibrary {
                name: name.clone(),
                version: version.clone(),
                outcome: *outcome,
                message,
                searched,
                needed_by: BTreeMap::new(),
                stops: 0,
                stops_programs: 0,
                elsewhere: Vec::new(),
            }
        });
        lack.needed_by.insert(asker.clone(), layer);
        lack.stops += usize::from(is_first);
        lack.stops_programs += usize::from(is_first && object.is_program);
    }

    fn finish(mut self) -> ObjectLinks {
        let mut lacks = std::mem::take(&mut self.lacks);
        let wanted = self.context.linker.as_ref().map(|linker| linker.arch);
        // One walk for all: in an image of a hundred thousand files each would take its time.
        self.context.rootfs.visit(|path, _, node| {
            let of_name = |name: &[u8]| (ByteString::from(name), None, RequestOutcome::NotFound);
            let soname = match &node.kind {
                NodeKind::File(file) => file.elf.as_ref().and_then(|elf| elf.soname.as_deref()),
                NodeKind::Symlink(_) => None,
                NodeKind::Directory(_) | NodeKind::Special => return,
            };
            let keys = [Some(path.name()), soname.filter(|soname| *soname != path.name())];
            for key in keys.into_iter().flatten().map(of_name) {
                if let Some(lack) = lacks.get_mut(&key)
                    && lack.elsewhere.len() < PLACES
                    && let Some(elf) = self
                        .context
                        .rootfs
                        .file(&path.absolute())
                        .and_then(|file| file.elf.as_deref())
                    && is_for(elf, wanted)
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

    /// Takes out the damaged libraries that another entry tells of, as what the objects that need them are refused.
    fn join_refused(&self, lacks: &mut BTreeMap<LackKey, LackedLibrary>) {
        let rootfs = &self.context.rootfs;
        let refused = lacks.values().filter(|lack| lack.outcome == RequestOutcome::Refused);
        let places = refused.filter_map(|lack| rootfs.lookup(lack.searched.last()?.path.as_bytes()).ok());
        let places: BTreeSet<Vec<u8>> = places.map(|found| found.path.absolute()).collect();
        lacks.retain(|(name, ..), lack| !lack.searched.is_empty() || !places.contains(&name[..]));
    }
}

/// Whether a loader has anything to do with it: neither an object file, nor a program that stands alone.
fn is_linked(elf: &ElfFacts) -> bool {
    elf.dynamic && !elf.is_static() && (elf.is_program() || elf.kind == ET_DYN)
}

/// Whether it is for the processor and the class of the image's own loader; where there is none, for any that is known.
fn is_for(elf: &ElfFacts, wanted: Option<&'static Arch>) -> bool {
    match wanted {
        Some(arch) => elf.machine == arch.machine && elf.class() == arch.class,
        None => Arch::of_object(elf).is_some(),
    }
}

/// Whether the user of the image may not load the object itself.
fn is_denied(started: &LoadResolution) -> bool {
    let mut own = started
        .unresolved
        .iter()
        .filter(|missing| missing.requested_by.is_none());
    own.any(|missing| missing.trace.iter().any(|step| SearchStep::denial(step).is_some()))
}

/// The names of the driver's libraries that objects of a process need.
fn driver_libraries(started: &LoadResolution) -> BTreeSet<&[u8]> {
    let is_of_driver = |missing: &&UnresolvedRequest| missing.outcome == RequestOutcome::ProvidedAtRuntime;
    let missing = started.unresolved.iter().filter(is_of_driver);
    missing.map(|missing| &*missing.name).collect()
}
