//! musl's library search (musl ldso/dynlink.c, `load_library`, `path_open`, `fixup_rpath`).

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

/// The path buffer of a search, including the NUL (`2*NAME_MAX+2`).
const PATH: usize = 512;
/// The maximum length of a searched name.
const NAME: usize = 255;
/// musl's text for errno 0.
const NO_ERROR: &str = "No error information";
/// musl's text for reading a directory.
const DIRECTORY: &str = "Is a directory";

/// State that a musl process keeps between searches.
#[derive(Clone)]
pub(super) struct SearchMemory {
    /// The last system error in musl's words. A failure without its own error repeats it.
    error: &'static str,
    /// Whether the file with the default directories was opened.
    defaults_were_opened: bool,
    /// Whether the program has started; `errno` is cleared right before (`__dls3`).
    program_has_started: bool,
}

impl Default for SearchMemory {
    fn default() -> Self {
        Self {
            error: NO_ERROR,
            defaults_were_opened: false,
            program_has_started: false,
        }
    }
}

/// Searches a name. musl continues from list to list until it can open a file.
pub(super) fn search_library(
    maps: &LinkMaps<'_>,
    request: LibraryRequest<'_>,
    memory: &mut SearchMemory,
    trace: &mut Vec<SearchStep>,
) -> Result<SearchHit, SearchMiss> {
    let name = request.name;
    if request.phase == LoadPhase::Open && !std::mem::replace(&mut memory.program_has_started, true) {
        memory.error = NO_ERROR;
    }
    let found = if name.is_empty() {
        memory.error = "Invalid argument";
        None
    } else if name.contains(&b'/') {
        candidate(maps, name.to_vec(), SearchStage::Direct, memory, trace)
    } else if name.len() > NAME {
        // musl gives up without setting errno, so the message repeats the previous error.
        None
    } else {
        search_directories(maps, request, memory, trace)
    };
    let outcome = match found {
        None => RequestOutcome::NotFound,
        Some(Err(miss)) if miss.message.is_empty() => miss.outcome,
        Some(result) => return result,
    };
    let message = format!(
        "Error loading shared library {}: {}",
        escape::escape_bytes(name),
        memory.error
    );
    Err(SearchMiss { outcome, message })
}

/// Searches a bare name in one list of directories after the other.
fn search_directories(
    maps: &LinkMaps<'_>,
    request: LibraryRequest<'_>,
    memory: &mut SearchMemory,
    trace: &mut Vec<SearchStep>,
) -> Option<Result<SearchHit, SearchMiss>> {
    // Without remaining budget, do not even build the lists.
    if let ControlFlow::Break(spent) = spend_steps(maps, request.name, 1) {
        return Some(spent);
    }
    let lists = search_path(maps, request.requester);
    let split = lists.iter().map(|(_, directories)| directories.len()).sum();
    if let ControlFlow::Break(spent) = spend_steps(maps, request.name, split) {
        return Some(spent);
    }
    let set = lists.iter().map(|(how, directories)| (*how, directories.as_slice()));
    for (how, directories) in set.chain([(SearchStage::Default, default_dirs(maps))]) {
        trace.extend(ignored_paths(maps, how));
        if how == SearchStage::Default {
            // The first search that gets here reads the path file, and its error persists.
            open_defaults(maps, memory);
        }
        for directory in directories {
            if let ControlFlow::Break(spent) = spend_steps(maps, request.name, 4) {
                return Some(spent);
            }
            let path = [&**directory, b"/", request.name].concat();
            // `path_open` skips paths that exceed its buffer, without setting errno.
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

/// The directories before the default ones for a dependency of `requester`. Unlike in glibc, an object's own path
/// follows `LD_LIBRARY_PATH` and is inherited, even `DT_RUNPATH` (`load_library`).
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

/// The directories of `DT_RUNPATH`, which replaces `DT_RPATH`; `None` if a `$` starts anything but `$ORIGIN`.
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

/// Whether a path uses `$ORIGIN` of a program in secure-execution mode.
fn is_forgeable(maps: &LinkMaps<'_>, map: &LinkMap, path: &[u8]) -> bool {
    maps.identity.secure.is_some() && map.is_main() && path.contains(&b'$')
}

/// The parts of a search stage that secure-execution mode ignores.
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

/// The default directories; none if their file is not readable.
fn default_dirs<'a>(maps: &LinkMaps<'a>) -> &'a [ByteString] {
    let opened = maps.open(&path_file_name(maps.setup.linker));
    match opened {
        Err(LookupError::Denied(_)) => &[],
        _ => &maps.setup.linker.default_dirs,
    }
}

/// The value of `$ORIGIN`: the directory of the path used to open the object, as written.
fn origin(maps: &LinkMaps<'_>, map: &LinkMap) -> Vec<u8> {
    // For the program it comes from /proc/self/exe (`fixup_rpath`).
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

/// Expands `$ORIGIN` and `${ORIGIN}`, even as a prefix of a longer word.
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

/// Opens the file with the default directories once. If it exists but is unreadable, there are none.
fn open_defaults(maps: &LinkMaps<'_>, memory: &mut SearchMemory) {
    let setup = maps.setup;
    if std::mem::replace(&mut memory.defaults_were_opened, true) || !default_dirs(maps).is_empty() {
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

/// Tries a path. musl continues if it cannot open the file. It stops at a file it cannot map, and at a loop of symbolic
/// links.
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
    // musl's message uses `errno` of the last failed call.
    memory.error = match &tried {
        TriedFile::Missing(error) => words(error),
        TriedFile::Refused(LoadRefusal::Directory) => DIRECTORY,
        _ => NO_OBJECT,
    };
    let outcome = match tried {
        // `path_open` continues after ENOENT, ENOTDIR, EACCES and ENAMETOOLONG. Any other error ends the search.
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
    fn only_origin_is_a_token_even_as_a_prefix() {
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
