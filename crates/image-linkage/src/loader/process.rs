//! A process as the loader sees it: the objects it has mapped, and the two ways to get more.

mod unbound;

use std::ops::ControlFlow;
use std::sync::Arc;

use super::glibc::GlibcSearch;
use super::link_map::{LinkMap, LinkMaps, LoadPhase, ProcessSetup, SearchHit, SearchMiss, directory_of};
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

/// The steps that a name takes which is preloaded in vain, beside those of its search.
const WARNING_STEPS: usize = 16;

/// A process and what it has mapped.
#[derive(Clone)]
pub struct SimulatedProcess<'a> {
    maps: LinkMaps<'a>,
    search: Box<dyn LibrarySearch>,
    /// The maps in the order in which they are reported, by number.
    order: Vec<usize>,
    phase: LoadPhase,
    /// How many maps are relocated, and how many of them the program was started with.
    relocated: usize,
    started: usize,
}

/// How an object is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartMode {
    /// By the kernel: `$ORIGIN` is the directory of the file itself.
    Executed,
    /// As an argument of the loader: `$ORIGIN` is the directory in the path as written.
    Listed,
}

impl<'a> SimulatedProcess<'a> {
    /// A process in which nothing but the loader is mapped.
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
        // The loader is mapped before anything is asked for, so that a DT_NEEDED of it needs no search.
        process.map_file(&setup.linker.path, SearchStage::Interpreter);
        process
    }

    /// Maps the file at `path`, whatever it holds.
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

    /// Starts the object at `path` and loads what it needs.
    pub fn start(&mut self, path: &[u8], start: StartMode) -> LoadResolution {
        let mut resolution = LoadResolution::default();
        let setup = self.maps.setup;
        if start == StartMode::Executed
            && let Err(denied) = self.execute(path)
        {
            resolution.unresolved.push(denied);
            return resolution;
        }
        let found = match start {
            // The kernel has mapped it, who need not let the process read it.
            StartMode::Executed => setup.rootfs.lookup(path),
            StartMode::Listed => self.maps.open(path),
        };
        let (tried, opened) = object_check::open_object(setup.rootfs, path, found, |facts| {
            self.search.verify_object(setup, facts, ObjectRole::Program)
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
            // `_dl_get_origin` reads the link /proc/self/exe, which names the file without links.
            map.origin = directory_of(&real_path).into();
        }
        self.list(main, None, path, 0, Vec::new(), SearchStage::Start);
        // The program comes first, then what is preloaded: symbols are looked up in this order.
        let mut roots = vec![main];
        roots.extend(self.preload(&mut resolution));
        self.load_needs(&roots, &mut resolution);
        self.relocate(false, &mut resolution);
        self.started = self.relocated;
        self.finish(main, resolution)
    }

    /// Becomes who the kernel makes of the user by executing the program at `path`.
    ///
    /// Errors: Who is not let to the program, or to the interpreter that it names.
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
            // The kernel executes the interpreter too (fs/binfmt_elf.c, `open_exec`).
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
                let why = "Operation not permitted: it has file capabilities that no container has by default";
                let message = format!("{}: {why}", escape::escape_bytes(path));
                let outcome = RequestOutcome::Refused;
                return Err(unresolved(path, None, SearchMiss { outcome, message }, Vec::new()));
            }
            self.maps.identity = process_identity::execute_program(setup.user, facts);
        }
        Ok(())
    }

    /// Starts a program of which nothing is known but the environment: what is preloaded is loaded. It does
    /// not start when something is unresolved.
    pub fn start_unknown(&mut self) -> LoadResolution {
        let mut resolution = LoadResolution::default();
        let roots = self.preload(&mut resolution);
        self.load_needs(&roots, &mut resolution);
        self.relocate(false, &mut resolution);
        self.started = self.relocated;
        // No map has this number: the program is not known, so that the report has no root.
        self.finish(usize::MAX, resolution)
    }

    /// Opens `name` as dlopen does, for the caller with this number, or for a caller without search paths.
    /// What was mapped before stays.
    pub fn open(&mut self, name: &[u8], caller: Option<usize>) -> LoadResolution {
        self.open_bound(name, caller, false)
    }

    /// The same by who wants functions bound as well (`RTLD_NOW`).
    pub fn open_now(&mut self, name: &[u8], caller: Option<usize>) -> LoadResolution {
        self.open_bound(name, caller, true)
    }

    fn open_bound(&mut self, name: &[u8], caller: Option<usize>, at_once: bool) -> LoadResolution {
        // From now on it is libc.so that puts errors into words, and it knows more of them.
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
                // An object that was there before keeps the paths of who asked for it first.
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

    /// Opens `name` as dlmopen does with `LM_ID_NEWLM`: nothing that is mapped answers, and what is needed is mapped once
    /// more (elf/dl-load.c, `_dl_map_object`, looks into one namespace, but searches along the caller's paths and the
    /// program's).
    pub fn open_in_new_namespace(&mut self, name: &[u8], caller: Option<usize>) -> LoadResolution {
        self.maps.enter_new_namespace();
        let resolution = self.open(name, caller);
        self.maps.leave_namespace();
        resolution
    }

    /// The number by which [`SimulatedProcess::open_object`] takes the mapped object at this path as its caller.
    pub fn map_of_path(&self, real_path: &RootPath) -> Option<usize> {
        self.maps.position(|map| map.real_path == *real_path)
    }

    /// Whether an object is mapped whose path without links fits.
    pub fn has_mapped(&self, mut fits: impl FnMut(&RootPath) -> bool) -> bool {
        self.maps.iter().any(|map| fits(&map.real_path))
    }

    /// The directories that are searched before the cache and the default ones for what the object at this path
    /// needs once it is started: absolute, with a final `/`, tokens expanded, in order, each with the part of the search.
    /// In each of them the loader looks into its [`DynamicLoader::subdirectories`] first.
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
        // As started: the chain of DT_RPATH and the tokens of LD_LIBRARY_PATH ask for the executable.
        process.list(main, None, &path, 0, Vec::new(), SearchStage::Start);
        process.directories(Some(main))
    }

    /// The same for what a process opens whose program is not known: those of `LD_LIBRARY_PATH`.
    pub fn plain_search_path(setup: &'a ProcessSetup<'a>) -> Vec<(SearchStage, ByteString)> {
        Self::new(setup).directories(None)
    }

    fn directories(&self, requester: Option<usize>) -> Vec<(SearchStage, ByteString)> {
        let absolute = |directory: &[u8]| {
            // The empty element of a path is the working directory. musl's are without a final slash.
            let directory = if directory.is_empty() { b"." } else { directory };
            let path = self.maps.absolute(directory);
            let path = path.strip_suffix(b"/").unwrap_or(&path);
            [path, b"/"].concat().into()
        };
        let lists = self.search.search_path(&self.maps, requester).into_iter();
        lists
            .flat_map(|(how, list)| list.into_iter().map(move |directory| (how, directory)))
            .map(|(how, directory)| (how, absolute(&directory)))
            .collect()
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
                // The process dies of such a file, so that the names behind it are never tried.
                Err(miss) if crashes(&trace) => {
                    let missing = unresolved(&name, None, miss, trace);
                    resolution.unresolved.push(missing);
                    break;
                }
                // "object … cannot be preloaded …: ignored": the start goes on (glibc elf/rtld.c, `do_preload`).
                Err(miss) => {
                    resolution.preload_warnings.push(unresolved(&name, None, miss, trace));
                    // Each is told in words, for each process anew; without steps left, all others would be told the same.
                    if !self.maps.setup.linker.budget.spend(WARNING_STEPS) {
                        break;
                    }
                }
            }
        }
        self.phase = LoadPhase::Start;
        maps
    }

    /// Loads what the roots need, breadth first (glibc elf/dl-deps.c, `_dl_map_object_deps`).
    fn load_needs(&mut self, roots: &[usize], resolution: &mut LoadResolution) {
        let mut queue = LoadQueue::new(roots.iter().map(|&root| (root, self.depth(root))));
        while let Some((map, depth)) = queue.next_object() {
            // What an earlier start or dlopen of this process mapped has its needs already.
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
                            // More objects than are followed: what comes of the others is not known.
                            DependencyKind::Needed => drop(self.maps.setup.linker.budget.spend(usize::MAX)),
                            _ if queue.insert_before(map, found, depth + 1) => {
                                self.report_before(map, found);
                            }
                            _ => {}
                        }
                        Some(found)
                    }
                    // What an auxiliary filter names may be absent.
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

    /// Moves a map before another in the report, as the loader does in its list of maps.
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

    /// The map that answers to `name`, loaded now if need be, and how it was found.
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
            // Of all maps only the loader's own may not be in the report yet; for the others `list` keeps how they
            // were found first.
            return Ok((map, SearchStage::Interpreter));
        }
        let request = LibraryRequest {
            name,
            requester,
            phase: self.phase,
        };
        let searched = self.search.search_library(&self.maps, request, trace);
        let hit = searched.map_err(|miss| self.unless_of_driver(name, miss))?;
        let how = hit.how;
        // Two names may lead to one file, which is mapped once.
        let mapped = self.search.find_mapped_file(&self.maps, &hit.opened);
        let number = mapped.unwrap_or_else(|| self.maps.push(hit, requester));
        let map = self.maps.get(number);
        let alias = map.and_then(|map| self.search.new_alias(self.maps.setup, map, name));
        if let Some(alias) = alias {
            self.maps.add_name(number, alias);
        }
        Ok((number, how))
    }

    fn unless_of_driver(&self, name: &[u8], miss: SearchMiss) -> SearchMiss {
        // A file that is refused is in the image: the driver does not take its place.
        if miss.outcome == RequestOutcome::NotFound && (self.maps.setup.from_driver)(name) {
            return SearchMiss {
                outcome: RequestOutcome::ProvidedAtRuntime,
                ..miss
            };
        }
        miss
    }

    /// Puts a map into the report, the first time that it is met.
    fn list(
        &mut self,
        map: usize,
        requested_by: Option<usize>,
        name: &[u8],
        depth: usize,
        trace: Vec<SearchStep>,
        how: SearchStage,
    ) {
        // The first request gives the object its name, depth and trace; a later one only finds it there.
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

    /// Checks what is loaded, and turns numbers of maps into numbers of objects.
    fn finish(&self, root: usize, mut resolution: LoadResolution) -> LoadResolution {
        // All that is mapped is reported once more.
        let listed = self.order.iter().filter_map(|&map| self.maps.get(map));
        let kept = |map: &LinkMap| 4 + map.needs.len() + map.object.as_ref().map_or(0, |object| object.trace.len());
        self.maps.setup.linker.budget.spend(listed.map(kept).sum());
        let amiss = self.search.check_loaded(&self.maps, &self.order);
        resolution.unresolved.extend(amiss);
        load_report::number_objects(&self.maps, &self.order, root, resolution)
    }
}

/// Whether a search ended at a file that no process survives.
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
    // Of all that can be amiss with it, only this is not in the words.
    let trace = step.denial().is_some().then_some(step);
    unresolved(path, None, miss, trace.into_iter().collect())
}
