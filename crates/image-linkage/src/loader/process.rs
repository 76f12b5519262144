//! A process as the loader sees it: mapped objects, and the two ways to map more.

mod unbound;

use std::ops::ControlFlow;
use std::sync::Arc;

use super::glibc::GlibcSearch;
use super::link_map::{LinkMaps, LoadPhase, ProcessSetup, SearchHit, SearchMiss, directory_of};
use super::load_queue::{DependencyKind, LoadQueue};
use super::load_report;
use super::machine::Libc;
use super::musl::MuslSearch;
use super::object_check::{self, ObjectRole, OpenedObject};
use super::process_identity;
use super::refusal_text::refusal_miss;
use super::resolution::{LoadResolution, LoadedObject, RequestOutcome, UnresolvedRequest};
use super::search::{self, LibraryRequest, LibrarySearch};
use super::trace::{SearchStage, SearchStep, TriedFile};
use crate::elf::ByteString;
use crate::escape;
use crate::path::RootPath;
use crate::rootfs::{FileUse, LookupError, NodeKind};

/// The budget for a failed preload, in addition to its search.
const WARNING_STEPS: usize = 16;

/// A process with its mapped objects.
#[derive(Clone)]
pub struct SimulatedProcess<'a> {
    maps: LinkMaps<'a>,
    search: Box<dyn LibrarySearch>,
    /// The numbers of the reported objects, in order.
    order: Vec<usize>,
    phase: LoadPhase,
    /// The number of relocated objects, and how many of them were mapped at program start.
    relocated: usize,
    started: usize,
}

/// How a program is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartMode {
    /// By the kernel: `$ORIGIN` is the directory of the canonical file.
    Executed,
    /// As an argument of the loader: `$ORIGIN` is the directory of the path as written.
    Listed,
}

impl<'a> SimulatedProcess<'a> {
    /// A process with only the loader mapped.
    pub fn new(setup: &'a ProcessSetup<'a>) -> Self {
        let mut process = Self {
            maps: LinkMaps::new(setup),
            search: match setup.linker.libc {
                Libc::Glibc(_) => Box::new(GlibcSearch::default()),
                Libc::Musl => Box::new(MuslSearch::default()),
            },
            order: Vec::new(),
            phase: LoadPhase::Start,
            relocated: 0,
            started: usize::MAX,
        };
        // The loader is mapped first, so a DT_NEEDED entry for it needs no search.
        process.map_file(&setup.linker.path, SearchStage::Interpreter);
        process
    }

    /// Maps the file at `path` without checks.
    fn map_file(&mut self, path: &[u8], how: SearchStage) -> Option<usize> {
        let found = self.maps.setup.rootfs.lookup(path).ok()?;
        let NodeKind::File(facts) = &self.maps.setup.rootfs.node(found.node).kind else {
            return None;
        };
        let opened = OpenedObject {
            real_path: found.path,
            facts: Arc::clone(facts),
        };
        let path = path.into();
        Some(self.maps.push(SearchHit { path, opened, how }, None))
    }

    /// Starts the program at `path` and loads its dependencies.
    pub fn start(&mut self, path: &[u8], start: StartMode) -> LoadResolution {
        let mut resolution = LoadResolution::default();
        let setup = self.maps.setup;
        if start == StartMode::Executed
            && let Err(denied) = self.execute(path)
        {
            resolution.unresolved.push(denied);
            return resolution;
        }
        let (found, role) = match start {
            // The kernel maps it; the process needs no read permission.
            StartMode::Executed => (setup.rootfs.lookup(path), ObjectRole::Program),
            StartMode::Listed => (self.maps.open(path), ObjectRole::Argument),
        };
        let (tried, opened) = object_check::open_object(setup.rootfs, path, found, |facts| {
            self.search.verify_object(setup, facts, role)
        });
        let Some(opened) = opened else {
            resolution.unresolved.push(refusal(path, &tried));
            return resolution;
        };
        let real_path = opened.real_path.absolute();
        let main = self.maps.push(
            SearchHit {
                path: path.into(),
                opened,
                how: SearchStage::Start,
            },
            None,
        );
        if start == StartMode::Executed
            && let Some(map) = self.maps.get_mut(main)
        {
            // `_dl_get_origin` reads /proc/self/exe, which is canonical.
            map.origin = directory_of(&real_path).into();
        }
        self.list(main, None, path, 0, Vec::new(), SearchStage::Start);
        // Symbols are looked up in this order: program, then preloads.
        let mut roots = vec![main];
        roots.extend(self.preload(&mut resolution));
        self.load_needs(&roots, &mut resolution);
        self.relocate(false, &mut resolution);
        self.started = self.relocated;
        self.finish(main, resolution)
    }

    /// Changes identity as the kernel does when the user executes the program at `path`.
    ///
    /// Errors: The program or its interpreter may not be executed.
    fn execute(&mut self, path: &[u8]) -> Result<(), UnresolvedRequest> {
        let setup = self.maps.setup;
        let open = |path: &[u8], how: SearchStage| match setup.rootfs.open_as(path, setup.user, FileUse::Execute) {
            Err(error @ LookupError::Denied(_)) => Err((path.to_vec(), how, error)),
            other => Ok(other.ok()),
        };
        let found = open(path, SearchStage::Start);
        let facts = found.map(|found| match &setup.rootfs.node(found?.node).kind {
            NodeKind::File(facts) => Some(facts),
            _ => None,
        });
        let interpreted = facts.and_then(|facts| {
            let elf = facts.and_then(|facts| facts.elf.as_ref());
            // The kernel also opens the interpreter for execution (fs/binfmt_elf.c, `open_exec`).
            if elf.is_some_and(|elf| elf.interp.is_some()) {
                open(&setup.linker.path, SearchStage::Interpreter)?;
            }
            Ok(facts)
        });
        let facts = interpreted.map_err(|(at, how, error)| {
            let message = format!("{}: {error}", escape::escape_bytes(path));
            let step = SearchStep::Tried {
                how,
                path: at.into(),
                tried: TriedFile::Missing(error),
            };
            let outcome = RequestOutcome::Refused;
            unresolved(path, None, SearchMiss { outcome, message }, vec![step])
        })?;
        if let Some(facts) = facts {
            if facts.capabilities.is_some_and(|file| file.withheld) {
                let why = "Operation not permitted: it has file capabilities that containers lack by default";
                let message = format!("{}: {why}", escape::escape_bytes(path));
                let outcome = RequestOutcome::Refused;
                return Err(unresolved(path, None, SearchMiss { outcome, message }, Vec::new()));
            }
            self.maps.identity = process_identity::execute_program(setup.user, facts);
        }
        Ok(())
    }

    /// Starts an unknown program, of which only the environment is known, and loads its preloads. An unresolved request
    /// means that it does not start.
    pub fn start_unknown(&mut self) -> LoadResolution {
        let mut resolution = LoadResolution::default();
        let roots = self.preload(&mut resolution);
        self.load_needs(&roots, &mut resolution);
        self.relocate(false, &mut resolution);
        self.started = self.relocated;
        // No object has this number: without a known program the report has no root.
        self.finish(usize::MAX, resolution)
    }

    /// Opens `name` with dlopen on behalf of the object with number `caller`, or of a caller without search paths.
    /// Objects mapped before stay.
    pub fn open(&mut self, name: &[u8], caller: Option<usize>) -> LoadResolution {
        self.open_bound(name, caller, false)
    }

    /// Like [`Self::open`], with `RTLD_NOW`.
    pub fn open_now(&mut self, name: &[u8], caller: Option<usize>) -> LoadResolution {
        self.open_bound(name, caller, true)
    }

    fn open_bound(&mut self, name: &[u8], caller: Option<usize>, at_once: bool) -> LoadResolution {
        // From now on libc.so formats errors; it knows more of them.
        self.phase = LoadPhase::Open;
        let mut resolution = LoadResolution::default();
        let mut trace = Vec::new();
        let known = self.maps.count();
        let requester = self.search.open_requester(&self.maps, caller);
        match self.request(name, requester, &mut trace) {
            Err(miss) => {
                resolution.unresolved.push(unresolved(name, None, miss, trace));
                self.finish(usize::MAX, resolution)
            }
            Ok((root, how)) => {
                // An object mapped before keeps its first requester.
                if root >= known
                    && !self.search.keeps_requester()
                    && let Some(map) = self.maps.get_mut(root)
                {
                    map.requester = None;
                    map.path_owner = map.path_owner.filter(|owner| *owner == root);
                }
                self.list(root, None, name, 0, trace, how);
                self.load_needs(&[root], &mut resolution);
                self.relocate(at_once, &mut resolution);
                self.finish(root, resolution)
            }
        }
    }

    /// Opens `name` with dlmopen and `LM_ID_NEWLM`: mapped objects do not answer, and dependencies are mapped again.
    /// The search paths are still those of the caller and the program (elf/dl-load.c, `_dl_map_object`).
    pub fn open_in_new_namespace(&mut self, name: &[u8], caller: Option<usize>) -> LoadResolution {
        self.maps.enter_new_namespace();
        let resolution = self.open(name, caller);
        self.maps.leave_namespace();
        resolution
    }

    /// The number of the mapped object at this path, for use as the caller of [`Self::open`].
    pub fn map_of_path(&self, real_path: &RootPath) -> Option<usize> {
        self.maps.position(|map| map.real_path == *real_path)
    }

    /// Whether an object is mapped whose canonical path is accepted by `fits`.
    pub fn has_mapped(&self, mut fits: impl FnMut(&RootPath) -> bool) -> bool {
        self.maps.iter().any(|map| fits(&map.real_path))
    }

    /// The directories searched before the cache and the defaults for a dependency of the object at this path when it
    /// is started. Absolute, with a trailing `/`, tokens expanded, in order, each with its search stage. In each, the
    /// loader first searches [`DynamicLoader::subdirectories`].
    pub fn search_path(setup: &'a ProcessSetup<'a>, object: &RootPath) -> Vec<(SearchStage, ByteString)> {
        let mut process = Self::new(setup);
        let path = object.absolute();
        let Some(main) = process.map_file(&path, SearchStage::Start) else {
            return Vec::new();
        };
        // A library is mapped by a loader that trusts the environment.
        if let Some(map) = process.maps.get(main).filter(|map| map.elf().interp.is_some()) {
            process.maps.identity = process_identity::execute_program(setup.user, &map.facts);
        }
        // Listed as the program, because DT_RPATH chains and the tokens of LD_LIBRARY_PATH refer to the executable.
        process.list(main, None, &path, 0, Vec::new(), SearchStage::Start);
        process.directories(Some(main))
    }

    /// The same for an unknown program: the directories of `LD_LIBRARY_PATH`.
    pub fn plain_search_path(setup: &'a ProcessSetup<'a>) -> Vec<(SearchStage, ByteString)> {
        Self::new(setup).directories(None)
    }

    fn directories(&self, requester: Option<usize>) -> Vec<(SearchStage, ByteString)> {
        let mut found = Vec::new();
        for (how, directories) in self.search.search_path(&self.maps, requester) {
            for directory in &directories {
                // An empty element is the working directory. musl's directories have no trailing slash.
                let path = self.maps.absolute(if directory.is_empty() { b"." } else { directory });
                let folder = path.strip_suffix(b"/").unwrap_or(&path);
                found.push((how, [folder, b"/"].concat().into()));
            }
        }
        found
    }

    fn preload(&mut self, resolution: &mut LoadResolution) -> Vec<usize> {
        let mut maps = Vec::new();
        let requester = self.search.preload_requester(&self.maps);
        let ignored = self.search.ignored_preloads(&self.maps);
        resolution
            .preload_warnings
            .extend(ignored.into_iter().map(|(name, why)| {
                let outcome = RequestOutcome::Refused;
                let message = format!("{}: ignored: {why}", escape::escape_bytes(&name));
                unresolved(&name, None, SearchMiss { outcome, message }, Vec::new())
            }));
        self.phase = LoadPhase::Preload;
        for name in self.search.preload_names(&self.maps) {
            let mut trace = Vec::new();
            match self.request(&name, requester, &mut trace) {
                Ok((map, _)) => {
                    self.list(map, None, &name, 1, trace, SearchStage::Preload);
                    maps.push(map);
                }
                // The process dies here, so later names are never tried.
                Err(miss) if crashes(&trace) => {
                    let missing = unresolved(&name, None, miss, trace);
                    resolution.unresolved.push(missing);
                    break;
                }
                // "object … cannot be preloaded …: ignored": the start continues (glibc elf/rtld.c, `do_preload`).
                Err(miss) => {
                    resolution.preload_warnings.push(unresolved(&name, None, miss, trace));
                    // Each warning is repeated for every process. Without budget, all further ones would be equal.
                    if !self.maps.setup.linker.budget.spend(WARNING_STEPS) {
                        break;
                    }
                }
            }
        }
        self.phase = LoadPhase::Start;
        maps
    }

    /// Loads the dependencies of the roots, breadth first (glibc elf/dl-deps.c, `_dl_map_object_deps`).
    fn load_needs(&mut self, roots: &[usize], resolution: &mut LoadResolution) {
        let mut queue = LoadQueue::new(roots.iter().map(|&root| (root, self.depth(root))));
        while let Some((map, depth)) = queue.next_object() {
            // Mapped earlier in this process, so its dependencies are loaded.
            if self.maps.get(map).is_none_or(|map| !map.needs.is_empty()) {
                continue;
            }
            for (name, kind) in self.needs_of(map) {
                let mut trace = Vec::new();
                let requested = match self.search.refuse_need(&self.maps, &name) {
                    Some(miss) => Err(miss),
                    None => self.request(&name, Some(map), &mut trace),
                };
                let answer = match requested {
                    Ok((found, how)) => {
                        self.list(found, Some(map), &name, depth + 1, trace, how);
                        match kind {
                            DependencyKind::Needed if queue.append(found, depth + 1) => {}
                            // Too many objects: exhaust the budget, because the rest is unknown.
                            DependencyKind::Needed => drop(self.maps.setup.linker.budget.spend(usize::MAX)),
                            _ if queue.insert_before(map, found, depth + 1) => {
                                self.report_before(map, found);
                            }
                            _ => {}
                        }
                        Some(found)
                    }
                    // The filtee of an auxiliary filter may be missing.
                    Err(_) if kind == DependencyKind::Auxiliary => continue,
                    Err(mut miss) => {
                        if let Some(map) = self.maps.get(map) {
                            miss = self.search.name_requester(miss, map);
                        }
                        resolution.unresolved.push(unresolved(&name, Some(map), miss, trace));
                        None
                    }
                };
                if let Some(map) = self.maps.get_mut(map) {
                    map.needs.push((name, answer));
                }
            }
        }
    }

    fn needs_of(&self, map: usize) -> Vec<(ByteString, DependencyKind)> {
        let map = self.maps.get(map);
        map.map_or_else(Vec::new, |map| self.search.dependencies(&self.maps, map))
    }

    /// Moves an object before another in the report, as the loader does in its list.
    fn report_before(&mut self, map: usize, moved: usize) {
        self.order.retain(|&listed| listed != moved);
        let at = self.order.iter().position(|&listed| listed == map);
        self.order.insert(at.unwrap_or(self.order.len()), moved);
    }

    fn depth(&self, map: usize) -> usize {
        self.maps
            .get(map)
            .and_then(|map| map.object.as_ref())
            .map_or(0, |object| object.depth)
    }

    /// The object that answers to `name`, loaded if necessary, and how it was found.
    fn request(
        &mut self,
        name: &[u8],
        requester: Option<usize>,
        trace: &mut Vec<SearchStep>,
    ) -> Result<(usize, SearchStage), SearchMiss> {
        if let ControlFlow::Break(Err(spent)) = search::spend_steps::<()>(&self.maps, name, 1) {
            return Err(spent);
        }
        if let Some(map) = self.search.find_mapped_name(&self.maps, name) {
            // Only the loader may still be missing in the report. For other objects `list` keeps how they were found
            // first.
            return Ok((map, SearchStage::Interpreter));
        }
        let request = LibraryRequest {
            name,
            requester,
            phase: self.phase,
        };
        let searched = self.search.search_library(&self.maps, request, trace);
        let hit = searched.map_err(|miss| self.provided_by_driver(name, miss))?;
        let how = hit.how;
        // Two names may lead to the same file, which is mapped once.
        let mapped = self.search.find_mapped_file(&self.maps, &hit.opened);
        let number = mapped.unwrap_or_else(|| self.maps.push(hit, requester));
        let map = self.maps.get(number);
        let alias = map.and_then(|map| self.search.new_alias(self.maps.setup, map, name));
        if let Some(alias) = alias {
            self.maps.add_name(number, alias);
        }
        Ok((number, how))
    }

    fn provided_by_driver(&self, name: &[u8], miss: SearchMiss) -> SearchMiss {
        // A refused file exists in the image, so the driver's library does not replace it.
        if miss.outcome == RequestOutcome::NotFound && (self.maps.setup.from_driver)(name) {
            return SearchMiss {
                outcome: RequestOutcome::ProvidedAtRuntime,
                ..miss
            };
        }
        miss
    }

    /// Adds an object to the report unless it is listed.
    fn list(
        &mut self,
        map: usize,
        requested_by: Option<usize>,
        name: &[u8],
        depth: usize,
        trace: Vec<SearchStep>,
        how: SearchStage,
    ) {
        // The first request determines name, depth and trace.
        let Some(entry) = self.maps.get_mut(map).filter(|map| map.object.is_none()) else {
            return;
        };
        entry.object = Some(LoadedObject {
            path: entry.path.clone(),
            real_path: entry.real_path.clone(),
            soname: entry.elf().soname.clone(),
            requested_by,
            name: name.into(),
            how,
            depth,
            trace,
            needs: Vec::new(),
        });
        self.order.push(map);
    }

    /// Runs the final checks and converts object numbers to report numbers.
    fn finish(&self, root: usize, mut resolution: LoadResolution) -> LoadResolution {
        // All mapped objects are reported again, which costs budget.
        let mut steps = 0;
        for map in self.order.iter().filter_map(|&map| self.maps.get(map)) {
            steps += 4 + map.needs.len() + map.object.as_ref().map_or(0, |object| object.trace.len());
        }
        self.maps.setup.linker.budget.spend(steps);
        let amiss = self.search.check_loaded(&self.maps, &self.order);
        resolution.unresolved.extend(amiss);
        load_report::number_objects(&self.maps, &self.order, root, resolution)
    }
}

/// Whether a search ended at a file that kills the process.
fn crashes(trace: &[SearchStep]) -> bool {
    let tried = trace.last().and_then(SearchStep::tried);
    matches!(tried, Some(TriedFile::Refused(refusal)) if refusal.is_fatal())
}

fn unresolved(name: &[u8], requested_by: Option<usize>, miss: SearchMiss, trace: Vec<SearchStep>) -> UnresolvedRequest {
    UnresolvedRequest {
        name: name.into(),
        requested_by,
        outcome: miss.outcome,
        message: miss.message,
        missing_version: None,
        trace,
    }
}

fn refusal(path: &[u8], tried: &TriedFile) -> UnresolvedRequest {
    let miss = refusal_miss(path, tried, LoadPhase::Start);
    let step = SearchStep::Tried {
        how: SearchStage::Start,
        path: path.into(),
        tried: tried.clone(),
    };
    // The message covers everything except a denial.
    let trace = step.denial().is_some().then_some(step);
    unresolved(path, None, miss, trace.into_iter().collect())
}
