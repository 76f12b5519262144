//! What `ldconfig` would make of the image, as the container runtime runs it at start (glibc elf/ldconfig.c).
//!
//! Directories come in the order of `/etc/ld.so.conf` and its includes, then the built-in ones; the first
//! directory that holds a soname wins. Missing soname links are made, dangling ones are removed.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::cache::{Cache, CacheEntry};
use super::{Arch, Linker};
use crate::elf::Bytes;
use crate::layer::FileFacts;
use crate::rootfs::{NodeId, NodeKind, Rootfs};

/// What a run of `ldconfig` leaves behind.
#[derive(Debug, Clone, Default)]
pub struct Regenerated {
    /// The cache.
    pub cache: Cache,
    /// The soname links it makes: in which directory, of which name, to which file.
    pub links: Vec<(NodeId, Bytes, Bytes)>,
    /// The directories it searches, as configured, those that are not there left out.
    pub directories: Vec<Bytes>,
    /// What it warns of, or what the image's configuration exceeds.
    pub problems: Vec<String>,
}

/// Configuration files that are included, at most.
const FILES: usize = 256;
/// Includes within includes.
const DEPTH: usize = 8;
/// Directories that are searched, at most.
const DIRECTORIES: usize = 1024;

/// Runs `ldconfig` on the file system.
pub fn regenerate(rootfs: &Rootfs, linker: &Linker) -> Regenerated {
    let mut out = Regenerated::default();
    let mut configuration = Configuration {
        rootfs,
        directories: Vec::new(),
        files: 0,
        problems: &mut out.problems,
    };
    configuration.read(b"/etc/ld.so.conf", 0);
    let mut directories = configuration.directories;
    directories.extend(built_in(linker));
    let mut seen: Vec<NodeId> = Vec::new();
    for directory in directories.into_iter().take(DIRECTORIES) {
        let Ok(found) = rootfs.lookup(&directory) else {
            continue;
        };
        if seen.contains(&found.node)
            || !matches!(rootfs.node(found.node).kind, NodeKind::Directory(_))
        {
            continue;
        }
        seen.push(found.node);
        search_directory(rootfs, &directory, found.node, None, &mut out);
        search_levels(rootfs, &directory, &mut out);
        out.directories.push(directory);
    }
    out
}

/// The file system after the links were made.
pub fn with_links(rootfs: &Rootfs, regenerated: &Regenerated, layer: usize) -> Rootfs {
    let mut changed = rootfs.clone();
    for (directory, name, target) in &regenerated.links {
        changed.add_link(*directory, name, target, layer);
    }
    changed
}

/// The loader's default directories; before one that ends in `/lib64` its 32-bit twin (`add_system_dir` in
/// glibc sysdeps/unix/sysv/linux/x86_64/dl-cache.h).
fn built_in(linker: &Linker) -> Vec<Bytes> {
    let mut directories = Vec::new();
    for directory in &linker.default_dirs {
        let directory = directory.strip_suffix(b"/").unwrap_or(directory);
        if directory.ends_with(b"/lib64") {
            directories.push(directory.strip_suffix(b"64").unwrap_or_default().into());
        }
        directories.push(directory.into());
    }
    directories
}

struct Configuration<'a> {
    rootfs: &'a Rootfs,
    directories: Vec<Bytes>,
    files: usize,
    problems: &'a mut Vec<String>,
}

impl Configuration<'_> {
    /// Reads one file (`parse_conf`): a directory a line, `include` with a pattern, `#` begins a comment.
    fn read(&mut self, path: &[u8], depth: usize) {
        self.files += 1;
        if depth > DEPTH || self.files > FILES {
            self.problems.push(format!(
                "the includes of /etc/ld.so.conf go deeper than {DEPTH} or are more than {FILES}"
            ));
            return;
        }
        let Some(content) = self.rootfs.content(path) else {
            if self.rootfs.file(path).is_some() {
                let path = crate::escape::text(path);
                self.problems.push(format!(
                    "{path} is part of the configuration of ldconfig and was not read"
                ));
            }
            return;
        };
        for line in content.split(|&byte| byte == b'\n') {
            let line = line
                .split(|&byte| byte == b'#')
                .next()
                .unwrap_or_default()
                .trim_ascii();
            if let Some(patterns) = word_after(line, b"include") {
                for pattern in patterns
                    .split(u8::is_ascii_whitespace)
                    .filter(|pattern| !pattern.is_empty())
                {
                    self.include(pattern, path, depth);
                }
            } else if !line.is_empty() && word_after(line, b"hwcap").is_none() {
                let directory = line
                    .split(|&byte| byte == b'=')
                    .next()
                    .unwrap_or_default()
                    .trim_ascii_end();
                let length = directory
                    .iter()
                    .rposition(|&byte| byte != b'/')
                    .map_or(0, |last| last + 1);
                let directory: Bytes = directory.get(..length).unwrap_or_default().into();
                if directory.starts_with(b"/") {
                    self.directories.push(directory);
                }
            }
        }
    }

    fn include(&mut self, pattern: &[u8], from: &[u8], depth: usize) {
        let base = from
            .iter()
            .rposition(|&byte| byte == b'/')
            .and_then(|at| from.get(..at))
            .unwrap_or_default();
        let pattern = if pattern.starts_with(b"/") {
            pattern.to_vec()
        } else {
            [base, b"/", pattern].concat()
        };
        let at = pattern
            .iter()
            .rposition(|&byte| byte == b'/')
            .unwrap_or_default();
        let (directory, name) = (
            pattern.get(..at).unwrap_or_default(),
            pattern.get(at + 1..).unwrap_or_default(),
        );
        let Ok(found) = self.rootfs.lookup(directory) else {
            return;
        };
        let matching: Vec<Vec<u8>> = self
            .rootfs
            .children(found.node)
            .filter(|(child, _)| {
                matches(name, child) && (!child.starts_with(b".") || name.starts_with(b"."))
            })
            .map(|(child, _)| [directory, b"/", child].concat())
            .collect();
        for file in matching {
            self.read(&file, depth + 1);
        }
    }
}

/// What follows `word` and white space.
fn word_after<'l>(line: &'l [u8], word: &[u8]) -> Option<&'l [u8]> {
    line.strip_prefix(word)
        .filter(|rest| rest.first().is_some_and(u8::is_ascii_whitespace))
        .map(<[u8]>::trim_ascii_start)
}

/// Whether `name` fits a pattern of `*` and `?` (glob(7), without classes).
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => {
            (0..=name.len()).any(|skip| matches(rest, name.get(skip..).unwrap_or_default()))
        }
        (Some((b'?', rest)), Some((_, tail))) => matches(rest, tail),
        (Some((byte, rest)), Some((first, tail))) => byte == first && matches(rest, tail),
        _ => false,
    }
}

/// A library of a directory, by soname.
struct Library {
    name: Bytes,
    is_link: bool,
    flags: i32,
}

fn search_levels(rootfs: &Rootfs, directory: &[u8], out: &mut Regenerated) {
    let base = [directory, b"/glibc-hwcaps"].concat();
    let Ok(found) = rootfs.lookup(&base) else {
        return;
    };
    for (level, _) in rootfs.children(found.node) {
        let path = [&base, &b"/"[..], level].concat();
        if let Ok(found) = rootfs.lookup(&path) {
            search_directory(rootfs, &path, found.node, Some(level), out);
        }
    }
}

/// Adds the libraries of one directory (`search_dir`).
fn search_directory(
    rootfs: &Rootfs,
    path: &[u8],
    directory: NodeId,
    level: Option<&[u8]>,
    out: &mut Regenerated,
) {
    let mut libraries: BTreeMap<(Bytes, i32), Library> = BTreeMap::new();
    for (name, node) in rootfs
        .children(directory)
        .filter(|(name, _)| is_library_name(name))
    {
        let Some(facts) = file(rootfs, &[path, b"/", name].concat()) else {
            continue;
        };
        let Some((soname, flags)) = identify(&facts, name) else {
            continue;
        };
        let mut is_link = matches!(rootfs.node(node).kind, NodeKind::Symlink(_));
        // "If the path the link points to isn't its soname and it is not the .so symlink for ld(1), we treat
        // it as a normal file."
        if is_link && *name != *soname {
            is_link = name.ends_with(b".so") && soname.starts_with(name);
        }
        let soname: Bytes = if is_link { name.into() } else { soname };
        let candidate = Library {
            name: name.into(),
            is_link,
            flags,
        };
        match libraries.entry((soname, flags)) {
            std::collections::btree_map::Entry::Vacant(entry) => drop(entry.insert(candidate)),
            std::collections::btree_map::Entry::Occupied(mut entry) => {
                if is_preferred(&candidate, entry.get()) {
                    entry.insert(candidate);
                }
            }
        }
    }
    for ((soname, _), library) in libraries {
        if level.is_none() && !library.is_link && library.name != soname {
            make_link(rootfs, directory, &library.name, &soname, out);
        }
        let file = if level.is_none() {
            &soname
        } else {
            &library.name
        };
        let path = [path, b"/", file].concat().into();
        out.cache.add(
            &soname,
            CacheEntry {
                path,
                flags: library.flags,
                hwcaps: level.map(Into::into),
                legacy: false,
            },
        );
    }
}

/// "Prefer a file to a link, otherwise check which one is newer."
fn is_preferred(candidate: &Library, known: &Library) -> bool {
    match (candidate.is_link, known.is_link) {
        (false, true) => true,
        (true, false) => false,
        _ => compare(&known.name, &candidate.name) == Ordering::Less,
    }
}

fn make_link(
    rootfs: &Rootfs,
    directory: NodeId,
    file: &Bytes,
    soname: &Bytes,
    out: &mut Regenerated,
) {
    let there = rootfs
        .child(directory, soname)
        .map(|node| &rootfs.node(node).kind);
    match there {
        Some(NodeKind::Symlink(target)) if target == file => {}
        None | Some(NodeKind::Symlink(_)) => {
            out.links.push((directory, soname.clone(), file.clone()))
        }
        // "… is not a symbolic link": it stays.
        Some(_) => {}
    }
}

fn file(rootfs: &Rootfs, path: &[u8]) -> Option<std::sync::Arc<FileFacts>> {
    match &rootfs.node(rootfs.lookup(path).ok()?.node).kind {
        NodeKind::File(facts) => Some(std::sync::Arc::clone(facts)),
        _ => None,
    }
}

/// The soname, or the file name where there is none, and the cache flags of a library; nothing for what is
/// none.
fn identify(facts: &FileFacts, name: &[u8]) -> Option<(Bytes, i32)> {
    let elf = facts
        .elf
        .as_ref()
        .filter(|elf| elf.dynamic && elf.kind == 3)?;
    let arch = Arch::of(elf)?;
    Some((
        elf.soname.clone().unwrap_or_else(|| name.into()),
        arch.cache_flags,
    ))
}

/// Whether `ldconfig` looks at a file of this name (`_dl_is_dso`, and the temporary files it skips).
fn is_library_name(name: &[u8]) -> bool {
    (name.starts_with(b"lib") || name.starts_with(b"ld-"))
        && name.windows(3).any(|part| part == b".so")
        && !name.ends_with(b".dpkg-new")
        && !name.ends_with(b".dpkg-tmp")
        && !name.windows(11).any(|part| part == b".#prelink#.")
}

/// Compares names with the numbers in them as numbers (`_dl_cache_libcmp`).
fn compare(first: &[u8], second: &[u8]) -> Ordering {
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

    use super::{compare, is_library_name, matches};

    #[test]
    fn numbers_in_names_are_compared_as_numbers() {
        assert_eq!(compare(b"libx.so.9", b"libx.so.10"), Ordering::Less);
        assert_eq!(
            compare(b"libcupti.so.2024.1.1", b"libcupti.so.2023.3.1"),
            Ordering::Greater
        );
        assert_eq!(compare(b"libx.so", b"libx.so.1"), Ordering::Less);
        assert_eq!(compare(b"libx.so.1", b"libx.so.1"), Ordering::Equal);
    }

    #[test]
    fn patterns_and_library_names() {
        assert!(matches(b"*.conf", b"000_cuda.conf"));
        assert!(!matches(b"*.conf", b"x.conf.bak"));
        assert!(matches(b"a?c*", b"abcdef"));
        assert!(is_library_name(b"libcupti.so.12"));
        assert!(!is_library_name(b"cupti.so"));
        assert!(!is_library_name(b"libcupti.a"));
    }
}
