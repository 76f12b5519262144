//! The search of glibc (elf/dl-load.c, `_dl_map_object`, `open_path`, `fillin_rpath`).

use std::ops::ControlFlow;

use super::object_check::{ObjectRole, open_object};
use super::process::{
    LinkMap, LoadPhase, LoaderEnvironment, SearchHit, SearchLists, SearchMiss, SimulatedProcess,
};
use super::{LoadRefusal, RequestOutcome, SearchStage, SearchStep, TriedFile, dynamic_tokens};
use crate::elf::ByteString;
use crate::escape;
use crate::rootfs::{LookupError, NodeKind};

/// `DF_1_NODEFLIB`.
const NODEFLIB: u64 = 0x800;

/// Where a search stands.
struct GlibcSearch<'s, 'a> {
    process: &'s SimulatedProcess<'a>,
    name: &'s [u8],
    trace: &'s mut Vec<SearchStep>,
    found_other_class: bool,
    /// Why the last file that was tried is not there; `None` as long as none was tried.
    last_error: Option<LookupError>,
}

/// The end of a search: a hit, or a file that the loader refuses and looks no further.
type SearchFlow = ControlFlow<Result<SearchHit, SearchMiss>>;

/// Searches `name` for the map `loader`, which needs it; without one, for a caller that has no search path.
pub(super) fn search_library(
    process: &SimulatedProcess<'_>,
    name: &[u8],
    loader: Option<usize>,
    trace: &mut Vec<SearchStep>,
) -> Result<SearchHit, SearchMiss> {
    let mut search = GlibcSearch {
        process,
        name,
        trace,
        found_other_class: false,
        last_error: None,
    };
    match search.run(loader) {
        ControlFlow::Break(result) => result,
        ControlFlow::Continue(()) => Err(search.not_found()),
    }
}

impl GlibcSearch<'_, '_> {
    fn run(&mut self, loader: Option<usize>) -> SearchFlow {
        if self.name.contains(&b'/') {
            return self.direct(loader);
        }
        let own = loader.and_then(|loader| self.process.maps.get(loader));
        if own.is_some_and(|own| own.elf().runpath.is_some()) {
            self.trace.push(SearchStep::RpathIgnored);
        }
        for (how, directories) in search_path(self.process, loader) {
            self.directories(&directories, how)?;
        }
        self.cache(own)?;
        if nodeflib(own) {
            self.trace.push(SearchStep::NoDefaults);
        } else {
            self.directories(
                &self.process.setup.linker.default_dirs,
                SearchStage::Default,
            )?;
        }
        SearchFlow::Continue(())
    }

    /// A name with a `/` is a path.
    fn direct(&mut self, loader: Option<usize>) -> SearchFlow {
        let own = loader.and_then(|loader| self.process.maps.get(loader));
        let path = match own {
            Some(own) => dynamic_tokens::expand_tokens(self.name, &self.process.tokens(own)),
            None => Some(self.name.to_vec()),
        };
        match path {
            Some(path) => self.candidate(path, SearchStage::Direct),
            None => SearchFlow::Continue(()),
        }
    }

    fn cache(&mut self, own: Option<&LinkMap>) -> SearchFlow {
        let linker = self.process.setup.linker;
        let Some(cache) = &linker.cache else {
            self.trace.push(SearchStep::NoCache);
            // The loader opens the file once.
            if !self.process.cache_was_missing.replace(true)
                && let Err(error) = self.process.setup.rootfs.lookup(b"/etc/ld.so.cache")
            {
                self.last_error = Some(error);
            }
            return SearchFlow::Continue(());
        };
        let Some(path) = cache.lookup(self.name, &linker.cache_criteria()) else {
            self.trace.push(SearchStep::NotInCache);
            return SearchFlow::Continue(());
        };
        if nodeflib(own) && linker.default_dirs.iter().any(|dir| path.starts_with(dir)) {
            self.trace.push(SearchStep::NoDefaults);
            return SearchFlow::Continue(());
        }
        self.candidate(path.to_vec(), SearchStage::Cache)
    }

    /// Tries the name in each directory, in its subdirectories for the processor first (`open_path`).
    fn directories(&mut self, directories: &[ByteString], how: SearchStage) -> SearchFlow {
        for directory in directories {
            if let Some(error) = self.no_directory(directory) {
                self.trace.push(SearchStep::NoDirectory {
                    how,
                    path: directory.clone(),
                });
                let mut absent = self.process.absent.borrow_mut();
                if absent.insert(directory.clone()) {
                    self.last_error = Some(error);
                }
                continue;
            }
            for subdirectory in &self.process.setup.linker.subdirectories {
                let subdirectory = [&**directory, subdirectory].concat();
                if self.no_directory(&subdirectory).is_none() {
                    self.candidate([&subdirectory, self.name].concat(), how)?;
                }
            }
            self.candidate([directory, self.name].concat(), how)?;
            // The loader asks for the directory without its final slash, which leaves nothing of the root: from
            // the first name that is not in it, the root counts as absent.
            if **directory == *b"/" {
                self.process.absent.borrow_mut().insert(directory.clone());
                self.last_error = Some(LookupError::NotFound);
            }
            // "The file exists and is readable, but something went wrong": this list ends here.
            if self
                .last_error
                .is_some_and(|error| error != LookupError::NotFound)
            {
                break;
            }
        }
        SearchFlow::Continue(())
    }

    /// Why nothing is tried in a directory. A relative one is always tried: the working directory may change.
    fn no_directory(&self, path: &[u8]) -> Option<LookupError> {
        if !path.starts_with(b"/") {
            return None;
        }
        if path == b"/" && self.process.absent.borrow().contains(path) {
            return Some(LookupError::NotFound);
        }
        let rootfs = self.process.setup.rootfs;
        match rootfs.lookup(path) {
            Err(error) => Some(error),
            Ok(found) if matches!(rootfs.node(found.node).kind, NodeKind::Directory(_)) => None,
            Ok(_) => Some(LookupError::NotDirectory),
        }
    }

    fn candidate(&mut self, path: Vec<u8>, how: SearchStage) -> SearchFlow {
        let setup = self.process.setup;
        let (tried, opened) = open_object(
            setup.rootfs,
            &self.process.absolute(&path),
            setup.linker,
            ObjectRole::Library,
        );
        self.last_error = match tried {
            TriedFile::Missing(error) => Some(error),
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
                    TriedFile::Refused(LoadRefusal::Mapping(_)) => self.name,
                    _ => &path,
                };
                SearchFlow::Break(Err(refusal_miss(named, &tried, self.process.phase)))
            }
            _ => SearchFlow::Continue(()),
        }
    }

    fn not_found(&self) -> SearchMiss {
        let name = escape::escape_bytes(self.name);
        let message = if self.found_other_class {
            let other = if self.process.setup.linker.arch.class == 1 {
                "ELFCLASS64"
            } else {
                "ELFCLASS32"
            };
            format!("{name}: wrong ELF class: {other}")
        } else {
            let error = self
                .last_error
                .map(|error| format!(": {}", system_words(error, self.process.phase)));
            format!(
                "{name}: cannot open shared object file{}",
                error.unwrap_or_default()
            )
        };
        SearchMiss {
            outcome: RequestOutcome::NotFound,
            message,
        }
    }
}

/// The lists of directories that are searched before the cache, for what the map `loader` needs: ld.so(8), "the
/// dynamic linker searches in the following order".
pub(super) fn search_path(process: &SimulatedProcess<'_>, loader: Option<usize>) -> SearchLists {
    let map = |number: usize| process.maps.get(number);
    let own_runpath = loader.and_then(|number| map(number)?.elf().runpath.as_ref());
    let mut lists = SearchLists::new();
    if own_runpath.is_none() {
        lists.extend(rpath_chain(process, loader));
    }
    lists.push((SearchStage::LdLibraryPath, library_path(process)));
    // Of the asking object alone: a DT_RUNPATH is not inherited.
    if let (Some(number), Some(runpath)) = (loader, own_runpath)
        && let Some(own) = map(number)
    {
        let list = directories(process, runpath, b":", own);
        lists.push((SearchStage::Runpath(number), list));
    }
    lists
}

/// `DT_RPATH` of the asking object, of the one that loaded it, and so on up; then of the executable.
fn rpath_chain(process: &SimulatedProcess<'_>, loader: Option<usize>) -> SearchLists {
    let up = |number: &usize| process.maps.get(*number)?.loader;
    let mut chain: Vec<usize> = std::iter::successors(loader, up).collect();
    // What dlopen opened has no loader above it, and the executable's path counts for it too.
    chain.extend(process.main().filter(|main| !chain.contains(main)));
    let rpath = |number: usize| {
        let map = process.maps.get(number)?;
        // With a DT_RUNPATH the object's DT_RPATH does not exist (elf/get-dynamic-info.h).
        let rpath = map.elf().rpath.as_ref();
        let rpath = rpath.filter(|_| map.elf().runpath.is_none())?;
        let list = directories(process, rpath, b":", map);
        Some((SearchStage::Rpath(number), list))
    };
    chain.into_iter().filter_map(rpath).collect()
}

/// The directories of `LD_LIBRARY_PATH`, whose tokens mean what they mean in the executable.
fn library_path(process: &SimulatedProcess<'_>) -> Vec<ByteString> {
    let environment = process.setup.environment;
    let main = process.main().and_then(|main| process.maps.get(main));
    match (&environment.library_path, main) {
        (Some(path), Some(main)) => directories(process, path, b":;", main),
        (_, None) => environment.library_directories(),
        (None, _) => Vec::new(),
    }
}

impl SimulatedProcess<'_> {
    /// The executable's map: the first but the loader's own. A process that only opens has none.
    pub(super) fn main(&self) -> Option<usize> {
        self.maps.iter().position(LinkMap::is_main)
    }
}

/// What the loader says of a file it refuses, or does not find.
pub(super) fn refusal_miss(path: &[u8], tried: &TriedFile, phase: LoadPhase) -> SearchMiss {
    let path = escape::escape_bytes(path);
    match tried {
        TriedFile::Refused(LoadRefusal::Directory) if phase == LoadPhase::Start => SearchMiss {
            outcome: RequestOutcome::Refused,
            message: format!("{path}: cannot read file data: Error 21"),
        },
        TriedFile::Refused(refusal) => SearchMiss {
            outcome: RequestOutcome::Refused,
            message: format!("{path}: {refusal}"),
        },
        TriedFile::Missing(error) => SearchMiss {
            outcome: RequestOutcome::NotFound,
            message: format!(
                "{path}: cannot open shared object file: {}",
                system_words(*error, phase)
            ),
        },
        TriedFile::WrongClass => SearchMiss {
            outcome: RequestOutcome::Refused,
            message: format!("{path}: wrong ELF class"),
        },
        TriedFile::WrongMachine | TriedFile::Found => SearchMiss {
            outcome: RequestOutcome::Refused,
            message: format!("{path}: cannot open shared object file"),
        },
    }
}

/// A system error in the words of its phase: the loader alone knows no more than five of them (glibc
/// elf/dl-minimal.c, `__strerror_r`).
fn system_words(error: LookupError, phase: LoadPhase) -> String {
    let number = match error {
        LookupError::NotFound => return error.to_string(),
        LookupError::NotDirectory => 20,
        LookupError::Loop => 40,
        LookupError::TooLong => 36,
    };
    match phase {
        LoadPhase::Start => format!("Error {number}"),
        LoadPhase::Open => error.to_string(),
    }
}

fn nodeflib(own: Option<&LinkMap>) -> bool {
    own.is_some_and(|own| own.elf().flags_1 & NODEFLIB != 0)
}

/// Splits a search path into directories with a final `/`, tokens of `map` expanded, each once. An empty
/// element is the working directory; one that a token makes empty is dropped (`fillin_rpath`).
fn directories(
    process: &SimulatedProcess<'_>,
    path: &[u8],
    separators: &[u8],
    map: &LinkMap,
) -> Vec<ByteString> {
    if path.is_empty() {
        return Vec::new();
    }
    let tokens = process.tokens(map);
    let mut list: Vec<ByteString> = Vec::new();
    for element in path.split(|byte| separators.contains(byte)) {
        let expanded = if element.is_empty() {
            Some(Vec::new())
        } else {
            dynamic_tokens::expand_tokens(element, &tokens)
        };
        let Some(expanded) = expanded.filter(|expanded| element.is_empty() || !expanded.is_empty())
        else {
            continue;
        };
        let directory = with_slash(&expanded);
        if !list.contains(&directory) {
            list.push(directory);
        }
    }
    list
}

impl LoaderEnvironment {
    /// The directories of `LD_LIBRARY_PATH` for a process without an executable, in which no token means anything:
    /// each once, with a final `/`; the empty one is the working directory.
    pub fn library_directories(&self) -> Vec<ByteString> {
        let path = self.library_path.as_deref().unwrap_or_default();
        let mut list: Vec<ByteString> = Vec::new();
        let elements = path.split(|byte| b":;".contains(byte));
        for directory in elements.filter(|_| !path.is_empty()).map(with_slash) {
            if !list.contains(&directory) {
                list.push(directory);
            }
        }
        list
    }
}

/// The directory with exactly one `/` at its end; the empty one stays empty.
fn with_slash(directory: &[u8]) -> ByteString {
    if directory.is_empty() {
        return ByteString::default();
    }
    let length = directory
        .iter()
        .rposition(|&byte| byte != b'/')
        .map_or(0, |last| last + 1);
    [directory.get(..length).unwrap_or_default(), b"/"]
        .concat()
        .into()
}
