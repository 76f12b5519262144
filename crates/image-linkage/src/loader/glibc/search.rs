//! The search of glibc (elf/dl-load.c, `_dl_map_object`, `open_path`, `fillin_rpath`).

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use super::verify;
use crate::elf::ByteString;
use crate::escape;
use crate::loader::dynamic_tokens;
use crate::loader::link_map::{LinkMap, LinkMaps, LoadPhase, SearchHit, SearchLists, SearchMiss, with_slash};
use crate::loader::object_check::{ObjectRole, OpenedObject, open_object};
use crate::loader::refusal_text::{refusal_miss, system_words};
use crate::loader::resolution::RequestOutcome;
use crate::loader::search::LibraryRequest;
use crate::loader::trace::{LoadRefusal, SearchStage, SearchStep, TriedFile};
use crate::rootfs::{LookupError, NodeKind, ResolvedPath};

const CACHE: &[u8] = b"/etc/ld.so.cache";

/// What a process remembers between searches.
#[derive(Clone, Default)]
pub(super) struct SearchMemory {
    /// Whether a search has found no cache: the loader opens the file once (elf/dl-cache.c, `_dl_load_cache_lookup`).
    cache_was_missing: bool,
    /// The directories that a search has found absent; the loader looks for each once.
    absent: BTreeSet<ByteString>,
}

/// Where a search stands.
struct RunningSearch<'s, 'a> {
    maps: &'s LinkMaps<'a>,
    request: LibraryRequest<'s>,
    memory: &'s mut SearchMemory,
    trace: &'s mut Vec<SearchStep>,
    found_other_class: bool,
    /// Why the last file that was tried is not there; `None` as long as none was tried.
    last_error: Option<LookupError>,
}

/// The end of a search: a hit, or a file that the loader refuses and looks no further.
type SearchFlow = ControlFlow<Result<SearchHit, SearchMiss>>;

pub(super) fn search_library(
    maps: &LinkMaps<'_>,
    request: LibraryRequest<'_>,
    memory: &mut SearchMemory,
    trace: &mut Vec<SearchStep>,
) -> Result<SearchHit, SearchMiss> {
    let mut search = RunningSearch {
        maps,
        request,
        memory,
        trace,
        found_other_class: false,
        last_error: None,
    };
    match search.run() {
        ControlFlow::Break(result) => result,
        ControlFlow::Continue(()) => Err(search.not_found()),
    }
}

impl RunningSearch<'_, '_> {
    fn run(&mut self) -> SearchFlow {
        if self.request.name.contains(&b'/') {
            return self.direct();
        }
        let maps = self.maps;
        let own = self.request.requester.and_then(|own| maps.get(own));
        if own.is_some_and(|own| own.elf().runpath.is_some()) {
            self.trace.push(SearchStep::RpathIgnored);
        }
        for (how, directories) in search_path(maps, self.request.requester) {
            self.trace.extend(ignored_paths(maps, how));
            self.directories(&directories, how)?;
        }
        self.cache(own)?;
        if nodeflib(own) {
            self.trace.push(SearchStep::NoDefaults);
        } else {
            self.directories(&maps.setup.linker.default_dirs, SearchStage::Default)?;
        }
        SearchFlow::Continue(())
    }

    /// A name with a `/` is a path.
    fn direct(&mut self) -> SearchFlow {
        let LibraryRequest { name, requester, .. } = self.request;
        let path = match requester.and_then(|own| self.maps.get(own)) {
            Some(own) => dynamic_tokens::expand_tokens(name, &self.maps.tokens(own)),
            None => Some(name.to_vec()),
        };
        match path {
            Some(path) => self.candidate(path, SearchStage::Direct),
            None => SearchFlow::Continue(()),
        }
    }

    fn cache(&mut self, own: Option<&LinkMap>) -> SearchFlow {
        let linker = self.maps.setup.linker;
        if let Some(why) = self
            .maps
            .identity
            .secure
            .filter(|_| self.request.phase == LoadPhase::Preload)
        {
            self.trace.push(SearchStep::CacheIgnored(why));
            return SearchFlow::Continue(());
        }
        let opened = self.open_cache();
        let denied = opened
            .as_ref()
            .err()
            .filter(|error| matches!(error, LookupError::Denied(_)));
        let Some(cache) = linker.cache.as_ref().filter(|_| denied.is_none()) else {
            self.trace.push(match denied {
                Some(error) => SearchStep::Tried {
                    how: SearchStage::Cache,
                    path: CACHE.into(),
                    tried: TriedFile::Missing(error.clone()),
                },
                None => SearchStep::NoCache,
            });
            // Only the first search makes an error of the system, which a later one does not repeat.
            if !std::mem::replace(&mut self.memory.cache_was_missing, true)
                && let Err(error) = opened
            {
                self.last_error = Some(error);
            }
            return SearchFlow::Continue(());
        };
        let Some(path) = cache.lookup(self.request.name, &linker.cache_criteria()) else {
            self.trace.push(SearchStep::NotInCache);
            return SearchFlow::Continue(());
        };
        // "we must not use a cache entry from any of these directories" (`_dl_map_object`)
        if nodeflib(own) && linker.default_dirs.iter().any(|dir| path.starts_with(dir)) {
            self.trace.push(SearchStep::NoDefaults);
            return SearchFlow::Continue(());
        }
        self.candidate(path.to_vec(), SearchStage::Cache)
    }

    /// Opens the cache. One that `ldconfig` has made anew can be read by everybody.
    fn open_cache(&self) -> Result<ResolvedPath, LookupError> {
        let maps = self.maps;
        if maps.setup.linker.cache_is_new {
            return maps.setup.rootfs.lookup_as(b"/etc/.", &maps.identity.effective);
        }
        maps.open(CACHE)
    }

    /// Tries the name in each directory, in its subdirectories for the processor first (`open_path`).
    fn directories(&mut self, directories: &[ByteString], how: SearchStage) -> SearchFlow {
        for directory in directories {
            if let Some(error) = self.no_directory(directory) {
                let path = directory.clone();
                self.trace.push(match &error {
                    LookupError::Denied(_) => SearchStep::Tried {
                        how,
                        path,
                        tried: TriedFile::Missing(error.clone()),
                    },
                    _ => SearchStep::NoDirectory { how, path },
                });
                if self.memory.absent.insert(directory.clone()) {
                    self.last_error = Some(error);
                }
                continue;
            }
            for subdirectory in &self.maps.setup.linker.subdirectories {
                let subdirectory = [&**directory, subdirectory].concat();
                // Subdirectories that are not there stay out of the trace: nearly none is, in any image.
                if self.no_directory(&subdirectory).is_none() {
                    self.candidate([&subdirectory, self.request.name].concat(), how)?;
                }
            }
            self.candidate([directory, self.request.name].concat(), how)?;
            // The loader asks for the directory without its final slash, which leaves nothing of the root: from
            // the first name that is not in it, the root counts as absent.
            if **directory == *b"/" {
                self.memory.absent.insert(directory.clone());
                self.last_error = Some(LookupError::NotFound);
            }
            // "The file exists and is readable, but something went wrong": this list ends here.
            match self.last_error {
                None | Some(LookupError::NotFound | LookupError::Denied(_)) => {}
                Some(_) => break,
            }
        }
        SearchFlow::Continue(())
    }

    /// Why nothing is tried in a directory. A relative one is always tried: the working directory may change.
    fn no_directory(&self, path: &[u8]) -> Option<LookupError> {
        if !path.starts_with(b"/") {
            return None;
        }
        if path == b"/" && self.memory.absent.contains(path) {
            return Some(LookupError::NotFound);
        }
        let rootfs = self.maps.setup.rootfs;
        match rootfs.lookup_as(path, &self.maps.identity.effective) {
            Err(error) => Some(error),
            Ok(found) if matches!(rootfs.node(found.node).kind, NodeKind::Directory(_)) => None,
            Ok(_) => Some(LookupError::NotDirectory),
        }
    }

    fn candidate(&mut self, path: Vec<u8>, how: SearchStage) -> SearchFlow {
        let setup = self.maps.setup;
        let absolute = self.maps.absolute(&path);
        let role = match self.request.phase {
            LoadPhase::Start | LoadPhase::Preload => ObjectRole::Library,
            LoadPhase::Open => ObjectRole::Opened,
        };
        let found = self.maps.open(&absolute);
        let (mut tried, opened) = open_object(setup.rootfs, &absolute, found, |facts| {
            verify::verify_object(facts, setup.linker, role)
        });
        let is_trusted = |opened: &OpenedObject| opened.facts.mode & 0o4000 != 0;
        // "an extra security effort to make sure nobody can preload broken shared objects which are in the
        // trusted directories" (`open_path`)
        if self.maps.identity.secure.is_some()
            && self.request.phase == LoadPhase::Preload
            && how != SearchStage::Direct
            && opened.as_ref().is_some_and(|opened| !is_trusted(opened))
        {
            tried = TriedFile::Untrusted;
        }
        self.last_error = match &tried {
            TriedFile::Missing(error) => Some(error.clone()),
            // `open_verify` leaves ENOENT for a file that it passes over.
            _ => Some(LookupError::NotFound),
        };
        self.found_other_class |= tried == TriedFile::WrongClass;
        self.trace.push(SearchStep::Tried {
            how,
            path: path.as_slice().into(),
            tried: tried.clone(),
        });
        match (tried, opened) {
            (TriedFile::Found, Some(opened)) => SearchFlow::Break(Ok(SearchHit {
                path: path.into(),
                opened,
                how,
            })),
            (tried @ TriedFile::Refused(_), _) => {
                // Once the file is accepted, the loader names what was asked for, not where it lies.
                let named = match &tried {
                    TriedFile::Refused(LoadRefusal::Mapping(_)) => self.request.name,
                    _ => &path,
                };
                SearchFlow::Break(Err(refusal_miss(named, &tried, self.request.phase)))
            }
            _ => SearchFlow::Continue(()),
        }
    }

    fn not_found(&self) -> SearchMiss {
        let name = escape::escape_bytes(self.request.name);
        // One object of the other word size takes the place of every error of the system (`_dl_map_object`).
        let message = if self.found_other_class {
            let other = if self.maps.setup.linker.arch.class == 1 {
                "ELFCLASS64"
            } else {
                "ELFCLASS32"
            };
            format!("{name}: wrong ELF class: {other}")
        } else {
            let error = self
                .last_error
                .as_ref()
                .map(|error| format!(": {}", system_words(error, self.request.phase)));
            format!("{name}: cannot open shared object file{}", error.unwrap_or_default())
        };
        SearchMiss {
            outcome: RequestOutcome::NotFound,
            message,
        }
    }
}

/// The lists of directories that are searched before the cache, for what the map `requester` needs: ld.so(8), "the
/// dynamic linker searches in the following order".
pub(super) fn search_path(maps: &LinkMaps<'_>, requester: Option<usize>) -> SearchLists {
    let own_runpath = requester.and_then(|number| maps.get(number)?.elf().runpath.as_ref());
    let mut lists = SearchLists::new();
    if own_runpath.is_none() {
        lists.extend(rpath_chain(maps, requester));
    }
    lists.push((SearchStage::LdLibraryPath, library_path(maps)));
    // Of the asking object alone: a DT_RUNPATH is not inherited.
    if let (Some(number), Some(runpath)) = (requester, own_runpath)
        && let Some(own) = maps.get(number)
    {
        let list = directories(maps, runpath, b":", own);
        lists.push((SearchStage::Runpath(number), list));
    }
    lists
}

/// What a secure execution leaves out of one part of the search path.
fn ignored_paths(maps: &LinkMaps<'_>, how: SearchStage) -> Vec<SearchStep> {
    let Some(why) = maps.identity.secure else {
        return Vec::new();
    };
    let (number, path) = match how {
        SearchStage::LdLibraryPath => {
            let is_set = maps
                .setup
                .environment
                .library_path
                .as_ref()
                .is_some_and(|path| !path.is_empty());
            return is_set
                .then_some(SearchStep::LibraryPathIgnored(why))
                .into_iter()
                .collect();
        }
        SearchStage::Rpath(number) => (number, maps.get(number).and_then(|map| map.elf().rpath.as_ref())),
        SearchStage::Runpath(number) => (number, maps.get(number).and_then(|map| map.elf().runpath.as_ref())),
        _ => return Vec::new(),
    };
    let (Some(map), Some(path)) = (maps.get(number), path) else {
        return Vec::new();
    };
    let tokens = maps.tokens(map);
    let elements = path.split(|&byte| byte == b':');
    let ignored = elements.filter(|element| dynamic_tokens::expand_tokens(element, &tokens).is_none());
    let step = |path: &[u8]| SearchStep::OriginIgnored {
        how,
        path: path.into(),
        why,
    };
    ignored.map(step).collect()
}

/// `DT_RPATH` of the asking object, of the one that loaded it, and so on up; then of the executable.
fn rpath_chain(maps: &LinkMaps<'_>, requester: Option<usize>) -> SearchLists {
    let up = |number: &usize| maps.get(*number)?.requester;
    let mut chain: Vec<usize> = std::iter::successors(requester, up).collect();
    // What dlopen opened has no loader above it, and the executable's path counts for it too.
    chain.extend(maps.main().filter(|main| !chain.contains(main)));
    let rpath = |number: usize| {
        let map = maps.get(number)?;
        // With a DT_RUNPATH the object's DT_RPATH does not exist (elf/get-dynamic-info.h).
        let rpath = map.elf().rpath.as_ref();
        let rpath = rpath.filter(|_| map.elf().runpath.is_none())?;
        let list = directories(maps, rpath, b":", map);
        Some((SearchStage::Rpath(number), list))
    };
    chain.into_iter().filter_map(rpath).collect()
}

/// The directories of `LD_LIBRARY_PATH`, whose tokens mean what they mean in the executable.
fn library_path(maps: &LinkMaps<'_>) -> Vec<ByteString> {
    // "ignored in secure-execution mode" (ld.so(8))
    if maps.identity.secure.is_some() {
        return Vec::new();
    }
    let environment = maps.setup.environment;
    let main = maps.main().and_then(|main| maps.get(main));
    match (&environment.library_path, main) {
        // This path alone is divided by semicolons too (`_dl_init_paths`).
        (Some(path), Some(main)) => directories(maps, path, b":;", main),
        (_, None) => environment.library_directories(),
        (None, _) => Vec::new(),
    }
}

/// Whether the default directories are not searched for what the object needs.
fn nodeflib(own: Option<&LinkMap>) -> bool {
    own.is_some_and(|own| own.elf().flags_1 & elf::abi::DF_1_NODEFLIB.cast_unsigned() != 0)
}

/// Splits a search path into directories with a final `/`, tokens of `map` expanded, each once. An empty
/// element is the working directory; one that a token makes empty is dropped (`fillin_rpath`).
fn directories(maps: &LinkMaps<'_>, path: &[u8], separators: &[u8], map: &LinkMap) -> Vec<ByteString> {
    if path.is_empty() {
        return Vec::new();
    }
    let tokens = maps.tokens(map);
    let mut list: Vec<ByteString> = Vec::new();
    for element in path.split(|byte| separators.contains(byte)) {
        let expanded = if element.is_empty() {
            Some(Vec::new())
        } else {
            dynamic_tokens::expand_tokens(element, &tokens)
        };
        let Some(expanded) = expanded.filter(|expanded| element.is_empty() || !expanded.is_empty()) else {
            continue;
        };
        let directory = with_slash(&expanded);
        // `fillin_rpath` brings an element into this form before it looks whether it has it.
        if !list.contains(&directory) {
            list.push(directory);
        }
    }
    list
}
