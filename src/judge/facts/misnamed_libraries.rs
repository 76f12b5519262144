//! Files and links whose name says another soname of CUPTI than the file has.

use super::file_owner;
use super::resolved_objects::elf_at;
use crate::knowledge::Knowledge;
use image_linkage::elf::ByteString;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, Rootfs, RootfsNode};

/// A name that is not true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MisnamedLibrary {
    /// The file or link.
    pub path: RootPath,
    /// Its layer, counted from 0 at the bottom.
    pub layer: usize,
    /// The soname that its name stands for.
    pub says: ByteString,
    /// The soname of the file.
    pub soname: ByteString,
    /// The file that a link leads to; `None` for a file.
    pub target: Option<RootPath>,
}

/// The name of a node, if it is one of CUPTI and is not true. Copies that a tool brings for itself are left out.
pub(super) fn check_library_name(
    rootfs: &Rootfs,
    knowledge: &Knowledge,
    path: &RootPath,
    node: &RootfsNode,
) -> Option<MisnamedLibrary> {
    let library = knowledge.library;
    if !library.is_name(path.name()) || file_owner::is_private_copy(knowledge.tables, path) {
        return None;
    }
    let target = rootfs.lookup(&path.absolute()).ok()?.path;
    let soname = elf_at(rootfs, path)?
        .soname
        .clone()
        // The soname of another library says nothing of which CUPTI this is.
        .filter(|soname| library.is_name(soname))?;
    // `libcupti.so.2024.1.1` names a release of CUPTI and stands for the soname of its CUDA.
    let says = library.soname_by_name(&knowledge.tables.releases, path.name())?;
    let says = ByteString::from(says.into_bytes());
    if says == soname {
        return None;
    }
    let is_link = matches!(node.kind, NodeKind::Symlink(_));
    Some(MisnamedLibrary {
        path: path.clone(),
        layer: node.layer,
        says,
        soname,
        target: is_link.then_some(target),
    })
}
