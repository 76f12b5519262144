//! The search of glibc (elf/dl-load.c, `_dl_map_object`, `open_path`, `fillin_rpath`).

use std::ops::ControlFlow;

use super::object_check::{Role, open};
use super::process::{Hit, Map, Miss, Phase, Process};
use super::{How, Outcome, Refusal, Step, Tried, dynamic_tokens};
use crate::elf::Bytes;
use crate::escape;
use crate::rootfs::{LookupError, NodeKind};

/// `DF_1_NODEFLIB`.
const NODEFLIB: u64 = 0x800;

/// Where a search stands.
struct Search<'s, 'a> {
    process: &'s Process<'a>,
    name: &'s [u8],
    trace: &'s mut Vec<Step>,
    found_other_class: bool,
    /// Why the last file that was tried is not there; `None` as long as none was tried.
    last_error: Option<LookupError>,
}

/// The end of a search: a hit, or a file that the loader refuses and looks no further.
type Flow = ControlFlow<Result<Hit, Miss>>;

/// Searches `name` for the map `loader`, which needs it; without one, for a caller that has no search path.
pub(super) fn search(
    process: &Process<'_>,
    name: &[u8],
    loader: Option<usize>,
    trace: &mut Vec<Step>,
) -> Result<Hit, Miss> {
    let mut search = Search {
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

impl Search<'_, '_> {
    fn run(&mut self, loader: Option<usize>) -> Flow {
        if self.name.contains(&b'/') {
            return self.direct(loader);
        }
        let own = loader.and_then(|loader| self.process.maps.get(loader));
        // ld.so(8), "the dynamic linker searches in the following order"
        if own.is_some_and(|own| own.elf().runpath.is_some()) {
            self.trace.push(Step::RpathIgnored);
        } else {
            self.rpath_chain(loader)?;
        }
        self.ld_library_path()?;
        self.runpath(loader)?;
        self.cache(own)?;
        if nodeflib(own) {
            self.trace.push(Step::NoDefaults);
        } else {
            self.directories(&self.process.setup.linker.default_dirs, How::Default)?;
        }
        Flow::Continue(())
    }

    /// A name with a `/` is a path.
    fn direct(&mut self, loader: Option<usize>) -> Flow {
        let own = loader.and_then(|loader| self.process.maps.get(loader));
        let path = match own {
            Some(own) => dynamic_tokens::expand(self.name, &self.process.tokens(own)),
            None => Some(self.name.to_vec()),
        };
        match path {
            Some(path) => self.candidate(path, How::Direct),
            None => Flow::Continue(()),
        }
    }

    /// `DT_RPATH` of the asking object, of the one that loaded it, and so on up; then of the executable.
    fn rpath_chain(&mut self, loader: Option<usize>) -> Flow {
        let mut next = loader;
        let main = self.process.main();
        let mut did_main = false;
        while let Some(number) = next {
            let Some(map) = self.process.maps.get(number) else {
                break;
            };
            self.rpath(number)?;
            did_main |= main == Some(number);
            next = map.loader;
        }
        match main {
            Some(main) if !did_main => self.rpath(main),
            _ => Flow::Continue(()),
        }
    }

    fn rpath(&mut self, number: usize) -> Flow {
        let Some(map) = self.process.maps.get(number) else {
            return Flow::Continue(());
        };
        // With a DT_RUNPATH the object's DT_RPATH does not exist (elf/get-dynamic-info.h).
        match &map.elf().rpath {
            Some(rpath) if map.elf().runpath.is_none() => self.directories(
                &directories(self.process, rpath, b":", map),
                How::Rpath(number),
            ),
            _ => Flow::Continue(()),
        }
    }

    fn ld_library_path(&mut self) -> Flow {
        let setup = self.process.setup;
        let Some(path) = setup
            .environment
            .library_path
            .as_ref()
            .filter(|path| !path.is_empty())
        else {
            return Flow::Continue(());
        };
        let list = match self
            .process
            .main()
            .and_then(|main| self.process.maps.get(main))
        {
            Some(main) => directories(self.process, path, b":;", main),
            None => plain_directories(path),
        };
        self.directories(&list, How::LdLibraryPath)
    }

    /// `DT_RUNPATH` of the asking object alone.
    fn runpath(&mut self, loader: Option<usize>) -> Flow {
        let own = loader.and_then(|number| Some((number, self.process.maps.get(number)?)));
        match own.and_then(|(number, map)| Some((number, map, map.elf().runpath.as_ref()?))) {
            Some((number, map, runpath)) => self.directories(
                &directories(self.process, runpath, b":", map),
                How::Runpath(number),
            ),
            None => Flow::Continue(()),
        }
    }

    fn cache(&mut self, own: Option<&Map>) -> Flow {
        let linker = self.process.setup.linker;
        let Some(cache) = &linker.cache else {
            self.trace.push(Step::NoCache);
            // The loader opens the file once.
            if !self.process.cache_was_missing.replace(true)
                && let Err(error) = self.process.setup.rootfs.lookup(b"/etc/ld.so.cache")
            {
                self.last_error = Some(error);
            }
            return Flow::Continue(());
        };
        let Some(path) = cache.lookup(self.name, &linker.usable()) else {
            self.trace.push(Step::NotInCache);
            return Flow::Continue(());
        };
        if nodeflib(own) && linker.default_dirs.iter().any(|dir| path.starts_with(dir)) {
            self.trace.push(Step::NoDefaults);
            return Flow::Continue(());
        }
        self.candidate(path.to_vec(), How::Cache)
    }

    /// Tries the name in each directory, in its subdirectories for the processor first (`open_path`).
    fn directories(&mut self, directories: &[Bytes], how: How) -> Flow {
        for directory in directories {
            if let Some(error) = self.no_directory(directory) {
                self.trace.push(Step::NoDirectory {
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
        Flow::Continue(())
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

    fn candidate(&mut self, path: Vec<u8>, how: How) -> Flow {
        let setup = self.process.setup;
        let (tried, opened) = open(
            setup.rootfs,
            &self.process.absolute(&path),
            setup.linker,
            Role::Library,
        );
        self.last_error = match tried {
            Tried::Missing(error) => Some(error),
            _ => Some(LookupError::NotFound),
        };
        self.found_other_class |= tried == Tried::WrongClass;
        self.trace.push(Step::Tried {
            how,
            path: path.as_slice().into(),
            tried: tried.clone(),
        });
        match (tried, opened) {
            (Tried::Found, Some(opened)) => Flow::Break(Ok(Hit {
                path: path.into(),
                opened,
                how,
            })),
            (tried @ Tried::Refused(_), _) => {
                // Once the file is accepted, the loader names what was asked for, not where it lies.
                let named = match &tried {
                    Tried::Refused(Refusal::Mapping(_)) => self.name,
                    _ => &path,
                };
                Flow::Break(Err(miss_at(named, &tried, self.process.phase)))
            }
            _ => Flow::Continue(()),
        }
    }

    fn not_found(&self) -> Miss {
        let name = escape::text(self.name);
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
        Miss {
            outcome: Outcome::NotFound,
            message,
        }
    }
}

impl Process<'_> {
    /// The executable's map: the first but the loader's own. A process that only opens has none.
    pub(super) fn main(&self) -> Option<usize> {
        self.maps.iter().position(Map::is_main)
    }
}

/// What the loader says of a file it refuses, or does not find.
pub(super) fn miss_at(path: &[u8], tried: &Tried, phase: Phase) -> Miss {
    let path = escape::text(path);
    match tried {
        Tried::Refused(Refusal::Directory) if phase == Phase::Start => Miss {
            outcome: Outcome::Refused,
            message: format!("{path}: cannot read file data: Error 21"),
        },
        Tried::Refused(refusal) => Miss {
            outcome: Outcome::Refused,
            message: format!("{path}: {refusal}"),
        },
        Tried::Missing(error) => Miss {
            outcome: Outcome::NotFound,
            message: format!(
                "{path}: cannot open shared object file: {}",
                system_words(*error, phase)
            ),
        },
        Tried::WrongClass => Miss {
            outcome: Outcome::Refused,
            message: format!("{path}: wrong ELF class"),
        },
        Tried::WrongMachine | Tried::Found => Miss {
            outcome: Outcome::Refused,
            message: format!("{path}: cannot open shared object file"),
        },
    }
}

/// A system error in the words of its phase: the loader alone knows no more than five of them (glibc
/// elf/dl-minimal.c, `__strerror_r`).
fn system_words(error: LookupError, phase: Phase) -> String {
    let number = match error {
        LookupError::NotFound => return error.to_string(),
        LookupError::NotDirectory => 20,
        LookupError::Loop => 40,
        LookupError::TooLong => 36,
    };
    match phase {
        Phase::Start => format!("Error {number}"),
        Phase::Open => error.to_string(),
    }
}

fn nodeflib(own: Option<&Map>) -> bool {
    own.is_some_and(|own| own.elf().flags_1 & NODEFLIB != 0)
}

/// Splits a search path into directories with a final `/`, tokens of `map` expanded, each once. An empty
/// element is the working directory; one that a token makes empty is dropped (`fillin_rpath`).
fn directories(process: &Process<'_>, path: &[u8], separators: &[u8], map: &Map) -> Vec<Bytes> {
    if path.is_empty() {
        return Vec::new();
    }
    let tokens = process.tokens(map);
    let mut list: Vec<Bytes> = Vec::new();
    for element in path.split(|byte| separators.contains(byte)) {
        let expanded = if element.is_empty() {
            Some(Vec::new())
        } else {
            dynamic_tokens::expand(element, &tokens)
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

/// The same for a process without an executable, in which no token means anything.
fn plain_directories(path: &[u8]) -> Vec<Bytes> {
    let mut list: Vec<Bytes> = Vec::new();
    for directory in path.split(|byte| b":;".contains(byte)).map(with_slash) {
        if !list.contains(&directory) {
            list.push(directory);
        }
    }
    list
}

/// The directory with exactly one `/` at its end; the empty one stays empty.
fn with_slash(directory: &[u8]) -> Bytes {
    if directory.is_empty() {
        return Bytes::default();
    }
    let length = directory
        .iter()
        .rposition(|&byte| byte != b'/')
        .map_or(0, |last| last + 1);
    [directory.get(..length).unwrap_or_default(), b"/"]
        .concat()
        .into()
}
