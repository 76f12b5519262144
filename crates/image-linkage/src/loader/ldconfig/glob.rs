//! The patterns of `include` lines (glob(7), in the C locale).

use crate::rootfs::Rootfs;

/// The paths that a pattern names, sorted, at most.
const PATHS: usize = 4096;

/// The paths that an absolute pattern names, in the order of their bytes.
pub(super) fn expand_pattern(rootfs: &Rootfs, pattern: &[u8]) -> Vec<Vec<u8>> {
    let mut paths: Vec<Vec<u8>> = vec![Vec::new()];
    for part in pattern
        .split(|&byte| byte == b'/')
        .filter(|part| !part.is_empty())
    {
        let mut next = Vec::new();
        for path in paths {
            if part.iter().any(|byte| b"*?[".contains(byte)) {
                next.extend(matching(rootfs, &path, part));
            } else {
                next.push([&path, &b"/"[..], part].concat());
            }
        }
        next.truncate(PATHS);
        paths = next;
    }
    paths.retain(|path| rootfs.lookup(path).is_ok());
    paths.sort();
    paths
}

/// What in a directory fits; a name that begins with a dot fits a pattern that does.
fn matching(rootfs: &Rootfs, directory: &[u8], pattern: &[u8]) -> Vec<Vec<u8>> {
    let at = if directory.is_empty() {
        b"/"
    } else {
        directory
    };
    let Ok(found) = rootfs.lookup(at) else {
        return Vec::new();
    };
    let children = rootfs.children(found.node).map(|(child, _)| child);
    children
        .filter(|child| matches(pattern, child))
        .filter(|child| !child.starts_with(b".") || pattern.starts_with(b"."))
        .map(|child| [directory, b"/", child].concat())
        .collect()
}

/// Whether `name` fits a pattern of `*`, `?` and classes such as `[a-z]` and `[!0]`.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => {
            (0..=name.len()).any(|skip| matches(rest, name.get(skip..).unwrap_or_default()))
        }
        (Some((b'?', rest)), Some((_, tail))) => matches(rest, tail),
        (Some((b'[', rest)), Some((first, tail))) => match class(rest) {
            Some((class, rest)) => fits(class, *first) && matches(rest, tail),
            None => *first == b'[' && matches(rest, tail),
        },
        (Some((byte, rest)), Some((first, tail))) => byte == first && matches(rest, tail),
        _ => false,
    }
}

/// The inside of a class, and what follows it; a `]` at its start is one of its characters.
fn class(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let negated = usize::from(matches!(text.first(), Some(b'!' | b'^')));
    let behind = text.get(negated + 1..)?;
    let end = behind.iter().position(|&byte| byte == b']')? + negated + 1;
    Some((text.get(..end)?, text.get(end + 1..)?))
}

fn fits(class: &[u8], byte: u8) -> bool {
    let (negated, mut rest) = match class.split_first() {
        Some((b'!' | b'^', rest)) => (true, rest),
        _ => (false, class),
    };
    let mut found = false;
    while let Some((&first, tail)) = rest.split_first() {
        if let [b'-', last, behind @ ..] = tail {
            found |= (first..=*last).contains(&byte);
            rest = behind;
        } else {
            found |= first == byte;
            rest = tail;
        }
    }
    found != negated
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns() {
        assert!(matches(b"*.conf", b"000_cuda.conf"));
        assert!(!matches(b"*.conf", b"x.conf.bak"));
        assert!(matches(b"a?c*", b"abcdef"));
    }

    #[test]
    fn classes() {
        assert!(matches(b"[0-9]-[ab].conf", b"3-a.conf"));
        assert!(!matches(b"[!0-9]*", b"3-a.conf"));
        assert!(matches(b"[]x]", b"]"));
        assert!(matches(b"[", b"["));
        assert!(!matches(b"[a-]", b"b"));
    }
}
