//! What musl's loader starts with: its default directories, from its path file.

use crate::elf::ByteString;
use crate::escape;
use crate::loader::dynamic_loader::DynamicLoader;
use crate::rootfs::{LookupError, NodeKind, Rootfs};

/// Completes a loader with the default directories that musl reads.
pub(in crate::loader) fn complete(linker: &mut DynamicLoader, rootfs: &Rootfs) {
    let path = path_file_name(linker);
    let file = match rootfs.lookup(&path) {
        Err(LookupError::NotFound) => None,
        // It is there and cannot be read: there are no default directories.
        Err(_) => Some(&b""[..]),
        Ok(found) => match &rootfs.node(found.node).kind {
            NodeKind::File(file) if file.kept.is_none() => {
                let path = escape::escape_bytes(&path);
                linker.problems.push(format!("what {path} holds is not known"));
                None
            }
            NodeKind::File(file) => file.kept.as_deref(),
            _ => Some(&b""[..]),
        },
    };
    linker.default_dirs = default_dirs(file);
    if linker.default_dirs.len() > DIRECTORIES {
        linker.default_dirs.truncate(DIRECTORIES);
        let path = escape::escape_bytes(&path_file_name(linker));
        linker
            .problems
            .push(format!("{path} names more than {DIRECTORIES} directories"));
    }
}

/// The default directories that are followed, at most. Systems have three.
const DIRECTORIES: usize = 65_536;

/// The file with the default directories: in `etc` beside the folder of the loader.
pub(super) fn path_file_name(linker: &DynamicLoader) -> Vec<u8> {
    // Without its last two parts `/lib/ld-musl-x86_64.so.1` is empty, which gives `/etc`.
    let prefix = linker.path.rsplitn(3, |&byte| byte == b'/').nth(2);
    let name = linker.arch.musl.rsplit('/').next().unwrap_or_default();
    let name = name.strip_suffix(".so.1").unwrap_or(name);
    [prefix.unwrap_or_default(), b"/etc/", name.as_bytes(), b".path"].concat()
}

/// The default directories, in the words of that file or those built in.
pub(super) fn default_dirs(file: Option<&[u8]>) -> Vec<ByteString> {
    // The list that `load_library` has built in, for a system without the file.
    let text = file.unwrap_or(b"/lib:/usr/local/lib:/usr/lib");
    // musl reads the file as one C string, which ends at the first NUL.
    directories_of(text.split(|&byte| byte == 0).next().unwrap_or_default())
        .take(DIRECTORIES + 1)
        .collect()
}

/// Splits a search path. Empty elements count for nothing.
pub(super) fn split_path(path: &[u8]) -> Vec<ByteString> {
    directories_of(path).collect()
}

fn directories_of(path: &[u8]) -> impl Iterator<Item = ByteString> {
    let directories = path.split(|byte| b":\n".contains(byte));
    directories.filter(|directory| !directory.is_empty()).map(Into::into)
}
