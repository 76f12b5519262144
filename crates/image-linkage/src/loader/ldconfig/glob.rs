//! The patterns of `include` lines (glob(7), in the C locale).

use crate::path::{matches_wildcards, split_components};
use crate::rootfs::Rootfs;

/// The paths that a pattern names, at most; real folders of configuration hold some ten files.
const PATHS: usize = 4096;
/// The longest name on Linux (`NAME_MAX`). An archive may hold a longer one, which nothing could look up.
const NAME: usize = 255;

/// The paths that an absolute pattern names, in the order of their bytes.
pub(super) fn expand_pattern(rootfs: &Rootfs, pattern: &[u8]) -> Vec<Vec<u8>> {
    let mut paths: Vec<Vec<u8>> = vec![Vec::new()];
    for part in split_components(pattern) {
        let mut next = Vec::new();
        let is_pattern = part.iter().any(|byte| b"*?[".contains(byte));
        let names = is_pattern.then(|| NamePattern::compile(part));
        for path in paths {
            match &names {
                Some(names) => next.extend(matching(rootfs, &path, names)),
                None => next.push([&path, &b"/"[..], part].concat()),
            }
        }
        // Cut at each component: `*/*/*/*` multiplies long before a path is complete.
        next.truncate(PATHS);
        paths = next;
    }
    paths.retain(|path| rootfs.lookup(path).is_ok());
    // glob(3) sorts, and of two libraries with one soname the one in the earlier directory wins.
    paths.sort();
    paths
}

/// Whether a pattern names this path, were it there. Neither is looked up, so that no link is followed.
pub(super) fn matches_path(pattern: &[u8], path: &[u8]) -> bool {
    let (mut parts, mut names) = (split_components(pattern), split_components(path));
    loop {
        match (parts.next(), names.next()) {
            (None, None) => return true,
            (Some(part), Some(name)) if NamePattern::compile(part).matches(name) => {}
            _ => return false,
        }
    }
}

/// The paths of what in a directory fits.
fn matching(rootfs: &Rootfs, directory: &[u8], names: &NamePattern) -> Vec<Vec<u8>> {
    // The path of the root is empty here, so that a component can be put behind it with one `/`.
    let at = if directory.is_empty() { b"/" } else { directory };
    let Ok(found) = rootfs.lookup(at) else {
        return Vec::new();
    };
    let children = rootfs.children(found.node).map(|(child, _)| child);
    children
        .filter(|child| child.len() <= NAME && names.matches(child))
        .map(|child| [directory, b"/", child].concat())
        .collect()
}

/// A pattern for one name, of `*`, `?` and classes such as `[a-z]` and `[!0]`.
struct NamePattern {
    elements: Vec<PatternElement>,
    /// A name that begins with a dot fits only a pattern that does (glob(7)).
    takes_hidden: bool,
}

enum PatternElement {
    AnyBytes,
    AnyByte,
    Byte(u8),
    /// By the value of a byte, so that a class of any length is looked at once.
    Class(Box<[bool; 256]>),
}

impl NamePattern {
    fn compile(pattern: &[u8]) -> Self {
        let mut elements = Vec::new();
        let mut rest = pattern;
        // A `[` that nothing closes stands for itself. What closes the last class is looked for once: to look
        // behind every `[` of a hostile pattern takes the square of its length.
        let last_close = pattern.iter().rposition(|&byte| byte == b']');
        while let Some((&first, tail)) = rest.split_first() {
            rest = tail;
            let may_close = last_close.is_some_and(|at| at >= pattern.len() - tail.len());
            let class = (first == b'[' && may_close).then(|| class(tail)).flatten();
            match (first, class) {
                (_, Some((class, behind))) => {
                    elements.push(PatternElement::Class(Box::new(class_table(class))));
                    rest = behind;
                }
                // Two stars in a row take what one does.
                (b'*', None) if matches!(elements.last(), Some(PatternElement::AnyBytes)) => {}
                (b'*', None) => elements.push(PatternElement::AnyBytes),
                (b'?', None) => elements.push(PatternElement::AnyByte),
                (byte, None) => elements.push(PatternElement::Byte(byte)),
            }
        }
        Self {
            elements,
            takes_hidden: pattern.starts_with(b"."),
        }
    }

    /// Whether the pattern takes all of `name`, in at most the square of the name's length.
    fn matches(&self, name: &[u8]) -> bool {
        if name.starts_with(b".") && !self.takes_hidden {
            return false;
        }
        let is_star = |element: &PatternElement| matches!(element, PatternElement::AnyBytes);
        matches_wildcards(&self.elements, name, is_star, |element, byte| element.takes(*byte))
    }
}

impl PatternElement {
    fn takes(&self, byte: u8) -> bool {
        match self {
            Self::AnyBytes | Self::AnyByte => true,
            Self::Byte(own) => *own == byte,
            Self::Class(table) => table.get(usize::from(byte)).is_some_and(|&takes| takes),
        }
    }
}

/// The inside of a class, and what follows it; a `]` at its start is one of its characters.
fn class(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let negated = usize::from(matches!(text.first(), Some(b'!' | b'^')));
    let behind = text.get(negated + 1..)?;
    let end = behind.iter().position(|&byte| byte == b']')? + negated + 1;
    Some((text.get(..end)?, text.get(end + 1..)?))
}

/// The bytes that a class takes.
fn class_table(class: &[u8]) -> [bool; 256] {
    let (negated, mut rest) = match class.split_first() {
        Some((b'!' | b'^', rest)) => (true, rest),
        _ => (false, class),
    };
    let mut table = [negated; 256];
    while let Some((&first, tail)) = rest.split_first() {
        // A `-` at the end of a class stands for itself.
        let (last, behind) = match tail {
            [b'-', last, behind @ ..] => (*last, behind),
            _ => (first, tail),
        };
        for byte in first..=last {
            if let Some(takes) = table.get_mut(usize::from(byte)) {
                *takes = !negated;
            }
        }
        rest = behind;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::NamePattern;

    fn matches(pattern: &[u8], name: &[u8]) -> bool {
        NamePattern::compile(pattern).matches(name)
    }

    #[test]
    fn patterns() {
        assert!(matches(b"*.conf", b"000_cuda.conf"));
        assert!(!matches(b"*.conf", b"x.conf.bak"));
        assert!(matches(b"a?c*", b"abcdef"));
        assert!(matches(b"*a*b", b"xaxbxab"));
        assert!(!matches(b"*a*b", b"xaxbxa"));
        assert!(!matches(b"*", b".hidden"));
        assert!(matches(b".*", b".hidden"));
    }

    #[test]
    fn a_hostile_pattern_ends_soon() {
        let stars = "*a".repeat(100) + "*";
        assert!(!matches(stars.as_bytes(), &[b'a'; 99]));
        assert!(!matches((stars + "b").as_bytes(), &[b'a'; 255]));
        assert!(matches(&vec![b'*'; 1_000_000], &[b'a'; 255]));
        let open = vec![b'['; 1_000_000];
        assert!(!matches(&open, &[b'['; 255]));
        let long = [&b"*["[..], &vec![b'x'; 1_000_000], b"]y"].concat();
        assert!(!matches(&long, &[b'x'; 255]));
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
