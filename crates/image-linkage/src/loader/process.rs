//! A process as the loader sees it: the objects it has mapped, and the two ways to get more.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::sync::Arc;

use super::dynamic_loader::{DynamicLoader, Libc};
use super::dynamic_tokens::DynamicTokens;
use super::load_queue::{DependencyKind, LoadQueue};
use super::object_check::{self, ObjectRole, OpenedObject};
use super::{
    CpuLevel, LoadRefusal, LoadResolution, LoadedObject, RequestOutcome, SearchStage, SearchStep,
    TriedFile, UnresolvedRequest, glibc, musl, preload, version_check,
};
use crate::elf::{ByteString, ElfFacts, ElfProblem, FilterKind};
use crate::layer::FileFacts;
use crate::path::RootPath;
use crate::rootfs::{NodeKind, Rootfs};

/// What a process runs in.
pub struct ProcessSetup<'a> {
    /// The file system.
    pub rootfs: &'a Rootfs,
    /// The loader.
    pub linker: &'a DynamicLoader,
    /// The environment.
    pub environment: &'a LoaderEnvironment,
    /// The processor's level.
    pub cpu: CpuLevel,
    /// Whether a library of this name comes from the driver on the host.
    pub from_driver: &'a dyn Fn(&[u8]) -> bool,
}

/// The part of the environment that the loader looks at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoaderEnvironment {
    /// `LD_LIBRARY_PATH`.
    pub library_path: Option<ByteString>,
    /// `LD_PRELOAD`.
    pub preload: Option<ByteString>,
    /// The working directory, absolute; empty means `/`.
    pub working_dir: ByteString,
}

/// A process and what it has mapped.
#[derive(Clone)]
pub struct SimulatedProcess<'a> {
    pub(super) setup: &'a ProcessSetup<'a>,
    pub(super) maps: Vec<LinkMap>,
    /// The maps in the order in which they are reported, by number.
    order: Vec<usize>,
    pub(super) phase: LoadPhase,
    /// Whether a search has found no cache.
    pub(super) cache_was_missing: Cell<bool>,
    /// The directories that a search has found absent; the loader looks for each once.
    pub(super) absent: RefCell<BTreeSet<ByteString>>,
    /// What only musl remembers.
    pub(super) musl: musl::MuslState,
}

/// Who puts a system error into words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoadPhase {
    /// The loader alone, which knows the words of few errors.
    Start,
    /// The C library, in dlopen.
    Open,
}

/// One mapped object (`struct link_map`).
#[derive(Clone)]
pub(super) struct LinkMap {
    pub path: ByteString,
    pub real_path: RootPath,
    pub facts: Arc<FileFacts>,
    /// The names it answers to, besides its soname.
    pub names: Vec<ByteString>,
    /// The object whose search paths count for what this one needs; none for what was opened by dlopen.
    pub loader: Option<usize>,
    /// The directory that `$ORIGIN` names.
    pub origin: ByteString,
    /// Its place in the report.
    object: Option<LoadedObject>,
    needs: Vec<(ByteString, Option<usize>)>,
}

impl LinkMap {
    pub fn elf(&self) -> &ElfFacts {
        static NONE: std::sync::LazyLock<ElfFacts> = std::sync::LazyLock::new(ElfFacts::default);
        self.facts.elf.as_deref().unwrap_or(&NONE)
    }

    /// Whether this is the object that was started.
    pub fn is_main(&self) -> bool {
        self.object
            .as_ref()
            .is_some_and(|object| object.how == SearchStage::Start)
    }

    fn answers_to(&self, name: &[u8]) -> bool {
        *self.path == *name
            || self.names.iter().any(|own| **own == *name)
            || self.elf().soname.as_deref() == Some(name)
    }
}

/// What a search found.
pub(super) struct SearchHit {
    pub path: ByteString,
    pub opened: OpenedObject,
    pub how: SearchStage,
}

/// Why a search found nothing.
pub(super) struct SearchMiss {
    pub outcome: RequestOutcome,
    pub message: String,
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
            setup,
            maps: Vec::new(),
            order: Vec::new(),
            phase: LoadPhase::Start,
            cache_was_missing: Cell::new(false),
            absent: RefCell::default(),
            musl: musl::MuslState::default(),
        };
        let linker = setup.linker;
        if let Ok(found) = setup.rootfs.lookup(&linker.path)
            && let NodeKind::File(facts) = &setup.rootfs.node(found.node).kind
        {
            let opened = OpenedObject {
                real_path: found.path,
                facts: Arc::clone(facts),
            };
            process.map(
                SearchHit {
                    path: linker.path.clone(),
                    opened,
                    how: SearchStage::Interpreter,
                },
                None,
            );
        }
        process
    }

    /// Starts the object at `path` and loads what it needs.
    pub fn start(&mut self, path: &[u8], start: StartMode) -> LoadResolution {
        let mut resolution = LoadResolution::default();
        let (tried, opened) = object_check::open_object(
            self.setup.rootfs,
            path,
            self.setup.linker,
            ObjectRole::Program,
        );
        let Some(opened) = opened else {
            resolution.unresolved.push(refusal(path, &tried));
            return resolution;
        };
        let real_path = opened.real_path.absolute();
        let main = self.map(
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
            map.origin = directory(&real_path).into();
        }
        self.list(main, None, path, 0, Vec::new(), SearchStage::Start);
        let mut roots = vec![main];
        roots.extend(self.preload(Some(main), &mut resolution));
        self.load_needs(&roots, &mut resolution);
        self.finish(main, resolution)
    }

    /// Starts a program of which nothing is known but the environment: what is preloaded is loaded. It does
    /// not start when something is unresolved.
    pub fn start_unknown(&mut self) -> LoadResolution {
        let mut resolution = LoadResolution::default();
        let roots = self.preload(None, &mut resolution);
        self.load_needs(&roots, &mut resolution);
        self.finish(usize::MAX, resolution)
    }

    /// Opens `name` as dlopen does, for the caller with this number, or for a caller without search paths.
    /// What was mapped before stays.
    pub fn open(&mut self, name: &[u8], caller: Option<usize>) -> LoadResolution {
        self.phase = LoadPhase::Open;
        let mut resolution = LoadResolution::default();
        let mut trace = Vec::new();
        let known = self.maps.len();
        // musl searches for the program, whoever calls (ldso/dynlink.c, `dlopen`).
        let loader = if self.is_musl() { self.main() } else { caller };
        match self.request(name, loader, &mut trace) {
            Err(miss) => {
                resolution
                    .unresolved
                    .push(unresolved(name, None, miss, trace));
                self.finish(usize::MAX, resolution)
            }
            Ok((root, how)) => {
                if root >= known
                    && !self.is_musl()
                    && let Some(map) = self.maps.get_mut(root)
                {
                    // `__RTLD_CALLMAP`: the caller's paths were for finding it, not for what it needs.
                    map.loader = None;
                }
                self.list(root, None, name, 0, trace, how);
                self.load_needs(&[root], &mut resolution);
                self.finish(root, resolution)
            }
        }
    }

    /// The number by which [`SimulatedProcess::open_object`] takes the mapped object at this path as its caller.
    pub fn map_of_path(&self, real_path: &RootPath) -> Option<usize> {
        self.maps.iter().position(|map| map.real_path == *real_path)
    }

    fn preload(&mut self, main: Option<usize>, resolution: &mut LoadResolution) -> Vec<usize> {
        let mut maps = Vec::new();
        let loader = main.filter(|_| !self.is_musl());
        for name in preload::preload_names(self.setup) {
            let mut trace = Vec::new();
            match self.request(&name, loader, &mut trace) {
                Ok((map, _)) => {
                    self.list(map, None, &name, 1, trace, SearchStage::Preload);
                    maps.push(map);
                }
                Err(miss) if crashes(&trace) => {
                    let missing = unresolved(&name, None, miss, trace);
                    resolution.unresolved.push(missing);
                    break;
                }
                Err(miss) => resolution
                    .preload_warnings
                    .push(unresolved(&name, None, miss, trace)),
            }
        }
        maps
    }

    /// Loads what the roots need, breadth first (glibc elf/dl-deps.c, `_dl_map_object_deps`).
    fn load_needs(&mut self, roots: &[usize], resolution: &mut LoadResolution) {
        let mut queue = LoadQueue::new(roots.iter().map(|&root| (root, self.depth(root))));
        while let Some((map, depth)) = queue.next_object() {
            if self.maps.get(map).is_none_or(|map| !map.needs.is_empty()) {
                continue;
            }
            for (name, tie) in self.needs_of(map) {
                let mut trace = Vec::new();
                let answer = match self.request(&name, Some(map), &mut trace) {
                    Ok((found, how)) => {
                        self.list(found, Some(map), &name, depth + 1, trace, how);
                        match tie {
                            DependencyKind::Needed => queue.append(found, depth + 1),
                            _ if queue.insert_before(map, found, depth + 1) => {
                                self.report_before(map, found);
                            }
                            _ => {}
                        }
                        Some(found)
                    }
                    // What an auxiliary filter names may be absent.
                    Err(_) if tie == DependencyKind::Auxiliary => continue,
                    Err(mut miss) => {
                        if self.is_musl() {
                            miss = musl::name_requester(miss, self.maps.get(map));
                        }
                        resolution
                            .unresolved
                            .push(unresolved(&name, Some(map), miss, trace));
                        None
                    }
                };
                if let Some(map) = self.maps.get_mut(map) {
                    map.needs.push((name, answer));
                }
            }
        }
    }

    /// What a map needs, tokens expanded; musl knows neither them nor filters.
    fn needs_of(&self, map: usize) -> Vec<(ByteString, DependencyKind)> {
        let Some(map) = self.maps.get(map) else {
            return Vec::new();
        };
        let needed = map
            .elf()
            .needed
            .iter()
            .map(|name| (name, DependencyKind::Needed));
        if self.is_musl() {
            return needed.map(|(name, tie)| (name.clone(), tie)).collect();
        }
        let tokens = self.tokens(map);
        let filters = map.elf().filters.iter().map(|(name, kind)| match kind {
            FilterKind::Standard => (name, DependencyKind::Filter),
            FilterKind::Auxiliary => (name, DependencyKind::Auxiliary),
        });
        needed
            .chain(filters)
            .filter_map(|(name, tie)| {
                let name = super::dynamic_tokens::expand_tokens(name, &tokens)?;
                Some((name.into_boxed_slice(), tie))
            })
            .collect()
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
        loader: Option<usize>,
        trace: &mut Vec<SearchStep>,
    ) -> Result<(usize, SearchStage), SearchMiss> {
        let known = match self.setup.linker.libc {
            Libc::Glibc(_) => self.maps.iter().position(|map| map.answers_to(name)),
            Libc::Musl => musl::find_mapped_name(self, name),
        };
        if let Some(map) = known {
            return Ok((map, SearchStage::Interpreter));
        }
        let searched = match self.setup.linker.libc {
            Libc::Glibc(_) => glibc::search_library(self, name, loader, trace),
            Libc::Musl => musl::search_library(self, name, loader, trace),
        };
        let hit = searched.map_err(|miss| self.unless_of_driver(name, miss))?;
        let how = hit.how;
        let mapped = match self.setup.linker.libc {
            Libc::Glibc(_) => self.position_of(&hit.opened, |_| true),
            Libc::Musl => musl::find_mapped_file(self, &hit.opened),
        };
        let number = mapped.unwrap_or_else(|| self.map(hit, loader));
        let linker = self.setup.linker;
        if let Some(map) = self.maps.get_mut(number) {
            map.names.extend(match linker.libc {
                Libc::Glibc(_) => Some(name.into()),
                Libc::Musl => musl::new_alias(map, name, linker),
            });
        }
        Ok((number, how))
    }

    /// The map of the same file, among those that `counts` lets through.
    pub(super) fn position_of(
        &self,
        opened: &OpenedObject,
        counts: impl Fn(&LinkMap) -> bool,
    ) -> Option<usize> {
        let is_same = |map: &LinkMap| Arc::ptr_eq(&map.facts, &opened.facts) && counts(map);
        self.maps.iter().position(is_same)
    }

    fn is_musl(&self) -> bool {
        self.setup.linker.libc == Libc::Musl
    }

    fn unless_of_driver(&self, name: &[u8], miss: SearchMiss) -> SearchMiss {
        if miss.outcome == RequestOutcome::NotFound && (self.setup.from_driver)(name) {
            return SearchMiss {
                outcome: RequestOutcome::ProvidedAtRuntime,
                ..miss
            };
        }
        miss
    }

    fn map(&mut self, hit: SearchHit, loader: Option<usize>) -> usize {
        let absolute = self.absolute(&hit.path);
        self.maps.push(LinkMap {
            origin: directory(&absolute).into(),
            path: hit.path,
            real_path: hit.opened.real_path,
            facts: hit.opened.facts,
            names: Vec::new(),
            loader,
            object: None,
            needs: Vec::new(),
        });
        self.maps.len() - 1
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

    /// `path` from the root, for a path relative to the working directory.
    pub(super) fn absolute(&self, path: &[u8]) -> Vec<u8> {
        // The empty path names nothing (path_resolution(7)).
        if path.starts_with(b"/") || path.is_empty() {
            path.to_vec()
        } else {
            let directory = &self.setup.environment.working_dir;
            let directory = directory.strip_suffix(b"/").unwrap_or(directory);
            [directory, b"/", path].concat()
        }
    }

    pub(super) fn tokens<'m>(&'m self, map: &'m LinkMap) -> DynamicTokens<'m> {
        let linker = self.setup.linker;
        DynamicTokens {
            origin: Some(&map.origin),
            lib: &linker.lib,
            platform: &linker.platform,
        }
    }

    /// Checks the versions and turns numbers of maps into numbers of objects.
    fn finish(&self, root: usize, mut resolution: LoadResolution) -> LoadResolution {
        resolution.unresolved.extend(match self.setup.linker.libc {
            Libc::Glibc(_) => version_check::check_versions(self, &self.order),
            Libc::Musl => musl::check_machines(self, &self.order),
        });
        let number = |map: usize| self.order.iter().position(|&listed| listed == map);
        let how = |how: SearchStage| match how {
            SearchStage::Rpath(map) => SearchStage::Rpath(number(map).unwrap_or_default()),
            SearchStage::Runpath(map) => SearchStage::Runpath(number(map).unwrap_or_default()),
            other => other,
        };
        let renumber = |step: &mut SearchStep| {
            if let SearchStep::Tried { how: found, .. }
            | SearchStep::NoDirectory { how: found, .. } = step
            {
                *found = how(*found);
            }
        };
        for missing in resolution
            .unresolved
            .iter_mut()
            .chain(&mut resolution.preload_warnings)
        {
            missing.requested_by = missing.requested_by.and_then(number);
            missing.trace.iter_mut().for_each(renumber);
        }
        for map in self.order.iter().filter_map(|&map| self.maps.get(map)) {
            resolution.unread.extend(unread(map));
            let Some(mut object) = map.object.clone() else {
                continue;
            };
            object.requested_by = object.requested_by.and_then(number);
            object.how = how(object.how);
            object.trace.iter_mut().for_each(renumber);
            object.needs = map
                .needs
                .iter()
                .map(|(name, answer)| (name.clone(), answer.and_then(number)))
                .collect();
            resolution.objects.push(object);
        }
        resolution.root = number(root);
        resolution
    }
}

/// Whether a search ended at a file that no process survives.
fn crashes(trace: &[SearchStep]) -> bool {
    let tried = trace.last().and_then(SearchStep::tried);
    matches!(tried, Some(TriedFile::Refused(LoadRefusal::Crash(_))))
}

/// What of an object's tables could not be read. A file that was cut short is refused, not unread.
fn unread(map: &LinkMap) -> impl Iterator<Item = String> {
    let problems = map.elf().problems.iter();
    let unread = problems.filter(|problem| !matches!(problem, ElfProblem::Truncated { .. }));
    unread.map(|problem| format!("{}: {problem}", map.real_path))
}

/// The directory of a path, without the final `/` but for the root.
fn directory(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(0) => b"/",
        Some(at) => path.get(..at).unwrap_or_default(),
        None => b"",
    }
}

fn unresolved(
    name: &[u8],
    requested_by: Option<usize>,
    miss: SearchMiss,
    trace: Vec<SearchStep>,
) -> UnresolvedRequest {
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
    let miss = glibc::refusal_miss(path, tried, LoadPhase::Start);
    unresolved(path, None, miss, Vec::new())
}
