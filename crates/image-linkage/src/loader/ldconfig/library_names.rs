//! The file and directory names that `ldconfig` considers.

use crate::loader::legacy_hwcaps;
use crate::loader::machine::Libc;

/// Whether `ldconfig` examines a file with this name (`_dl_is_dso`).
pub(super) fn is_library(name: &[u8]) -> bool {
    let has_so = name.windows(3).any(|part| part == b".so");
    ((name.starts_with(b"lib") || name.starts_with(b"ld-")) && has_so)
        || name.starts_with(b"ld.so.")
        || name.starts_with(b"ld64.so.")
}

/// Whether the name belongs to a temporary file of prelink or, since glibc 2.39, of a package manager.
pub(super) fn is_temporary(name: &[u8], libc: Libc) -> bool {
    let mark: &[u8] = b".#prelink#";
    // A dot and the six letters of mkstemp(3) may follow.
    let random = name.len().checked_sub(mark.len() + 7);
    let prelink = name.ends_with(mark)
        || random
            .and_then(|at| name.get(at..))
            .is_some_and(|tail| tail.starts_with(b".#prelink#."));
    let packages = !libc.is_glibc_before((2, 39));
    prelink || (packages && (name.contains(&b';') || name.ends_with(b".dpkg-new") || name.ends_with(b".dpkg-tmp")))
}

/// The hardware bits of a path: its trailing components that are hardware names (`path_hwcap`).
pub(super) fn path_hardware(path: &[u8]) -> u64 {
    path.rsplit(|&byte| byte == b'/')
        .map_while(legacy_hwcaps::capability_bit)
        // Added, not OR-ed: a repeated name carries into the next bit, as in `path_hwcap`.
        .fold(0, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::{is_library, path_hardware};

    #[test]
    fn library_names() {
        assert!(is_library(b"libcupti.so.12"));
        assert!(is_library(b"ld.so.1"));
        assert!(!is_library(b"cupti.so"));
        assert!(!is_library(b"libcupti.a"));
    }

    #[test]
    fn hardware_names_count_only_at_the_end_of_a_path() {
        assert_eq!(path_hardware(b"/opt/lib"), 0);
        assert_eq!(path_hardware(b"/opt/tls/x86_64"), 1 << 63 | 2);
        assert_eq!(path_hardware(b"/opt/tls/lib/x86_64"), 2);
    }
}
