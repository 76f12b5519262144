//! The names that `ldconfig` looks at, and how it orders them.

use std::cmp::Ordering;

use crate::loader::legacy_hwcaps;
use crate::loader::machine::Libc;

/// Whether `ldconfig` looks at a file of this name (`_dl_is_dso`).
pub(super) fn is_library(name: &[u8]) -> bool {
    let has_so = name.windows(3).any(|part| part == b".so");
    ((name.starts_with(b"lib") || name.starts_with(b"ld-")) && has_so)
        || name.starts_with(b"ld.so.")
        || name.starts_with(b"ld64.so.")
}

/// Whether the name is that of a file which prelink or, since glibc 2.39, a package manager is still writing.
pub(super) fn is_temporary(name: &[u8], libc: Libc) -> bool {
    let mark: &[u8] = b".#prelink#";
    // A dot and the six letters of mkstemp(3) may stand behind the mark.
    let random = name.len().checked_sub(mark.len() + 7);
    let prelink = name.ends_with(mark)
        || random
            .and_then(|at| name.get(at..))
            .is_some_and(|tail| tail.starts_with(b".#prelink#."));
    let packages = !matches!(libc, Libc::Glibc(Some(version)) if version < (2, 39));
    prelink
        || (packages
            && (name.contains(&b';')
                || name.ends_with(b".dpkg-new")
                || name.ends_with(b".dpkg-tmp")))
}

/// The bits of a path: those of its last components, as far as they are such names (`path_hwcap`).
pub(super) fn path_hardware(path: &[u8]) -> u64 {
    path.rsplit(|&byte| byte == b'/')
        .map_while(legacy_hwcaps::capability_bit)
        // Added, not joined: a name that stands twice carries into the next bit, as it does in `path_hwcap`.
        .fold(0, u64::wrapping_add)
}

/// Compares names with the numbers in them as numbers (`_dl_cache_libcmp`).
pub(super) fn compare_versions(first: &[u8], second: &[u8]) -> Ordering {
    let (mut a, mut b) = (first, second);
    while let Some((&x, rest)) = a.split_first() {
        let Some((&y, other)) = b.split_first() else {
            return Ordering::Greater;
        };
        match (x.is_ascii_digit(), y.is_ascii_digit()) {
            (true, true) => {
                let (left, left_rest) = take_number(a);
                let (right, right_rest) = take_number(b);
                if left != right {
                    return left.cmp(&right);
                }
                (a, b) = (left_rest, right_rest);
            }
            (true, false) => return Ordering::Greater,
            (false, true) => return Ordering::Less,
            (false, false) if x != y => return x.cmp(&y),
            (false, false) => (a, b) = (rest, other),
        }
    }
    if b.is_empty() {
        Ordering::Equal
    } else {
        Ordering::Less
    }
}

fn take_number(text: &[u8]) -> (u64, &[u8]) {
    let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(length);
    let value = digits.iter().fold(0_u64, |value, digit| {
        value
            .saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'))
    });
    (value, rest)
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use super::{compare_versions, is_library, path_hardware};

    #[test]
    fn numbers_in_names_are_compared_as_numbers() {
        assert_eq!(
            compare_versions(b"libx.so.9", b"libx.so.10"),
            Ordering::Less
        );
        assert_eq!(
            compare_versions(b"libcupti.so.2024.1.1", b"libcupti.so.2023.3.1"),
            Ordering::Greater
        );
        assert_eq!(compare_versions(b"libx.so", b"libx.so.1"), Ordering::Less);
        assert_eq!(
            compare_versions(b"libx.so.1", b"libx.so.1"),
            Ordering::Equal
        );
    }

    #[test]
    fn library_names() {
        assert!(is_library(b"libcupti.so.12"));
        assert!(is_library(b"ld.so.1"));
        assert!(!is_library(b"cupti.so"));
        assert!(!is_library(b"libcupti.a"));
    }

    #[test]
    fn hardware_in_a_path_counts_from_its_end() {
        assert_eq!(path_hardware(b"/opt/lib"), 0);
        assert_eq!(path_hardware(b"/opt/tls/x86_64"), 1 << 63 | 2);
        assert_eq!(path_hardware(b"/opt/tls/lib/x86_64"), 2);
    }
}
