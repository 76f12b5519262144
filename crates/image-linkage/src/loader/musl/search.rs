//! The search of musl (musl ldso/dynlink.c, `load_library`, `path_open`, `fixup_rpath`).

use std::ops::ControlFlow;

use super::detect::{path_file_name, split_path};
use super::verify::{NO_OBJECT, verify_object};
use crate::elf::ByteString;
use crate::escape;
use crate::loader::link_map::{LinkMap, LinkMaps, LoadPhase, SearchHit, SearchLists, SearchMiss};
use crate::loader::object_check::open_object;
use crate::loader::resolution::RequestOutcome;
use crate::loader::search::{LibraryRequest, spend_steps};
use crate::loader::trace::{self, LoadRefusal, SearchStage, SearchStep, TriedFile};
use crate::rootfs::{LookupError, NodeKind};

/// The room for a path that a search makes, its final NUL included (`2*NAME_MAX+2`).
const PATH: usize = 512;
/// The longest name that is searched for.
const NAME: usize = 255;
/// What is said where no call has failed.
const NO_ERROR: &str = "No error information";
/// What is said of a directory, which can be opened but not read.
const DIRECTORY: &str = "Is a directory";

/// What a process of musl remembers between searches.
#[derive(Clone)]
pub(super) struct SearchMemory {
    /// The last error of the system in musl's words: a failure that makes none is told by the one before it.
    error: &'static str,
    /// Whether the file with the default directories was asked for.
    asked_for_defaults: bool,
    /// Whether the program has begun, before which `errno` is cleared (`__dls3`).
    has_begun: bool,
}

impl Default for SearchMemory {
    fn default() -> Self {
        Self {
            error: NO_ERROR,
            asked_for_defaults: false,
            has_begun: false,
        }
    }
}

/// Searches a name; musl goes on from list to list until a file can be opened.
pub(super) fn search_library(
    maps: &LinkMaps<'_>,
    request: LibraryRequest<'_>,
    memory: &mut SearchMemory,
    trace: &mut Vec<SearchStep>,
) -> Result<SearchHit, SearchMiss> {
    let name = request.name;
    if request.phase == LoadPhase::Open && !std::mem::replace(&mut memory.has_begun, true) {
        memory.error = NO_ERROR;
    }
    let found = if name.is_empty() {
        memory.error = "Invalid argument";
        None
    } else if name.contains(&b'/') {
        candidate(maps, name.to_vec(), SearchStage::Direct, memory, trace)
    } else if name.len() > NAME {
        // musl gives up without an error of its own, so that the message repeats the last one.
        None
    } else {
        search_directories(maps, request, memory, trace)
    };
    let name = escape::escape_bytes(name);
    let said = || format!("Error loading shared library {name}: {}", memory.error);
    match found {
        None => Err(SearchMiss {
            outcome: RequestOutcome::NotFound,
            message: said(),
        }),
        Some(Err(miss)) if miss.message.is_empty() => Err(SearchMiss {
            message: said(),
            ..miss
        }),
        Some(result) => result,
    }
}

/// The search of a bare name: a list of directories after the other, until a file can be opened.
fn search_directories(
    maps: &LinkMaps<'_>,
    request: LibraryRequest<'_>,
    memory: &mut SearchMemory,
    trace: &mut Vec<SearchStep>,
) -> Option<Result<SearchHit, SearchMiss>> {
    // Without steps left, not even the lists are made.
    if let ControlFlow::Break(spent) = spend_steps(maps, request.name, 1) {
        return Some(spent);
    }
    let lists = search_path(maps, request.requester);
    let split = lists.iter().map(|(_, directories)| directories.len()).sum();
    if let ControlFlow::Break(spent) = spend_steps(maps, request.name, split) {
        return Some(spent);
    }
    let lists = lists.iter().map(|(how, directories)| (*how, directories.as_slice()));
    for (how, directories) in lists.chain([(SearchStage::Default, default_dirs(maps))]) {
        trace.extend(ignored_paths(maps, how));
        if how == SearchStage::Default {
            // The path file is read by the first search that gets this far, and its error is remembered.
            ask_for_defaults(maps, memory);
        }
        for directory in directories {
            if let ControlFlow::Break(spent) = spend_steps(maps, request.name, 4) {
                return Some(spent);
            }
            let path = [&**directory, b"/", request.name].concat();
            // `path_open` passes over what its buffer does not hold, and sets no error.
            if path.len() >= PATH {
                let tried = TriedFile::Missing(LookupError::TooLong);
                let path = path.into();
                trace::add_step(trace, SearchStep::Tried { how, path, tried });
            } else if let Some(result) = candidate(maps, path, how, memory, trace) {
                return Some(result);
            }
        }
    }
    None
}

/// The lists of directories before the default ones, for what the map `requester` needs. Unlike glibc's, an object's own
/// path comes behind `LD_LIBRARY_PATH` and is inherited, `DT_RUNPATH` too (`load_library`).
pub(super) fn search_path(maps: &LinkMaps<'_>, requester: Option<usize>) -> SearchLists {
    let environment = maps.setup.environment;
    let library_path = environment
        .library_path
        .as_deref()
        .filter(|_| maps.identity.secure.is_none());
    let mut lists = vec![(SearchStage::LdLibraryPath, split_path(library_path.unwrap_or_default()))];
    let owners = maps.path_owners(requester);
    lists.extend(owners.filter_map(|number| own_path(maps, number, maps.get(number)?)));
    lists
}

/// The directories of `DT_RUNPATH`, which takes the place of `DT_RPATH`; nothing where a `$`
/// begins something else than `$ORIGIN`.
fn own_path(maps: &LinkMaps<'_>, number: usize, map: &LinkMap) -> Option<(SearchStage, Vec<ByteString>)> {
    let (how, path) = match (&map.elf().runpath, &map.elf().rpath) {
        (Some(runpath), _) => (SearchStage::Runpath(number), runpath),
        (None, rpath) => (SearchStage::Rpath(number), rpath.as_ref()?),
    };
    // "$ORIGIN searches cannot be performed for the main program when it is suid/sgid/AT_SECURE" (`fixup_rpath`)
    let path = if is_forgeable(maps, map, path) {
        Vec::new()
    } else {
        split_path(&expand(path, &origin(maps, map))?)
    };
    Some((how, path))
}

/// Whether a path asks for `$ORIGIN` of the program of a secure execution.
fn is_forgeable(maps: &LinkMaps<'_>, map: &LinkMap, path: &[u8]) -> bool {
    maps.identity.secure.is_some() && map.is_main() && path.contains(&b'$')
}

/// What a secure execution leaves out of one part of the search path.
fn ignored_paths(maps: &LinkMaps<'_>, how: SearchStage) -> Option<SearchStep> {
    let why = maps.identity.secure?;
    let (number, path) = match how {
        SearchStage::LdLibraryPath => {
            let path = maps.setup.environment.library_path.as_ref();
            return path
                .filter(|path| !path.is_empty())
                .map(|_| SearchStep::LibraryPathIgnored(why));
        }
        SearchStage::Rpath(number) => (number, maps.get(number)?.elf().rpath.as_ref()?),
        SearchStage::Runpath(number) => (number, maps.get(number)?.elf().runpath.as_ref()?),
        _ => return None,
    };
    is_forgeable(maps, maps.get(number)?, path).then(|| SearchStep::OriginIgnored {
        how,
        path: (**path).into(),
        why,
    })
}

/// The default directories; none where the file that names them may not be read.
fn default_dirs<'a>(maps: &LinkMaps<'a>) -> &'a [ByteString] {
    let opened = maps.open(&path_file_name(maps.setup.linker));
    match opened {
        Err(LookupError::Denied(_)) => &[],
        _ => &maps.setup.linker.default_dirs,
    }
}

/// The directory that `$ORIGIN` names: of the path by which the object was opened, as written.
fn origin(maps: &LinkMaps<'_>, map: &LinkMap) -> Vec<u8> {
    // What the kernel has started has its path in /proc/self/exe (`fixup_rpath`).
    if map.is_main() {
        return map.origin.strip_suffix(b"/").unwrap_or(&map.origin).into();
    }
    let path = if map.path.contains(&b'/') {
        map.path.to_vec()
    } else {
        maps.absolute(&map.path)
    };
    let end = path.iter().rposition(|&byte| byte == b'/');
    path.get(..end.unwrap_or_default()).unwrap_or_default().into()
}

/// Expands `$ORIGIN` and `${ORIGIN}`, whatever follows them.
fn expand(text: &[u8], origin: &[u8]) -> Option<Vec<u8>> {
    let mut parts = text.split(|&byte| byte == b'$');
    let mut out = parts.next().unwrap_or_default().to_vec();
    for part in parts {
        let rest = part
            .strip_prefix(b"ORIGIN")
            .or_else(|| part.strip_prefix(b"{ORIGIN}"))?;
        out.extend_from_slice(origin);
        out.extend_from_slice(rest);
    }
    Some(out)
}

/// Opens the file with the default directories, once: where it is there and cannot be read, there are none.
fn ask_for_defaults(maps: &LinkMaps<'_>, memory: &mut SearchMemory) {
    let setup = maps.setup;
    if std::mem::replace(&mut memory.asked_for_defaults, true) || !default_dirs(maps).is_empty() {
        return;
    }
    match maps.open(&path_file_name(setup.linker)) {
        Err(error) => memory.error = words(&error),
        Ok(found) if !matches!(setup.rootfs.node(found.node).kind, NodeKind::File(_)) => {
            memory.error = DIRECTORY;
        }
        Ok(_) => {}
    }
}

/// Tries a path. musl goes on where there is nothing to open; what it opens and cannot map ends the search, and
/// so does a loop of links among the directories.
fn candidate(
    maps: &LinkMaps<'_>,
    path: Vec<u8>,
    how: SearchStage,
    memory: &mut SearchMemory,
    trace: &mut Vec<SearchStep>,
) -> Option<Result<SearchHit, SearchMiss>> {
    let setup = maps.setup;
    let absolute = maps.absolute(&path);
    let found = maps.open(&absolute);
    let (tried, opened) = open_object(setup.rootfs, &absolute, found, |facts| {
        verify_object(facts, setup.linker)
    });
    let step = SearchStep::Tried {
        how,
        path: path.as_slice().into(),
        tried: tried.clone(),
    };
    if matches!(tried, TriedFile::Missing(_)) {
        trace::add_step(trace, step);
    } else {
        trace.push(step);
    }
    if let (TriedFile::Found, Some(opened)) = (&tried, opened) {
        let path = path.into();
        return Some(Ok(SearchHit { path, opened, how }));
    }
    // musl makes its message of `errno`, which the last call that failed has set.
    memory.error = match &tried {
        TriedFile::Missing(error) => words(error),
        TriedFile::Refused(LoadRefusal::Directory) => DIRECTORY,
        _ => NO_OBJECT,
    };
    let outcome = match tried {
        // `path_open` goes on after ENOENT, ENOTDIR, EACCES and ENAMETOOLONG; any other error ends the search.
        TriedFile::Missing(LookupError::Loop) => RequestOutcome::NotFound,
        TriedFile::Missing(_) => return None,
        _ => RequestOutcome::Refused,
    };
    let message = match &tried {
        TriedFile::Refused(refusal) if refusal.is_fatal() => {
            format!("{}: {refusal}", escape::escape_bytes(&path))
        }
        _ => String::new(),
    };
    Some(Err(SearchMiss { outcome, message }))
}

/// A system error in musl's words (src/errno/__strerror.h).
fn words(error: &LookupError) -> &'static str {
    match error {
        LookupError::NotFound => "No such file or directory",
        LookupError::NotDirectory => "Not a directory",
        LookupError::Loop => "Symbolic link loop",
        LookupError::TooLong => "Filename too long",
        LookupError::Denied(_) => "Permission denied",
    }
}

#[cfg(test)]
mod tests {
    use super::expand;

    #[test]
    fn only_origin_is_a_token_and_it_needs_no_end() {
        let check = |text: &str, expected: Option<&str>| {
            let expanded = expand(text.as_bytes(), b"/opt/app");
            let expanded = expanded.map(|text| String::from_utf8(text).unwrap());
            assert_eq!(expanded.as_deref(), expected, "{text}");
        };
        check("/a:/b", Some("/a:/b"));
        check("$ORIGIN/../x:${ORIGIN}", Some("/opt/app/../x:/opt/app"));
        check("$ORIGINAL", Some("/opt/appAL"));
        check("/a:$LIB/b", None);
        check("${ORIGIN", None);
        check("/a$", None);
    }
}
