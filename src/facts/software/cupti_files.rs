//! Collects the files that concern the library: copies, dangling links, headers, aliases, and objects that may request
//! it.

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

/// A link with a name of libcupti and no target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DanglingLink {
    /// The path of the link itself.
    pub path: RootPath,
    /// Its target, as stored.
    pub target: ByteString,
    /// The layer of the link.
    pub layer: usize,
    /// Why the target cannot be opened.
    pub why: String,
}

/// The files that concern CUPTI.
#[derive(Default)]
pub struct CuptiFiles {
    /// Files with a name or soname of libcupti.
    pub files: Vec<(RootPath, usize)>,
    /// Links without a target.
    pub dangling: Vec<DanglingLink>,
    /// The paths of `cupti.h`.
    pub headers: Vec<(RootPath, usize)>,
    /// Objects that need CUPTI, contain its name or are known to open it, except the copies themselves.
    pub requesters: Vec<RootPath>,
    /// Python modules and `.pth` files that contain its name.
    pub sources: Vec<RootPath>,
    /// The file names of links to it and of files that contain it, except its own names.
    pub aliases: BTreeSet<ByteString>,
    /// The absolute paths of the files and links with its name, each with its bytes reversed.
    names: BTreeSet<Vec<u8>>,
    /// Whether the image has more copies, headers or dangling links than the limit.
    pub is_cut: bool,
}

/// The maximum number of copies, of headers and of dangling links to check. Real environments have fewer than ten.
pub const JUDGED_FILES: usize = 1_000;

/// The maximum number of paths to check that share an end.
const ALIKE: usize = 8;

impl CuptiFiles {
    /// The copies for general use, without the private copies of tools.
    pub fn own(&self, knowledge: &Knowledge) -> impl Iterator<Item = &RootPath> {
        self.files.iter().map(|(path, _)| path).filter(|path| {
            !file_owner::is_private_copy(knowledge.tables, path) && !knowledge.library.is_vendored_name(path.name())
        })
    }

    /// The version numbers in the names of files and links.
    pub fn numbers(&self, library: &LibraryProfile) -> BTreeSet<String> {
        let names = self.names.iter().map(|path| {
            let name = path.split(|&byte| byte == b'/').next().unwrap_or_default();
            name.iter().rev().copied().collect::<Vec<u8>>()
        });
        names
            .filter_map(|name| library.number_of(&name).map(str::to_owned))
            .collect()
    }

    /// The files and links with its name whose path ends like this; limited to a few.
    pub fn ending_with(&self, path: &[u8]) -> Vec<ByteString> {
        let path = path.strip_prefix(b"/").unwrap_or(path);
        let end: Vec<u8> = path.iter().rev().chain(b"/").copied().collect();
        let alike = self
            .names
            .range(end.clone()..)
            .take_while(|name| name.starts_with(&end));
        alike
            .take(ALIKE)
            .map(|name| name.iter().rev().copied().collect())
            .collect()
    }
}

/// What the files of an image are compared with.
pub(crate) struct ScanCase<'c> {
    pub rootfs: &'c Arc<Rootfs>,
    pub knowledge: &'c Knowledge,
    /// The first profile that matches an object applies.
    pub profiles: &'c [ConsumerProfile],
    /// The processor, as in `uname -m`.
    pub machine: &'c str,
}

/// Adds one node of the file system if it concerns CUPTI.
pub(crate) fn add_cupti_node(case: &ScanCase<'_>, found: &mut CuptiFiles, path: &RootPath, node: &RootfsNode) {
    let (rootfs, library) = (case.rootfs, case.knowledge.library);
    if library.is_name(path.name()) && !matches!(node.kind, NodeKind::Directory(_)) {
        found.names.insert(path.absolute().into_iter().rev().collect());
    }
    match &node.kind {
        NodeKind::Symlink(target) if library.is_name(path.name()) => {
            if let Err(why) = rootfs.lookup(&path.absolute())
                // In libcupti.so → libcupti.so.12 → nothing, only the second link is dangling.
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
            // A renamed copy counts too: objects linked with it request its soname.
            if [Some(path.name()), soname]
                .into_iter()
                .flatten()
                .any(|name| library.is_request(name))
            {
                found.is_cut |= !take_judged((path.clone(), node.layer), &mut found.files);
            // A string may contain the name within a path or message; its use is determined later.
            } else if let Some(elf) = elf
                && (elf.needed.iter().any(|name| library.is_request(name))
                    || speaks_of(library, elf)
                    || opens_library(case.profiles, path))
            {
                found.requesters.push(path.clone());
            }
        }
        _ => {}
    }
}

/// Adds the file to the list to check. Returns false if the list is full.
fn take_judged<T>(file: T, judged: &mut Vec<T>) -> bool {
    let has_room = judged.len() < JUDGED_FILES;
    if has_room {
        judged.push(file);
    }
    has_room
}

/// Whether an object's strings mention the library.
fn speaks_of(library: &LibraryProfile, elf: &ElfFacts) -> bool {
    let texts = [&elf.mentions, &elf.fragments, &elf.dlopen_notes];
    texts.into_iter().flatten().any(|text| library.is_meant_in(text))
}

/// Whether the target of a link is a link itself, which is then the dangling one.
fn leads_to_link(rootfs: &Rootfs, link: &RootPath, target: &[u8]) -> bool {
    let path = if target.starts_with(b"/") {
        target.to_vec()
    } else {
        [&link.parent().absolute(), &b"/"[..], target].concat()
    };
    // Check only the next hop: each link of a chain is checked separately.
    rootfs
        .lookup_link(&path)
        .is_ok_and(|found| found.path != *link && matches!(rootfs.node(found.node).kind, NodeKind::Symlink(_)))
}

/// Whether the stored text contains the start of the library's name.
fn holds_name(library: &LibraryProfile, facts: &FileFacts) -> bool {
    let stem = library.file_stem().as_bytes();
    facts.kept.as_deref().is_some_and(|text| contains_bytes(text, stem))
}

/// The maximum length of a link chain, as in Linux (`MAXSYMLINKS`).
const CHAIN: usize = 40;

/// The other file names under which the library can be opened.
pub(crate) fn find_library_aliases(
    library: &LibraryProfile,
    found: &CuptiFiles,
    links: &[(RootPath, ByteString)],
) -> BTreeSet<ByteString> {
    let files = found.files.iter().map(|(path, _)| path.name());
    let other = files.filter(|name| !library.is_name(name));
    let mut aliases: BTreeSet<ByteString> = other.map(Into::into).collect();
    for _ in 0..CHAIN {
        let before = aliases.len();
        // Compare names only: the loader resolves the links when an object opens one.
        for (link, target) in links {
            let target = last_part(target);
            if !library.is_name(link.name()) && (library.is_name(target) || aliases.contains(target)) {
                aliases.insert(link.name().into());
            }
        }
        if aliases.len() == before {
            break;
        }
    }
    aliases
}

/// The objects with such a name as a string, without the library's own files.
pub(crate) fn alias_holders(
    aliases: &BTreeSet<ByteString>,
    found: &CuptiFiles,
    objects: &[(RootPath, Arc<FileFacts>)],
) -> Vec<RootPath> {
    if aliases.is_empty() {
        return Vec::new();
    }
    let own: BTreeSet<&RootPath> = found.files.iter().map(|(path, _)| path).collect();
    let mut holders = Vec::new();
    for (path, facts) in objects {
        let mut texts = facts.elf.iter().flat_map(|elf| &elf.mentions);
        if texts.any(|text| aliases.contains(last_part(text))) && !own.contains(path) {
            holders.push(path.clone());
        }
    }
    holders
}
