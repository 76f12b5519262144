//! The patterns of `include` lines (glob(7), C locale).

use crate::path::{matches_wildcards, split_components};
use crate::rootfs::Rootfs;

/// The maximum number of paths for one pattern. Real configuration directories have about ten files.
const PATHS: usize = 4096;
/// The maximum name length on Linux (`NAME_MAX`). Archives may contain longer names that cannot be looked up.
const NAME: usize = 255;

/// The maximum unclosed brackets in a pattern that are tried as classes. Each try scans to the end.
const OPEN_BRACKETS: usize = 4;

/// The first `limit` paths that match an absolute pattern (glob(7)), in byte order.
pub fn expand_pattern(rootfs: &Rootfs, pattern: &[u8], limit: usize) -> Vec<Vec<u8>> {
    expand_within(rootfs, pattern, limit, &mut { usize::MAX })
}

/// Like [`expand_pattern`], but compares at most `names_left` names and deducts them.
pub(super) fn expand_within(rootfs: &Rootfs, pattern: &[u8], limit: usize, names_left: &mut usize) -> Vec<Vec<u8>> {
    if names_folders(pattern) {
        return Vec::new();
    }
    let mut paths: Vec<Vec<u8>> = vec![Vec::new()];
    for part in split_components(pattern) {
        let mut next = Vec::new();
        let is_pattern = part.iter().any(|byte| b"*?[\\".contains(byte));
        let names = is_pattern.then(|| NamePattern::compile(part));
        for path in paths {
            match &names {
                Some(names) => next.extend(matching(rootfs, &path, names, names_left)),
                None => next.push([&path, &b"/"[..], part].concat()),
            }
        }
        // Truncate after each component: `*/*/*/*` multiplies long before a path is complete.
        next.truncate(PATHS);
        paths = next;
    }
    // glob(3) sorts. The earlier directory wins for libraries with the same soname.
    paths.sort();
    let there = paths.into_iter().filter(|path| rootfs.lookup(path).is_ok());
    there.take(limit).collect()
}

/// Whether a pattern ends with a slash and so matches only directories, which contain no configuration text.
fn names_folders(pattern: &[u8]) -> bool {
    pattern.ends_with(b"/") || pattern.ends_with(b"/.")
}

/// Whether a pattern matches this path, by text only: nothing is looked up and no link followed.
pub(super) fn matches_path(pattern: &[u8], path: &[u8]) -> bool {
    if names_folders(pattern) {
        return false;
    }
    let (mut parts, mut names) = (split_components(pattern), split_components(path));
    loop {
        match (parts.next(), names.next()) {
            (None, None) => return true,
            (Some(part), Some(name)) if NamePattern::compile(part).matches(name) => {}
            _ => return false,
        }
    }
}

/// Whether a pattern matches a whole text, like a shell's `case`: `*` also matches slashes and dots.
pub fn matches_text(pattern: &[u8], text: &[u8]) -> bool {
    NamePattern::compile(pattern).takes_text(text)
}

/// The paths of the matching names in a directory.
fn matching(rootfs: &Rootfs, directory: &[u8], names: &NamePattern, names_left: &mut usize) -> Vec<Vec<u8>> {
    // The root's path is empty here, so that components can be appended with a single `/`.
    let at = if directory.is_empty() { b"/" } else { directory };
    let Ok(found) = rootfs.lookup(at) else {
        return Vec::new();
    };
    let mut paths = Vec::new();
    for (child, _) in rootfs.children(found.node) {
        *names_left = names_left.saturating_sub(1);
        if *names_left == 0 {
            break;
        }
        if child.len() <= NAME && names.matches(child) {
            paths.push([directory, b"/", child].concat());
        }
    }
    paths
}

/// A pattern for one name: `*`, `?`, `\\` and classes such as `[a-z]` and `[![:digit:]]`.
struct NamePattern {
    elements: Vec<PatternElement>,
}

enum PatternElement {
    AnyBytes,
    AnyByte,
    Byte(u8),
    Class(ByteClass),
}

impl NamePattern {
    fn compile(pattern: &[u8]) -> Self {
        let mut elements = Vec::new();
        let mut rest = pattern;
        let mut open = if pattern.contains(&b']') { 0 } else { OPEN_BRACKETS };
        while let Some((&first, tail)) = rest.split_first() {
            rest = tail;
            match first {
                // Two adjacent stars equal one.
                b'*' if matches!(elements.last(), Some(PatternElement::AnyBytes)) => {}
                b'*' => elements.push(PatternElement::AnyBytes),
                b'?' => elements.push(PatternElement::AnyByte),
                b'[' if open < OPEN_BRACKETS => {
                    if let Some((class, behind)) = ByteClass::parse(tail) {
                        elements.push(PatternElement::Class(class));
                        rest = behind;
                    } else {
                        // An unclosed `[` is literal.
                        open += 1;
                        elements.push(PatternElement::Byte(first));
                    }
                }
                b'\\' => match tail.split_first() {
                    Some((&escaped, behind)) => {
                        elements.push(PatternElement::Byte(escaped));
                        rest = behind;
                    }
                    // fnmatch(3) matches nothing with a trailing `\`. An empty class does the same.
                    None => elements.push(PatternElement::Class(ByteClass::default())),
                },
                byte => elements.push(PatternElement::Byte(byte)),
            }
        }
        Self { elements }
    }

    /// Whether the pattern matches all of `name`, in time at most quadratic in its length.
    fn matches(&self, name: &[u8]) -> bool {
        // A leading dot must be matched literally (glob(7)).
        let takes_hidden = matches!(self.elements.first(), Some(PatternElement::Byte(b'.')));
        (takes_hidden || !name.starts_with(b".")) && self.takes_text(name)
    }

    fn takes_text(&self, name: &[u8]) -> bool {
        matches_wildcards(
            &self.elements,
            name,
            |element| matches!(element, PatternElement::AnyBytes),
            |element, byte| element.takes(*byte),
        )
    }
}

impl PatternElement {
    fn takes(&self, byte: u8) -> bool {
        match self {
            Self::AnyBytes | Self::AnyByte => true,
            Self::Byte(own) => *own == byte,
            Self::Class(class) => class.takes(byte),
        }
    }
}

/// The bytes in a class as a bit set, so that matching does not depend on its length.
#[derive(Default)]
struct ByteClass {
    bits: [u128; 2],
}

impl ByteClass {
    /// Parses a class behind its `[` in the C locale (glibc `posix/fnmatch_loop.c`). Returns it and the text behind
    /// `]`.
    fn parse(text: &[u8]) -> Option<(Self, &[u8])> {
        let negated = matches!(text.first(), Some(b'!' | b'^'));
        let inside = text.get(usize::from(negated)..)?;
        let mut rest = inside;
        let (mut class, mut is_known) = (Self::default(), true);
        loop {
            // A leading `]` is a member of the class.
            if let Some(behind) = rest.strip_prefix(b"]").filter(|_| rest.len() < inside.len()) {
                if negated {
                    // With an unknown class name, fnmatch(3) matches nothing, negated or not.
                    class.bits = class.bits.map(|half| if is_known { !half } else { 0 });
                }
                return Some((class, behind));
            }
            if let Some((name, behind)) = class_name(rest) {
                // Members before an unknown name still match, because fnmatch(3) compares them first.
                is_known = is_known && class.add_named(name);
                rest = behind;
                continue;
            }
            let (first, behind) = class_byte(rest)?;
            let range = behind.strip_prefix(b"-").filter(|end| !end.starts_with(b"]"));
            // A trailing `-` is literal.
            let (last, behind) = range.map_or(Some((first, behind)), class_byte)?;
            if is_known {
                (first..=last).for_each(|byte| class.add(byte));
            }
            rest = behind;
        }
    }

    /// Adds the bytes of a POSIX class. Returns false for an unknown name.
    fn add_named(&mut self, name: &[u8]) -> bool {
        let belongs: fn(&u8) -> bool = match name {
            b"alnum" => u8::is_ascii_alphanumeric,
            b"alpha" => u8::is_ascii_alphabetic,
            b"blank" => |byte| matches!(byte, b' ' | b'\t'),
            b"cntrl" => u8::is_ascii_control,
            b"digit" => u8::is_ascii_digit,
            b"graph" => u8::is_ascii_graphic,
            b"lower" => u8::is_ascii_lowercase,
            b"print" => |byte| matches!(byte, b' '..=b'~'),
            b"punct" => u8::is_ascii_punctuation,
            b"space" => |byte| matches!(byte, b' ' | b'\t'..=b'\r'),
            b"upper" => u8::is_ascii_uppercase,
            b"xdigit" => u8::is_ascii_hexdigit,
            _ => return false,
        };
        (0..=u8::MAX).filter(belongs).for_each(|byte| self.add(byte));
        true
    }

    fn add(&mut self, byte: u8) {
        if let Some(half) = self.bits.get_mut(usize::from(byte >> 7)) {
            *half |= 1 << (byte & 127);
        }
    }

    fn takes(&self, byte: u8) -> bool {
        let half = self.bits.get(usize::from(byte >> 7));
        half.is_some_and(|half| half >> (byte & 127) & 1 == 1)
    }
}

/// The name of a POSIX class such as `[:alpha:]`, and the text behind it.
fn class_name(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let name = text.strip_prefix(b"[:")?;
    // Other characters than lowercase letters make it invalid, and the `[` is literal.
    let end = name.iter().position(|byte| !byte.is_ascii_lowercase())?;
    let (name, behind) = name.split_at_checked(end)?;
    Some((name, behind.strip_prefix(b":]")?))
}

/// One byte of a class: plain, escaped, or as `[=x=]` or `[.x.]`, which are the byte itself in the C locale.
fn class_byte(text: &[u8]) -> Option<(u8, &[u8])> {
    match text {
        [b'\\', byte, behind @ ..]
        | [b'[', b'=', byte, b'=', b']', behind @ ..]
        | [b'[', b'.', byte, b'.', b']', behind @ ..]
        | [byte, behind @ ..] => Some((*byte, behind)),
        [] => None,
    }
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
    fn hostile_patterns_match_quickly() {
        let stars = "*a".repeat(100) + "*";
        assert!(!matches(stars.as_bytes(), &[b'a'; 99]));
        assert!(!matches((stars + "b").as_bytes(), &[b'a'; 255]));
        assert!(matches(&vec![b'*'; 1_000_000], &[b'a'; 255]));
        let open = vec![b'['; 1_000_000];
        assert!(!matches(&open, &[b'['; 255]));
        let escaped = [vec![b'['; 100_000], b"\\]".to_vec()].concat();
        assert!(!matches(&escaped, &[b'['; 255]));
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
        assert!(matches(b"[[:alpha:]][![:digit:]]", b"xy"));
        assert!(!matches(b"[[:alpha:]][![:digit:]]", b"x1"));
        assert!(matches(b"[[:upper:]_-]", b"-"));
        assert!(matches(b"[[=x=]][[.y.]]", b"xy"));
        assert!(!matches(b"[[:foo:]x]", b"x"));
        assert!(!matches(b"[![:foo:]]", b"x"));
        assert!(!matches(b"[z-a]", b"m"));
        assert!(!matches(b"[[:alpha:]]", b".") && !matches(b"[.]x", b".x"));
    }

    #[test]
    fn escapes() {
        assert!(matches(br"\*.conf", b"*.conf"));
        assert!(!matches(br"\*.conf", b"x.conf"));
        assert!(matches(br"\x\[a]", b"x[a]"));
        assert!(matches(br"[\]\x]", b"]") && matches(br"[\]\x]", b"x"));
        assert!(matches(br"\.x", b".x"));
        assert!(!matches(b"x\\", b"x") && !matches(b"x\\", b"x\\"));
        assert!(!super::matches_path(b"/etc/*/", b"/etc/x"));
    }
}
