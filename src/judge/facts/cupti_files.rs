//! The files that bear on the library: those of its name, links to none, headers, and objects that may ask for it.

use super::file_owner::{self, contains_bytes};
use crate::knowledge::{ConsumerProfile, KnowledgeTables, LibraryProfile, opens_library};
use image_linkage::elf::ByteString;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, Rootfs, RootfsNode};

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
}

impl CuptiFiles {
    /// The files that are for everybody, not for one tool alone.
    pub fn own(&self, tables: &KnowledgeTables) -> impl Iterator<Item = &RootPath> {
        self.files
            .iter()
            .map(|(path, _)| path)
            .filter(|path| !file_owner::is_private_copy(tables, path))
    }
}

/// Takes one node of the file system, if it bears on CUPTI.
pub(super) fn add_cupti_node(
    rootfs: &Rootfs,
    library: &LibraryProfile,
    profiles: &[ConsumerProfile],
    found: &mut CuptiFiles,
    path: &RootPath,
    node: &RootfsNode,
) {
    match &node.kind {
        NodeKind::Symlink(target) if library.is_name(path.name()) => {
            if let Err(why) = rootfs.lookup(&path.absolute())
                // In libcupti.so → libcupti.so.12 → nothing, the second link is the broken one.
                && !leads_to_link(rootfs, path, target)
            {
                let why = why.to_string();
                found.dangling.push(DanglingLink {
                    path: path.clone(),
                    target: target.clone(),
                    layer: node.layer,
                    why,
                });
            }
        }
        NodeKind::File(_) if path.name() == library.header.as_bytes() => {
            found.headers.push((path.clone(), node.layer));
        }
        NodeKind::File(facts) => {
            let elf = facts.elf.as_ref();
            let soname = elf.and_then(|elf| elf.soname.as_deref());
            // A renamed copy is one too: what links it asks for its soname.
            if library.is_name(path.name()) || soname.is_some_and(|name| library.is_name(name)) {
                found.files.push((path.clone(), node.layer));
            // A string may hold the name within a path or a message: what is opened by it is found out later.
            } else if let Some(elf) = elf
                && (elf.needed.iter().any(|name| library.is_request(name))
                    || elf
                        .mentions
                        .iter()
                        .any(|text| contains_bytes(text, library.stem.as_bytes()))
                    || opens_library(profiles, path))
            {
                found.askers.push(path.clone());
            }
        }
        _ => {}
    }
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
