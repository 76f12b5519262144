//! Predicts the result of `ldconfig`, as the container runtime runs it at start (glibc elf/ldconfig.c).
//!
//! Directories are searched in the order of `/etc/ld.so.conf` and its includes, then the built-in ones. The first
//! directory with a soname wins. Missing soname links are created and dangling ones removed.
//!
//! A file that includes itself is read once here. The real `ldconfig` opens it until it may open no more, and then misses
//! the subdirectories of a directory that is named first behind that include.

mod configuration;
mod glob;
mod library_names;

pub use configuration::LdSoConf;
pub use glob::{expand_pattern, matches_text};

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use elf::abi::{EM_386, EM_X86_64, ET_DYN};

use super::dynamic_loader::DynamicLoader;
use super::ld_cache::{CacheEntry, LdCache, compare_names};
use super::legacy_hwcaps;
use super::machine::Arch;
use crate::elf::{ByteString, ElfProblem};
use crate::layer::FileFacts;
use crate::rootfs::{NodeId, NodeKind, Rootfs};

/// The result of running `ldconfig`.
#[derive(Debug, Clone, Default)]
pub struct LdconfigOutcome {
    /// The cache it writes.
    pub cache: LdCache,
    /// The soname links it creates: directory, name and target.
    pub links: Vec<(NodeId, ByteString, ByteString)>,
    /// The dangling links it removes: directory and name.
    pub removed: Vec<(NodeId, ByteString)>,
    /// The same links by path, as configured.
    pub relinked: LinkChanges,
    /// The existing directories it searches, as configured.
    pub directories: Vec<ByteString>,
    /// Its warnings, and limits that the configuration exceeds.
    pub problems: Vec<String>,
}

/// The links that a run changes, by path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LinkChanges {
    /// The created soname links with their targets.
    pub made: Vec<(ByteString, ByteString)>,
    /// The removed dangling links.
    pub removed: Vec<ByteString>,
}

/// The maximum number of searched directories.
const DIRECTORIES: usize = 1024;

/// Runs `ldconfig` on the file system. `directories` are those of its command line, which precede the configured ones.
pub fn run_ldconfig(rootfs: &Rootfs, linker: &DynamicLoader, mut directories: Vec<ByteString>) -> LdconfigOutcome {
    let mut out = LdconfigOutcome::default();
    let configured = LdSoConf::read(rootfs);
    directories.extend(configured.directories);
    out.problems = configured.problems;
    // `add_system_dir` follows `parse_conf`, so the configured one of two libraries with the same soname wins.
    directories.extend(built_in(linker));
    let mut run = LdconfigRun {
        rootfs: Cow::Borrowed(rootfs),
        linker,
        directories: Vec::new(),
        out,
    };
    for path in directories {
        run.add(path);
    }
    // Searching a directory may queue its hardware subdirectories.
    let mut next = 0;
    while let Some(directory) = run.directories.get(next).cloned() {
        next += 1;
        run.search(&directory);
    }
    run.out.cache.sort();
    run.out
}

/// The existing folders of cached libraries that no configuration names.
pub fn folders_of_cache(rootfs: &Rootfs, linker: &DynamicLoader) -> Vec<ByteString> {
    let node_of = |path: &[u8]| rootfs.lookup(path).ok().map(|found| found.node);
    let configured = LdSoConf::read(rootfs).directories.into_iter().chain(built_in(linker));
    let mut known: BTreeSet<NodeId> = configured.filter_map(|path| node_of(&path)).collect();
    let mut folders = Vec::new();
    let entries = linker.cache.as_deref().into_iter().flat_map(LdCache::iter);
    // Entries for better processors are in subdirectories of such folders.
    for (_, entry) in entries.filter(|(_, entry)| entry.hwcaps.is_none() && entry.hardware == 0) {
        let end = entry.path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
        let folder = entry.path.get(..end).unwrap_or_default();
        let node = node_of(folder).filter(|_| folders.len() < DIRECTORIES && node_of(&entry.path).is_some());
        if node.is_some_and(|node| known.insert(node)) {
            folders.push(folder.into());
        }
    }
    folders
}

impl LdconfigOutcome {
    /// The file system after the run. New links belong to layer `layer`.
    pub fn apply(&self, rootfs: &Rootfs, layer: usize) -> Rootfs {
        let mut changed = rootfs.clone();
        for (directory, name) in &self.removed {
            changed.remove_link(*directory, name);
        }
        for (directory, name, target) in &self.links {
            changed.add_link(*directory, name, target, layer);
        }
        changed
    }
}

/// The loader's default directories. A directory that ends in `/lib64` is preceded by its 32-bit counterpart
/// (`add_system_dir` in glibc sysdeps/unix/sysv/linux/x86_64/dl-cache.h).
fn built_in(linker: &DynamicLoader) -> Vec<ByteString> {
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

/// A directory to search.
#[derive(Debug, Clone)]
struct SearchedDirectory {
    path: ByteString,
    node: NodeId,
    /// The name of its `glibc-hwcaps` subdirectory, if it is one.
    level: Option<ByteString>,
}

/// A library in a directory, by soname.
struct DirectoryLibrary {
    name: ByteString,
    is_link: bool,
    flags: i32,
    /// The highest x86-64 level it needs; 0 is the baseline.
    isa_level: u32,
}

/// A run in progress. Links created in one directory are visible in the next.
struct LdconfigRun<'a> {
    rootfs: Cow<'a, Rootfs>,
    linker: &'a DynamicLoader,
    directories: Vec<SearchedDirectory>,
    out: LdconfigOutcome,
}

impl LdconfigRun<'_> {
    /// Adds a directory and its `glibc-hwcaps` subdirectories (`add_dir_1`).
    fn add(&mut self, path: ByteString) {
        if !self.queue(&path, None) {
            return;
        }
        let base = [&path, &b"/glibc-hwcaps"[..]].concat();
        self.out.directories.push(path);
        let Ok(found) = self.rootfs.lookup(&base) else {
            return;
        };
        // The loader separates subdirectories by colons, so a name with a colon cannot be looked up.
        let levels: Vec<ByteString> = self
            .rootfs
            .children(found.node)
            .filter(|(name, _)| !name.starts_with(b".") && !name.contains(&b':'))
            .map(|(name, _)| name.into())
            .collect();
        for level in levels {
            self.queue(&[&*base, b"/", &level].concat(), Some(level));
        }
    }

    /// Queues an existing directory unless it was queued under any path.
    fn queue(&mut self, path: &[u8], level: Option<ByteString>) -> bool {
        let Ok(found) = self.rootfs.lookup(path) else {
            return false;
        };
        // Compared by inode, as in `add_single_dir`: in most images /lib and /usr/lib are the same directory.
        let is_known = self.directories.iter().any(|known| known.node == found.node);
        let is_directory = matches!(self.rootfs.node(found.node).kind, NodeKind::Directory(_));
        if !is_directory || self.directories.len() >= DIRECTORIES || is_known {
            return false;
        }
        self.directories.push(SearchedDirectory {
            path: path.into(),
            node: found.node,
            level,
        });
        true
    }

    /// Adds the libraries of one directory (`search_dir`).
    fn search(&mut self, directory: &SearchedDirectory) {
        let names: Vec<(ByteString, NodeId)> = self
            .rootfs
            .children(directory.node)
            .map(|(name, node)| (name.into(), node))
            .collect();
        let mut libraries: BTreeMap<ByteString, DirectoryLibrary> = BTreeMap::new();
        for (name, node) in names {
            let Some((soname, candidate)) = self.candidate(directory, &name, node) else {
                continue;
            };
            match libraries.entry(soname) {
                std::collections::btree_map::Entry::Vacant(entry) => drop(entry.insert(candidate)),
                std::collections::btree_map::Entry::Occupied(mut entry) => {
                    if is_preferred(&candidate, entry.get()) {
                        entry.insert(candidate);
                    }
                }
            }
        }
        for (soname, library) in libraries {
            self.enter(directory, &soname, &library);
        }
    }

    /// The library with this name; `None` for other files. Queues a hardware subdirectory.
    fn candidate(
        &mut self,
        directory: &SearchedDirectory,
        name: &ByteString,
        node: NodeId,
    ) -> Option<(ByteString, DirectoryLibrary)> {
        let is_symlink = matches!(self.rootfs.node(node).kind, NodeKind::Symlink(_));
        let is_hardware = directory.level.is_none() && self.has_hardware(name);
        // In a `glibc-hwcaps` subdirectory, the name is only checked for regular files (`search_dir`).
        let is_odd_link = directory.level.is_some() && is_symlink;
        if !(library_names::is_library(name) || is_hardware || is_odd_link)
            || library_names::is_temporary(name, self.linker.libc)
        {
            return None;
        }
        let path = [&*directory.path, b"/", name].concat();
        let Ok(found) = self.rootfs.lookup(&path) else {
            // "Remove stale symlinks", only those with `.so.` in their name (`search_dir`).
            if is_symlink && name.windows(4).any(|part| part == b".so.") {
                self.rootfs.to_mut().remove_link(directory.node, name);
                self.out.removed.push((directory.node, name.clone()));
                self.out.relinked.removed.push(path.into());
            }
            return None;
        };
        let facts = match &self.rootfs.node(found.node).kind {
            NodeKind::File(facts) => facts,
            NodeKind::Directory(_) if is_hardware => {
                self.queue(&path, None);
                return None;
            }
            _ => return None,
        };
        let (soname, flags) = identify(facts, name, self.linker.arch)?;
        let mut is_link = is_symlink;
        // "If the path the link points to isn't its soname and it is not the .so symlink for ld(1), we treat
        // it as a normal file."
        if is_link && *name != soname {
            is_link = name.ends_with(b".so") && soname.starts_with(name);
        }
        let soname = if is_link { name.clone() } else { soname };
        let name = name.clone();
        Some((
            soname,
            DirectoryLibrary {
                name,
                is_link,
                flags,
                isa_level: isa_level(facts),
            },
        ))
    }

    /// Whether a subdirectory is searched for its hardware; none since glibc 2.37.
    fn has_hardware(&self, name: &[u8]) -> bool {
        self.linker.libc.is_glibc_before((2, 37))
            && matches!(self.linker.arch.machine, EM_386 | EM_X86_64)
            && legacy_hwcaps::capability_bit(name).is_some()
    }

    /// Creates the soname link of a library and its cache entry.
    fn enter(&mut self, directory: &SearchedDirectory, soname: &ByteString, library: &DirectoryLibrary) {
        let plain = directory.level.is_none();
        if plain && !library.is_link {
            self.make_link(directory, &library.name, soname);
        }
        // `glibc-hwcaps` subdirectories get no links: the entry names the file itself.
        let file = if plain { soname } else { &library.name };
        let hardware = if plain && self.has_hardware(b"tls") {
            library_names::path_hardware(&directory.path)
        } else {
            0
        };
        let entry = CacheEntry {
            path: [&*directory.path, b"/", file].concat().into(),
            flags: library.flags,
            hwcaps: directory.level.clone(),
            hardware,
            isa_level: if plain { 0 } else { library.isa_level },
        };
        self.out.cache.add(soname, entry);
    }

    /// Creates the link unless it already leads to the file or a regular file is in the way (`create_links`).
    fn make_link(&mut self, directory: &SearchedDirectory, file: &ByteString, soname: &ByteString) {
        let [target, link] = [file, soname].map(|name| [&*directory.path, b"/", name].concat());
        let there = self.rootfs.child(directory.node, soname);
        // "… is not a symbolic link": a file that has another library's soname stays.
        if there.is_some_and(|node| !matches!(self.rootfs.node(node).kind, NodeKind::Symlink(_))) {
            return;
        }
        if let (Some(file), Some(there)) = (self.rootfs.file(&target), self.rootfs.file(&link))
            && std::ptr::eq(file, there)
        {
            return;
        }
        let rootfs = self.rootfs.to_mut();
        // The links of a run belong to no layer yet; [`LdconfigOutcome::apply`] sets one.
        rootfs.add_link(directory.node, soname, file, usize::MAX);
        self.out.links.push((directory.node, soname.clone(), file.clone()));
        self.out.relinked.made.push((link.into(), file.clone()));
    }
}

/// "Prefer a file to a link, otherwise check which one is newer."
fn is_preferred(candidate: &DirectoryLibrary, known: &DirectoryLibrary) -> bool {
    match (candidate.is_link, known.is_link) {
        (false, true) => true,
        (true, false) => false,
        _ => compare_names(&known.name, &candidate.name) == Ordering::Less,
    }
}

/// The highest ISA level that a library needs.
fn isa_level(facts: &FileFacts) -> u32 {
    let needed = facts.elf.as_ref().map_or(0, |elf| elf.isa_needed);
    needed.checked_ilog2().unwrap_or(0)
}

/// The soname (or the file name) and the cache flags of a library; `None` for other files and unknown processors.
fn identify(facts: &FileFacts, name: &[u8], arch: &Arch) -> Option<(ByteString, i32)> {
    // "… is not a shared object file (Type: …)" (elf/readelflib.c)
    let elf = facts.elf.as_ref().filter(|elf| elf.dynamic && elf.kind == ET_DYN)?;
    // "file … is truncated": only tables that it reads; it does not notice a truncated segment.
    let cut =
        |problem: &ElfProblem| matches!(problem, ElfProblem::Truncated { what, .. } if *what != "a loaded segment");
    if elf.problems.iter().any(cut) {
        return None;
    }
    let flags = arch.ldconfig_flags(elf)?;
    Some((elf.soname.clone().unwrap_or_else(|| name.into()), flags))
}
