//! Libraries loaded before all others (glibc elf/rtld.c, `dl_main`).

use crate::elf::ByteString;
use crate::loader::link_map::{LinkMaps, split_names};
use crate::rootfs::{FileUse, LookupError, ResolvedPath};

/// The maximum bytes of `/etc/ld.so.preload`. Real files have a line or two.
pub(super) const PRELOAD_FILE: usize = 16 << 10;

/// The maximum length of a name in `LD_PRELOAD` in secure-execution mode, including the NUL (`SECURE_NAME_LIMIT`).
const SECURE_NAME: usize = 255;

/// The names in `LD_PRELOAD`, separated by spaces and colons, then those in `/etc/ld.so.preload` without comments
/// (`handle_preload_list`).
pub(super) fn preload_names(maps: &LinkMaps<'_>) -> Vec<ByteString> {
    let is_secure = maps.identity.secure.is_some();
    let mut names = variable_names(maps);
    names.retain(|name| !is_secure || is_trusted(name));
    let file = open_file(maps)
        .ok()
        .and_then(|_| maps.setup.rootfs.content(&maps.setup.linker.preload_path))
        .unwrap_or_default();
    let list = without_comments(file.get(..PRELOAD_FILE).unwrap_or(file));
    names.extend(split_names(&list, b": \t\n"));
    names
}

/// The names of `LD_PRELOAD` that secure-execution mode ignores, and the preload file if it is not readable.
pub(super) fn ignored_preloads(maps: &LinkMaps<'_>) -> Vec<(ByteString, String)> {
    let why = maps.identity.secure.map(|why| why.to_string());
    let names = why.iter().flat_map(|why| {
        let names = variable_names(maps).into_iter().filter(|name| !is_trusted(name));
        names.map(|name| (name, why.clone()))
    });
    let denied = match open_file(maps) {
        Err(LookupError::Denied(denial)) => Some((
            maps.setup.linker.preload_path.clone(),
            format!("permission denied: {denial}"),
        )),
        _ => None,
    };
    names.chain(denied).collect()
}

fn variable_names(maps: &LinkMaps<'_>) -> Vec<ByteString> {
    let variable = maps.setup.environment.preload.as_deref().unwrap_or_default();
    split_names(variable, b" :")
}

/// Whether a name is not a path and not too long (`dso_name_valid_for_suid`).
fn is_trusted(name: &[u8]) -> bool {
    name.len() < SECURE_NAME && !name.contains(&b'/')
}

/// The loader calls access(2), which checks the real user, and then opens the file as the effective user.
fn open_file(maps: &LinkMaps<'_>) -> Result<ResolvedPath, LookupError> {
    let setup = maps.setup;
    let file = &setup.linker.preload_path;
    setup.rootfs.open_as(file, setup.user, FileUse::Read)?;
    maps.open(file)
}

/// A preload file with its comments blanked. The loader looks for the next comment from the start of the file but only
/// within the number of remaining bytes, so it misses later ones (glibc elf/rtld.c, `dl_main`).
fn without_comments(file: &[u8]) -> Vec<u8> {
    let mut file = file.to_vec();
    let mut rest = file.len();
    while let Some(start) = file
        .get(..rest)
        .and_then(|part| part.iter().position(|&byte| byte == b'#'))
    {
        rest -= start;
        for byte in file.iter_mut().skip(start) {
            if rest == 0 || *byte == b'\n' {
                break;
            }
            *byte = b' ';
            rest -= 1;
        }
    }
    file
}

#[cfg(test)]
mod tests {
    use super::{split_names, without_comments};

    #[test]
    fn preload_comments_are_blanked_and_names_split() {
        let names = |file: &[u8]| -> Vec<String> {
            let names = split_names(&without_comments(file), b": \t\n");
            names
                .iter()
                .map(|name| String::from_utf8_lossy(name).into_owned())
                .collect()
        };
        assert_eq!(names(b"/a.so /b.so:/c.so\n\n"), ["/a.so", "/b.so", "/c.so"]);
        assert_eq!(names(b"# all of it\n/a.so /b.so"), ["/a.so", "/b.so"]);
        // glibc's bug: the comment is beyond the remaining length.
        assert_eq!(names(b"# all\n/a.so # it"), ["/a.so", "#", "it"]);
        assert_eq!(names(b"#"), [] as [&str; 0]);
    }
}
