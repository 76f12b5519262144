//! The settings of musl's loader: default directories from its path file.

use crate::elf::ByteString;
use crate::escape;
use crate::loader::dynamic_loader::DynamicLoader;
use crate::rootfs::{LookupError, NodeKind, Rootfs};

/// Fills in musl's default directories.
pub(in crate::loader) fn complete(linker: &mut DynamicLoader, rootfs: &Rootfs) {
    let path = path_file_name(linker);
    let file = match rootfs.lookup(&path) {
        Err(LookupError::NotFound) => None,
        // The file exists but is unreadable: there are no default directories.
        Err(_) => Some(&b""[..]),
        Ok(found) => match &rootfs.node(found.node).kind {
            NodeKind::File(file) if file.kept.is_none() => {
                let path = escape::escape_bytes(&path);
                linker.problems.push(format!("the content of {path} is unknown"));
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

/// The maximum number of default directories. Systems have three.
const DIRECTORIES: usize = 65_536;

/// The file with the default directories, in `etc` beside the loader's directory.
pub(super) fn path_file_name(linker: &DynamicLoader) -> Vec<u8> {
    // Without its last two components `/lib/ld-musl-x86_64.so.1` is empty, which yields `/etc`.
    let prefix = linker.path.rsplitn(3, |&byte| byte == b'/').nth(2);
    let file = linker.arch.musl.rsplit('/').next().unwrap_or_default();
    let name = file.strip_suffix(".so.1").unwrap_or(file);
    [prefix.unwrap_or_default(), b"/etc/", name.as_bytes(), b".path"].concat()
}

/// The default directories from that file, or the built-in ones.
pub(super) fn default_dirs(file: Option<&[u8]>) -> Vec<ByteString> {
    // The list built into `load_library`, for systems without the file.
    let text = file.unwrap_or(b"/lib:/usr/local/lib:/usr/lib");
    // musl reads the file as a C string, which ends at the first NUL.
    directories_of(text.split(|&byte| byte == 0).next().unwrap_or_default())
        .take(DIRECTORIES + 1)
        .collect()
}

/// Splits a search path and drops empty elements.
pub(super) fn split_path(path: &[u8]) -> Vec<ByteString> {
    directories_of(path).collect()
}

fn directories_of(path: &[u8]) -> impl Iterator<Item = ByteString> {
    let directories = path.split(|byte| b":\n".contains(byte));
    directories.filter(|directory| !directory.is_empty()).map(Into::into)
}
