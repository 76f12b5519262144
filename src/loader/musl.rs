//! The search of musl (ldso/dynlink.c, `load_library`, `path_open`, `fixup_rpath`).

use super::open::{Role, open};
use super::process::{Hit, Miss, Process};
use super::{How, Outcome, Step, Tried, token};
use crate::elf::Bytes;
use crate::escape;

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

/// The name that is searched for: the parts of libc are musl itself, which is mapped as the loader.
pub(super) fn own_name<'n>(name: &'n [u8], linker: &'n [u8]) -> &'n [u8] {
    if OWN.iter().any(|own| name.starts_with(own)) {
        linker
    } else {
        name
    }
}

/// Searches `name` for the map `loader`.
pub(super) fn search(
    process: &Process<'_>,
    name: &[u8],
    loader: Option<usize>,
    trace: &mut Vec<Step>,
) -> Result<Hit, Miss> {
    if name.contains(&b'/') {
        return candidate(process, name.to_vec(), How::Direct, trace)
            .unwrap_or_else(|| Err(missing(name)));
    }
    let library_path = process
        .setup
        .environment
        .library_path
        .as_deref()
        .unwrap_or_default();
    let mut lists: Vec<(How, Vec<Bytes>)> = vec![(How::LdLibraryPath, split(library_path))];
    let mut next = loader;
    while let Some(map) = next.and_then(|number| process.maps.get(number)) {
        // DT_RUNPATH takes the place of DT_RPATH, and both are inherited.
        let path = map.elf().runpath.as_ref().or(map.elf().rpath.as_ref());
        if let Some(expanded) = path.and_then(|path| token::expand(path, &process.tokens(map))) {
            lists.push((How::Runpath(next.unwrap_or_default()), split(&expanded)));
        }
        next = map.loader;
    }
    lists.push((How::Default, process.setup.linker.default_dirs.clone()));
    for (how, directories) in lists {
        for directory in directories {
            let path = [
                directory.strip_suffix(b"/").unwrap_or(&directory),
                b"/",
                name,
            ]
            .concat();
            if let Some(result) = candidate(process, path, how, trace) {
                return result;
            }
        }
    }
    Err(missing(name))
}

fn split(path: &[u8]) -> Vec<Bytes> {
    path.split(|byte| b":\n".contains(byte))
        .filter(|directory| !directory.is_empty())
        .map(Into::into)
        .collect()
}

/// Tries a path. musl goes on only where there is nothing to open; what it opens and cannot map ends the search.
fn candidate(
    process: &Process<'_>,
    path: Vec<u8>,
    how: How,
    trace: &mut Vec<Step>,
) -> Option<Result<Hit, Miss>> {
    let setup = process.setup;
    let absolute = process.absolute(&path);
    let (tried, opened) = open(setup.rootfs, &absolute, setup.linker, Role::Program);
    trace.push(Step::Tried {
        how,
        path: path.as_slice().into(),
        tried: tried.clone(),
    });
    match (tried, opened) {
        (Tried::Found, Some(opened)) => Some(Ok(Hit {
            path: path.into(),
            opened,
            how,
        })),
        (Tried::Missing(_), _) => None,
        _ => {
            let message = format!(
                "Error loading shared library {}: Exec format error",
                escape::text(&path)
            );
            Some(Err(Miss {
                outcome: Outcome::Refused,
                message,
            }))
        }
    }
}

fn missing(name: &[u8]) -> Miss {
    let message = format!(
        "Error loading shared library {}: No such file or directory",
        escape::text(name)
    );
    Miss {
        outcome: Outcome::NotFound,
        message,
    }
}
