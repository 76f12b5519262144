//! The search of musl, and what it does differently once a file is found (musl ldso/dynlink.c,
//! `load_library`, `path_open`, `fixup_rpath`, `map_library`).
//!
//! musl looks at no `DT_SONAME` and at no version. A library answers to the last part of the path at which a
//! search found it, and to nothing when it was opened by its path.

use std::cell::Cell;

use super::object_check::{ObjectRole, OpenedObject, open_object, truncation};
use super::process::{LinkMap, SearchHit, SearchMiss, SimulatedProcess};
use super::{
    DynamicLoader, LoadRefusal, RequestOutcome, SearchStage, SearchStep, TriedFile,
    UnresolvedRequest, arch,
};
use crate::elf::{ByteString, ElfFacts};
use crate::escape;
use crate::layer::FileFacts;
use crate::rootfs::{LookupError, NodeKind};

/// The names that stand for musl itself, whatever follows them.
const OWN: [&[u8]; 7] = [
    b"libc.",
    b"libpthread.",
    b"librt.",
    b"libm.",
    b"libdl.",
    b"libutil.",
    b"libxnet.",
];

/// The room for a path that a search makes, its final NUL included (`2*NAME_MAX+2`).
const PATH: usize = 512;
/// The longest name that is searched for.
const NAME: usize = 255;
/// `sizeof(Elf64_Ehdr)`.
const HEADER: u64 = 64;
/// What is said of a file that is no object.
const NO_OBJECT: &str = "Exec format error";
/// What is said of a directory, which can be opened but not read.
const DIRECTORY: &str = "Is a directory";

/// What a process of musl remembers between searches.
#[derive(Clone)]
pub(super) struct MuslState {
    /// The last error of the system in musl's words: a failure that makes none is told by the one before it.
    error: Cell<&'static str>,
    /// Whether the file with the default directories was asked for.
    asked_for_defaults: Cell<bool>,
}

impl Default for MuslState {
    fn default() -> Self {
        Self {
            error: Cell::new("No error information"),
            asked_for_defaults: Cell::new(false),
        }
    }
}

/// The map that answers to `name` without a search.
pub(super) fn find_mapped_name(process: &SimulatedProcess<'_>, name: &[u8]) -> Option<usize> {
    if OWN.iter().any(|own| name.starts_with(own)) || *name == *process.setup.linker.path {
        return itself(process);
    }
    let mut maps = process.maps.iter();
    maps.position(|map| map.names.iter().any(|own| **own == *name))
}

/// The map that a found file is: musl itself where the file is a C library, whichever (musl looks for
/// `__libc_start_main` and `stdin` in it; the soname tells as much), or the one with the same inode. The
/// program is never asked.
pub(super) fn find_mapped_file(
    process: &SimulatedProcess<'_>,
    opened: &OpenedObject,
) -> Option<usize> {
    let soname = opened.facts.elf.as_ref()?.soname.as_deref();
    if soname.is_some_and(|soname| soname.starts_with(b"libc.")) {
        return itself(process);
    }
    process.position_of(opened, |map| !map.is_main())
}

fn itself(process: &SimulatedProcess<'_>) -> Option<usize> {
    let path = &process.setup.linker.path;
    process.maps.iter().position(|map| map.path == *path)
}

/// The name that `map` answers to from now on, now that `name` led to it. musl itself gets none.
pub(super) fn new_alias(map: &LinkMap, name: &[u8], linker: &DynamicLoader) -> Option<ByteString> {
    let base = map.path.rsplit(|&byte| byte == b'/').next();
    let is_first = map.names.is_empty() && !name.contains(&b'/') && map.path != linker.path;
    base.filter(|_| is_first).map(Into::into)
}

/// Searches `name` for the map `loader`.
pub(super) fn search_library(
    process: &SimulatedProcess<'_>,
    name: &[u8],
    loader: Option<usize>,
    trace: &mut Vec<SearchStep>,
) -> Result<SearchHit, SearchMiss> {
    let error = &process.musl.error;
    let found = if name.is_empty() {
        error.set("Invalid argument");
        None
    } else if name.contains(&b'/') {
        candidate(process, name.to_vec(), SearchStage::Direct, trace)
    } else if name.len() > NAME {
        None
    } else {
        search_directories(process, name, loader, trace)
    };
    let name = escape::escape_bytes(name);
    let said = || format!("Error loading shared library {name}: {}", error.get());
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

/// The same with the object that asked, which musl names where a `DT_NEEDED` asks.
pub(super) fn name_requester(miss: SearchMiss, map: Option<&LinkMap>) -> SearchMiss {
    let by = map.map(|map| format!(" (needed by {})", escape::escape_bytes(&map.path)));
    let message = miss.message + &by.unwrap_or_default();
    SearchMiss { message, ..miss }
}

/// The search of a bare name: a list of directories after the other, until a file can be opened.
fn search_directories(
    process: &SimulatedProcess<'_>,
    name: &[u8],
    loader: Option<usize>,
    trace: &mut Vec<SearchStep>,
) -> Option<Result<SearchHit, SearchMiss>> {
    let setup = process.setup;
    let library_path = setup.environment.library_path.as_deref();
    let mut lists = vec![(
        SearchStage::LdLibraryPath,
        split(library_path.unwrap_or_default()),
    )];
    let mut next = loader;
    while let Some((number, map)) = next.and_then(|at| Some((at, process.maps.get(at)?))) {
        lists.extend(own_path(process, number, map));
        next = map.loader;
    }
    lists.push((SearchStage::Default, setup.linker.default_dirs.clone()));
    for (how, directories) in lists {
        if how == SearchStage::Default {
            ask_for_defaults(process);
        }
        for directory in directories {
            let path = [&*directory, b"/", name].concat();
            if path.len() >= PATH {
                let tried = TriedFile::Missing(LookupError::TooLong);
                let path = path.into();
                trace.push(SearchStep::Tried { how, path, tried });
            } else if let Some(result) = candidate(process, path, how, trace) {
                return Some(result);
            }
        }
    }
    None
}

/// The directories of `DT_RUNPATH`, which takes the place of `DT_RPATH`; nothing where a `$` begins something
/// else than `$ORIGIN`.
fn own_path(
    process: &SimulatedProcess<'_>,
    number: usize,
    map: &LinkMap,
) -> Option<(SearchStage, Vec<ByteString>)> {
    let (how, path) = match (&map.elf().runpath, &map.elf().rpath) {
        (Some(runpath), _) => (SearchStage::Runpath(number), runpath),
        (None, rpath) => (SearchStage::Rpath(number), rpath.as_ref()?),
    };
    Some((how, split(&expand(path, &origin(process, map))?)))
}

/// The directory that `$ORIGIN` names: of the path by which the object was opened, as written.
fn origin(process: &SimulatedProcess<'_>, map: &LinkMap) -> Vec<u8> {
    if map.is_main() {
        return map.origin.strip_suffix(b"/").unwrap_or(&map.origin).into();
    }
    let path = if map.path.contains(&b'/') {
        map.path.to_vec()
    } else {
        process.absolute(&map.path)
    };
    let end = path.iter().rposition(|&byte| byte == b'/');
    path.get(..end.unwrap_or_default())
        .unwrap_or_default()
        .into()
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

/// Splits a search path. Empty elements count for nothing.
fn split(path: &[u8]) -> Vec<ByteString> {
    path.split(|byte| b":\n".contains(byte))
        .filter(|directory| !directory.is_empty())
        .map(Into::into)
        .collect()
}

/// Opens the file with the default directories, once: where it is there and cannot be read, there are none.
fn ask_for_defaults(process: &SimulatedProcess<'_>) {
    let setup = process.setup;
    if process.musl.asked_for_defaults.replace(true) || !setup.linker.default_dirs.is_empty() {
        return;
    }
    match setup.rootfs.lookup(&path_file_name(setup.linker)) {
        Err(error) => process.musl.error.set(words(error)),
        Ok(found) if !matches!(setup.rootfs.node(found.node).kind, NodeKind::File(_)) => {
            process.musl.error.set(DIRECTORY);
        }
        Ok(_) => {}
    }
}

/// The file with the default directories: in `etc` beside the folder of the loader.
pub(super) fn path_file_name(linker: &DynamicLoader) -> Vec<u8> {
    let prefix = linker.path.rsplitn(3, |&byte| byte == b'/').nth(2);
    let name = linker.arch.musl.rsplit('/').next().unwrap_or_default();
    let name = name.strip_suffix(".so.1").unwrap_or(name);
    [
        prefix.unwrap_or_default(),
        b"/etc/",
        name.as_bytes(),
        b".path",
    ]
    .concat()
}

/// The default directories, in the words of that file or those built in.
pub(super) fn default_dirs(file: Option<&[u8]>) -> Vec<ByteString> {
    let text = file.unwrap_or(b"/lib:/usr/local/lib:/usr/lib");
    split(text.split(|&byte| byte == 0).next().unwrap_or_default())
}

/// Tries a path. musl goes on where there is nothing to open; what it opens and cannot map ends the search, and
/// so does a loop of links among the directories.
fn candidate(
    process: &SimulatedProcess<'_>,
    path: Vec<u8>,
    how: SearchStage,
    trace: &mut Vec<SearchStep>,
) -> Option<Result<SearchHit, SearchMiss>> {
    let setup = process.setup;
    let absolute = process.absolute(&path);
    let (tried, opened) = open_object(setup.rootfs, &absolute, setup.linker, ObjectRole::Library);
    trace.push(SearchStep::Tried {
        how,
        path: path.as_slice().into(),
        tried: tried.clone(),
    });
    if let (TriedFile::Found, Some(opened)) = (&tried, opened) {
        let path = path.into();
        return Some(Ok(SearchHit { path, opened, how }));
    }
    process.musl.error.set(match &tried {
        TriedFile::Missing(error) => words(*error),
        TriedFile::Refused(LoadRefusal::Directory) => DIRECTORY,
        _ => NO_OBJECT,
    });
    let outcome = match tried {
        TriedFile::Missing(LookupError::Loop) => RequestOutcome::NotFound,
        TriedFile::Missing(_) => return None,
        _ => RequestOutcome::Refused,
    };
    let message = match &tried {
        TriedFile::Refused(refusal @ LoadRefusal::Crash(_)) => {
            format!("{}: {refusal}", escape::escape_bytes(&path))
        }
        _ => String::new(),
    };
    Some(Err(SearchMiss { outcome, message }))
}

/// What musl asks of a file before it maps it. It looks neither at the magic number nor at the class nor at the
/// processor; an object of another class or byte order fails because its header reads as nonsense.
pub(super) fn verify_object(facts: &FileFacts, linker: &DynamicLoader) -> TriedFile {
    let no_object = || TriedFile::Refused(LoadRefusal::Verify(NO_OBJECT.to_owned()));
    let Some(elf) = facts.elf.as_ref().filter(|_| facts.bytes >= HEADER) else {
        return no_object();
    };
    let [_, _, _, _, _, data, ..] = elf.ident;
    let is_loadable = matches!(elf.kind, 2 | 3) && elf.dynamic;
    if elf.class() != linker.arch.class || data != linker.arch.data || !is_loadable {
        return no_object();
    }
    match truncation(elf) {
        Some(cut) => TriedFile::Refused(LoadRefusal::Crash(cut.to_string())),
        None => TriedFile::Found,
    }
}

/// The maps in `order` that are for another processor. musl finds out when it meets the first relocation.
pub(super) fn check_machines(
    process: &SimulatedProcess<'_>,
    order: &[usize],
) -> Vec<UnresolvedRequest> {
    let machine = process.setup.linker.arch.machine;
    let is_foreign = |elf: &ElfFacts| elf.machine != machine;
    let maps = order.iter().filter_map(|&number| process.maps.get(number));
    maps.filter(|map| is_foreign(map.elf()))
        .map(|map| UnresolvedRequest {
            name: map.names.first().unwrap_or(&map.path).clone(),
            requested_by: map.loader,
            outcome: RequestOutcome::Refused,
            message: format!(
                "Error relocating {}: unsupported relocation type: it is for {}",
                escape::escape_bytes(&map.path),
                arch::machine_name(map.elf().machine)
            ),
            missing_version: None,
            trace: Vec::new(),
        })
        .collect()
}

/// A system error in musl's words (src/errno/__strerror.h).
fn words(error: LookupError) -> &'static str {
    match error {
        LookupError::NotFound => "No such file or directory",
        LookupError::NotDirectory => "Not a directory",
        LookupError::Loop => "Symbolic link loop",
        LookupError::TooLong => "Filename too long",
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
