//! The files that bear on the library: those of its name, links to none, headers, other names that lead to it,
//! and objects that may ask for it.

use crate::byte_search::{contains_bytes, last_part};
use crate::facts::software::file_owner;
use crate::knowledge::{ConsumerProfile, Knowledge, LibraryProfile, opens_library};
use image_linkage::elf::{ByteString, ElfFacts};
use image_linkage::layer::FileFacts;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{LookupError, NodeKind, Rootfs, RootfsNode};
use python_path::is_source;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A link named as libcupti that leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DanglingLink {
    /// The path of the link itself.
    pub path: RootPath,
    /// Its target, as written.
    pub target: ByteString,
    /// The layer of the link.
    pub layer: usize,
    /// Why it leads nowhere.
    pub why: String,
}

/// The files that bear on CUPTI.
#[derive(Default)]
pub struct CuptiFiles {
    /// Files named as libcupti, or with its soname.
    pub files: Vec<(RootPath, usize)>,
    /// Links that lead nowhere.
    pub dangling: Vec<DanglingLink>,
    /// The places of `cupti.h`.
    pub headers: Vec<(RootPath, usize)>,
    /// Objects that need CUPTI, hold its name or are known to open it, the copies left out.
    pub askers: Vec<RootPath>,
    /// Modules and `.pth` files of Python that hold its name.
    pub sources: Vec<RootPath>,
    /// The file names of links to it and of files that hold it, but for those of its own name.
    pub aliases: BTreeSet<ByteString>,
    /// The absolute paths of the files and links of its name, each from its last byte to its first.
    names: BTreeSet<Vec<u8>>,
    /// Whether there are more copies, headers or dangling links than are judged.
    pub is_cut: bool,
}

/// Copies, headers and dangling links that are judged, of each at most: the environments seen have less than ten.
pub const JUDGED_FILES: usize = 1_000;

/// The paths that are looked at of those that end alike.
const ALIKE: usize = 8;

impl CuptiFiles {
    /// The files that are for everybody, not for one tool alone.
    pub fn own(&self, knowledge: &Knowledge) -> impl Iterator<Item = &RootPath> {
        self.files.iter().map(|(path, _)| path).filter(|path| {
            !file_owner::is_private_copy(knowledge.tables, path) && !knowledge.library.is_vendored_name(path.name())
        })
    }

    /// The numbers in the names of files and links.
    pub fn numbers(&self, library: &LibraryProfile) -> BTreeSet<String> {
        let names = self.names.iter().map(|path| {
            let name = path.split(|&byte| byte == b'/').next().unwrap_or_default();
            name.iter().rev().copied().collect::<Vec<u8>>()
        });
        names
            .filter_map(|name| library.number_of(&name).map(str::to_owned))
            .collect()
    }

    /// The files and links of its name that lie at this path below some folder; a few of many.
    pub fn ending_with(&self, path: &[u8]) -> Vec<ByteString> {
        let path = path.strip_prefix(b"/").unwrap_or(path);
        let end: Vec<u8> = path.iter().rev().chain(b"/").copied().collect();
        let alike = self
            .names
            .range(end.clone()..)
            .take_while(|name| name.starts_with(&end));
        let forward = |name: &Vec<u8>| name.iter().rev().copied().collect();
        alike.take(ALIKE).map(forward).collect()
    }
}

/// Takes one node of the file system, if it bears on CUPTI.
pub(crate) fn add_cupti_node(
    rootfs: &Rootfs,
    library: &LibraryProfile,
    profiles: &[ConsumerProfile],
    found: &mut CuptiFiles,
    path: &RootPath,
    node: &RootfsNode,
) {
    if library.is_name(path.name()) && !matches!(node.kind, NodeKind::Directory(_)) {
        found.names.insert(path.absolute().into_iter().rev().collect());
    }
    match &node.kind {
        NodeKind::Symlink(target) if library.is_name(path.name()) => {
            if let Err(why) = rootfs.lookup(&path.absolute())
                // In libcupti.so → libcupti.so.12 → nothing, the second link is the broken one.
                && (why == LookupError::Loop || !leads_to_link(rootfs, path, target))
            {
                let why = why.to_string();
                let (path, target, layer) = (path.clone(), target.clone(), node.layer);
                let link = DanglingLink {
                    path,
                    target,
                    layer,
                    why,
                };
                found.is_cut |= !take_judged(link, &mut found.dangling);
            }
        }
        NodeKind::File(_) if path.name() == library.header.as_bytes() => {
            found.is_cut |= !take_judged((path.clone(), node.layer), &mut found.headers);
        }
        NodeKind::File(facts) if is_source(path.name()) && holds_name(library, facts) => {
            found.sources.push(path.clone());
        }
        NodeKind::File(facts) => {
            let elf = facts.elf.as_ref();
            let soname = elf.and_then(|elf| elf.soname.as_deref());
            // A renamed copy is one too: what links it asks for its soname.
            if [Some(path.name()), soname]
                .into_iter()
                .flatten()
                .any(|name| library.is_request(name))
            {
                found.is_cut |= !take_judged((path.clone(), node.layer), &mut found.files);
            // A string may hold the name within a path or a message: what is opened by it is found out later.
            } else if let Some(elf) = elf
                && (elf.needed.iter().any(|name| library.is_request(name))
                    || speaks_of(library, elf)
                    || opens_library(profiles, path))
            {
                found.askers.push(path.clone());
            }
        }
        _ => {}
    }
}

/// Takes the file among those that are judged; whether there was room for it.
fn take_judged<T>(file: T, judged: &mut Vec<T>) -> bool {
    let has_room = judged.len() < JUDGED_FILES;
    if has_room {
        judged.push(file);
    }
    has_room
}

/// Whether an object holds anything that speaks of the library.
fn speaks_of(library: &LibraryProfile, elf: &ElfFacts) -> bool {
    let texts = [&elf.mentions, &elf.fragments, &elf.dlopen_notes];
    texts.into_iter().flatten().any(|text| library.is_meant_in(text))
}

/// Whether the target of a link is a link itself: that one is then the broken one.
fn leads_to_link(rootfs: &Rootfs, link: &RootPath, target: &[u8]) -> bool {
    let path = if target.starts_with(b"/") {
        target.to_vec()
    } else {
        [&link.parent().absolute(), &b"/"[..], target].concat()
    };
    // Only the next hop is looked at: each link of a chain answers for itself.
    rootfs
        .lookup_link(&path)
        .is_ok_and(|found| found.path != *link && matches!(rootfs.node(found.node).kind, NodeKind::Symlink(_)))
}

/// Whether a text that was kept holds the beginning of the library's name.
fn holds_name(library: &LibraryProfile, facts: &FileFacts) -> bool {
    let stem = library.file_stem().as_bytes();
    facts.kept.as_deref().is_some_and(|text| contains_bytes(text, stem))
}

/// The links that may lead to another link, at most: those of a chain that Linux follows (`MAXSYMLINKS`).
const CHAIN: usize = 40;

/// The file names under which the library can be opened, but for its own.
pub(crate) fn find_library_aliases(
    library: &LibraryProfile,
    found: &CuptiFiles,
    links: &[(RootPath, ByteString)],
) -> BTreeSet<ByteString> {
    let is_alias = |name: &&[u8]| !library.is_name(name);
    let files = found.files.iter().map(|(path, _)| path.name()).filter(is_alias);
    let mut aliases: BTreeSet<ByteString> = files.map(Into::into).collect();
    for _ in 0..CHAIN {
        let before = aliases.len();
        // By names alone: where a link leads is asked of the loader, by whoever opens it.
        for (link, target) in links {
            let target = last_part(target);
            if is_alias(&link.name()) && (library.is_name(target) || aliases.contains(target)) {
                aliases.insert(link.name().into());
            }
        }
        if aliases.len() == before {
            break;
        }
    }
    aliases
}

/// The objects that hold such a name as a string; none of the library's own files.
pub(crate) fn alias_holders(
    aliases: &BTreeSet<ByteString>,
    found: &CuptiFiles,
    objects: &[(RootPath, Arc<FileFacts>)],
) -> Vec<RootPath> {
    if aliases.is_empty() {
        return Vec::new();
    }
    let own: BTreeSet<&RootPath> = found.files.iter().map(|(path, _)| path).collect();
    let holds = |(path, facts): &&(RootPath, Arc<FileFacts>)| {
        let mut texts = facts.elf.iter().flat_map(|elf| &elf.mentions);
        texts.any(|text| aliases.contains(last_part(text))) && !own.contains(path)
    };
    objects.iter().filter(holds).map(|(path, _)| path.clone()).collect()
}
