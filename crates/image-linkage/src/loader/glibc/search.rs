//! glibc's library search (elf/dl-load.c, `_dl_map_object`, `open_path`, `fillin_rpath`).

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::search_places::{SearchFolder, SearchPlace, SearchPlaces};
use super::verify;
use crate::elf::ByteString;
use crate::escape;
use crate::loader::dynamic_tokens::{self, DynamicTokens, OriginTrust};
use crate::loader::link_map::{LinkMap, LinkMaps, LoadPhase, SearchHit, SearchLists, SearchMiss, with_slash};
use crate::loader::object_check::{ObjectRole, open_object};
use crate::loader::refusal_text::{refusal_miss, system_words};
use crate::loader::resolution::RequestOutcome;
use crate::loader::search::{LibraryRequest, spend_steps};
use crate::loader::trace::{self, LoadRefusal, SearchStage, SearchStep, TriedFile};
use crate::rootfs::{LookupError, ResolvedPath};

/// State that a process keeps between searches.
#[derive(Clone, Default)]
pub(super) struct SearchMemory {
    /// Whether an earlier search found no cache. The loader opens the file only once (elf/dl-cache.c,
    /// `_dl_load_cache_lookup`).
    cache_was_missing: bool,
    /// Shared with copies of the process until one of them searches.
    places: Arc<SearchPlaces>,
}

/// The state of one search.
struct RunningSearch<'s, 'a> {
    maps: &'s LinkMaps<'a>,
    request: LibraryRequest<'s>,
    memory: &'s mut SearchMemory,
    trace: &'s mut Vec<SearchStep>,
    found_other_class: bool,
    /// The error of the last tried file; `None` before the first.
    last_error: Option<LookupError>,
}

/// The end of a search: a hit, or a file whose refusal stops the search.
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
        for how in search_stages(maps, self.request.requester) {
            for ignored in ignored_paths(maps, how) {
                trace::add_step(self.trace, ignored);
            }
            self.directories(how)?;
        }
        self.cache(own)?;
        if nodeflib(own) {
            self.trace.push(SearchStep::NoDefaults);
        } else {
            self.directories(SearchStage::Default)?;
        }
        SearchFlow::Continue(())
    }

    /// A name with a `/` is a path.
    fn direct(&mut self) -> SearchFlow {
        let LibraryRequest { name, requester, .. } = self.request;
        let path = match requester.and_then(|own| self.maps.get(own)) {
            Some(own) => dynamic_tokens::expand_tokens(name, &self.maps.tokens(own)),
            None => dynamic_tokens::expand_tokens(name, &executable_tokens(self.maps)),
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
        if linker.cache.is_none() || denied.is_some() {
            self.trace.push(match denied {
                Some(error) => SearchStep::Tried {
                    how: SearchStage::Cache,
                    path: (&*linker.cache_path).into(),
                    tried: TriedFile::Missing(error.clone()),
                },
                None => SearchStep::NoCache,
            });
            // Only the first search reports the system error.
            if !std::mem::replace(&mut self.memory.cache_was_missing, true)
                && let Err(error) = opened
            {
                self.last_error = Some(error);
            }
            return SearchFlow::Continue(());
        }
        let Some(path) = linker.cached_path(self.request.name) else {
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

    /// Opens the cache. One that `ldconfig` rewrote is world-readable.
    fn open_cache(&self) -> Result<ResolvedPath, LookupError> {
        let maps = self.maps;
        if maps.setup.linker.cache_is_new {
            return maps.setup.rootfs.lookup_as(b"/etc/.", &maps.identity.effective);
        }
        maps.open(&maps.setup.linker.cache_path)
    }

    /// Tries the name in each directory, after its hardware subdirectories (`open_path`).
    fn directories(&mut self, how: SearchStage) -> SearchFlow {
        let maps = self.maps;
        let list = Arc::make_mut(&mut self.memory.places).list(how, || expand_stage(maps, how));
        let mut is_absent = true;
        for (at, &number) in list.numbers.iter().enumerate() {
            // The remaining directories are missing, too, and the trace has no room for them.
            if list.is_absent && trace::is_full(self.trace) {
                trace::leave_out(self.trace, list.numbers.len() - at);
                return SearchFlow::Continue(());
            }
            spend_steps(maps, self.request.name, 1)?;
            let (directory, place) = Arc::make_mut(&mut self.memory.places).place(maps, number);
            let SearchPlace::There(folders) = place else {
                self.no_directory(number, directory, &place, how);
                continue;
            };
            is_absent = false;
            for folder in &*folders {
                self.in_folder(folder, how)?;
            }
            // The loader stats the directory without its trailing slash, which is an empty path for the root. So after
            // the first failed name, the root counts as missing.
            if *directory == *b"/" {
                Arc::make_mut(&mut self.memory.places).mark_missing(number);
                self.last_error = Some(LookupError::NotFound);
            }
            // "The file exists and is readable, but something went wrong": this list ends here.
            match self.last_error {
                None | Some(LookupError::NotFound | LookupError::Denied(_)) => {}
                Some(_) => return SearchFlow::Continue(()),
            }
        }
        if is_absent {
            Arc::make_mut(&mut self.memory.places).mark_absent(how);
        }
        SearchFlow::Continue(())
    }

    /// Records a missing directory in the trace.
    fn no_directory(&mut self, number: usize, path: Arc<[u8]>, place: &SearchPlace, how: SearchStage) {
        let SearchPlace::Absent(error) = place else { return };
        let step = match error {
            LookupError::Denied(_) => SearchStep::Tried {
                how,
                path,
                tried: TriedFile::Missing(error.clone()),
            },
            _ => SearchStep::NoDirectory { how, path },
        };
        trace::add_step(self.trace, step);
        // The loader checks each directory once.
        if Arc::make_mut(&mut self.memory.places).is_first_report(number) {
            self.last_error = Some(error.clone());
        }
    }

    /// Tries the name in a directory or subdirectory.
    fn in_folder(&mut self, folder: &SearchFolder, how: SearchStage) -> SearchFlow {
        let name = self.request.name;
        let path = [&*folder.path, name].concat();
        if folder.lacks(self.maps, name) {
            self.last_error = Some(LookupError::NotFound);
            let (path, tried) = (path.into(), TriedFile::Missing(LookupError::NotFound));
            trace::add_step(self.trace, SearchStep::Tried { how, path, tried });
            return SearchFlow::Continue(());
        }
        self.candidate(path, how)
    }

    fn candidate(&mut self, path: Vec<u8>, how: SearchStage) -> SearchFlow {
        spend_steps(self.maps, self.request.name, 4)?;
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
        // "an extra security effort to make sure nobody can preload broken shared objects which are in the trusted
        // directories" (`open_path`)
        if self.maps.identity.secure.is_some()
            && self.request.phase == LoadPhase::Preload
            && how != SearchStage::Direct
            && opened.as_ref().is_some_and(|opened| opened.facts.mode & 0o4000 == 0)
        {
            tried = TriedFile::Untrusted;
        }
        self.last_error = match &tried {
            TriedFile::Missing(error) => Some(error.clone()),
            // `open_verify` leaves ENOENT for a skipped file.
            _ => Some(LookupError::NotFound),
        };
        self.found_other_class |= tried == TriedFile::WrongClass;
        let step = SearchStep::Tried {
            how,
            path: path.as_slice().into(),
            tried: tried.clone(),
        };
        if matches!(tried, TriedFile::Found | TriedFile::Refused(_)) {
            self.trace.push(step);
        } else {
            trace::add_step(self.trace, step);
        }
        match (tried, opened) {
            (TriedFile::Found, Some(opened)) => SearchFlow::Break(Ok(SearchHit {
                path: path.into(),
                opened,
                how,
            })),
            (tried @ TriedFile::Refused(_), _) => {
                // Once the file is accepted, the loader's messages name the request instead of the path.
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
        // An object of the other ELF class overrides every system error (`_dl_map_object`).
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

/// The directories searched before the cache for a dependency of `requester`.
pub(super) fn search_path(maps: &LinkMaps<'_>, requester: Option<usize>) -> SearchLists {
    let stages = search_stages(maps, requester).into_iter();
    stages.map(|how| (how, expand_stage(maps, how))).collect()
}

/// The search stages before the cache: ld.so(8), "the dynamic linker searches in the following order".
fn search_stages(maps: &LinkMaps<'_>, requester: Option<usize>) -> Vec<SearchStage> {
    let own_runpath = requester.filter(|number| maps.get(*number).is_some_and(|own| own.elf().runpath.is_some()));
    let mut stages = Vec::new();
    if own_runpath.is_none() {
        stages.extend(rpath_chain(maps, requester));
    }
    stages.push(SearchStage::LdLibraryPath);
    // Only the requester's own: DT_RUNPATH is not inherited.
    stages.extend(own_runpath.map(SearchStage::Runpath));
    stages
}

/// The object of a `DT_RPATH` or `DT_RUNPATH`, and its path.
fn own_path<'m>(maps: &'m LinkMaps<'_>, how: SearchStage) -> Option<(&'m LinkMap, &'m ByteString)> {
    let (SearchStage::Rpath(number) | SearchStage::Runpath(number)) = how else {
        return None;
    };
    let map = maps.get(number)?;
    let elf = map.elf();
    let path = if matches!(how, SearchStage::Rpath(_)) {
        &elf.rpath
    } else {
        &elf.runpath
    };
    Some((map, path.as_ref()?))
}

/// The directories of a search stage.
fn expand_stage(maps: &LinkMaps<'_>, how: SearchStage) -> Vec<ByteString> {
    match how {
        SearchStage::Rpath(_) | SearchStage::Runpath(_) => own_path(maps, how)
            .map(|(map, path)| directories(path, b":", &maps.tokens(map)))
            .unwrap_or_default(),
        SearchStage::LdLibraryPath => library_path(maps),
        SearchStage::Default => maps.setup.linker.default_dirs.clone(),
        _ => Vec::new(),
    }
}

/// The parts of a search stage that secure-execution mode ignores.
fn ignored_paths(maps: &LinkMaps<'_>, how: SearchStage) -> Vec<SearchStep> {
    let Some(why) = maps.identity.secure else {
        return Vec::new();
    };
    if how == SearchStage::LdLibraryPath {
        let path = maps.setup.environment.library_path.as_ref();
        return if path.is_some_and(|path| !path.is_empty()) {
            vec![SearchStep::LibraryPathIgnored(why)]
        } else {
            Vec::new()
        };
    }
    let Some((map, path)) = own_path(maps, how) else {
        return Vec::new();
    };
    let tokens = maps.tokens(map);
    let elements = path.split(|&byte| byte == b':');
    elements
        .filter(|element| dynamic_tokens::expand_tokens(element, &tokens).is_none())
        .map(|element| SearchStep::OriginIgnored {
            how,
            path: element.into(),
            why,
        })
        .collect()
}

/// `DT_RPATH` of the requester, of the object that loaded it, and so on; finally of the executable.
fn rpath_chain(maps: &LinkMaps<'_>, requester: Option<usize>) -> Vec<SearchStage> {
    let mut chain: Vec<usize> = maps.path_owners(requester).collect();
    // A dlopened object has no loader above it, but the executable's path applies to it, too.
    chain.extend(maps.main().filter(|main| !chain.contains(main)));
    // With a DT_RUNPATH, the object's DT_RPATH is ignored (elf/get-dynamic-info.h).
    chain.retain(|number| {
        maps.get(*number)
            .is_some_and(|map| map.elf().rpath.is_some() && map.elf().runpath.is_none())
    });
    chain.into_iter().map(SearchStage::Rpath).collect()
}

/// The directories of `LD_LIBRARY_PATH`. Its tokens are those of the executable.
fn library_path(maps: &LinkMaps<'_>) -> Vec<ByteString> {
    // "ignored in secure-execution mode" (ld.so(8))
    if maps.identity.secure.is_some() {
        return Vec::new();
    }
    let path = maps.setup.environment.library_path.as_deref().unwrap_or_default();
    // Only this path also accepts semicolons as separators (`_dl_init_paths`).
    directories(path, b":;", &executable_tokens(maps))
}

fn executable_tokens<'m>(maps: &'m LinkMaps<'_>) -> DynamicTokens<'m> {
    let main = maps.main().and_then(|main| maps.get(main));
    // Without a known program, `$ORIGIN` has no value. The other tokens do not depend on it.
    match main {
        Some(main) => maps.tokens(main),
        None => DynamicTokens {
            origin: None,
            lib: &maps.setup.linker.lib,
            platform: &maps.setup.linker.platform,
            trusted: OriginTrust::All,
        },
    }
}

/// Whether `DF_1_NODEFLIB` excludes the default directories.
fn nodeflib(own: Option<&LinkMap>) -> bool {
    own.is_some_and(|own| own.elf().flags_1 & elf::abi::DF_1_NODEFLIB.cast_unsigned() != 0)
}

/// Splits a search path into unique directories with a trailing `/` and expanded tokens. An empty element is the
/// working directory. An element that a token makes empty is dropped (`fillin_rpath`).
fn directories(path: &[u8], separators: &[u8], tokens: &DynamicTokens<'_>) -> Vec<ByteString> {
    if path.is_empty() {
        return Vec::new();
    }
    let (mut list, mut known) = (Vec::new(), BTreeSet::new());
    for element in path.split(|byte| separators.contains(byte)) {
        let expanded = if element.is_empty() {
            Some(Vec::new())
        } else {
            dynamic_tokens::expand_tokens(element, tokens)
        };
        let Some(expanded) = expanded.filter(|expanded| element.is_empty() || !expanded.is_empty()) else {
            continue;
        };
        let directory = with_slash(&expanded);
        // `fillin_rpath` removes duplicates after this normalization.
        if known.insert(directory.clone()) {
            list.push(directory);
        }
    }
    list
}
