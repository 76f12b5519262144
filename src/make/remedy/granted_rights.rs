//! Rights on CUPTI's files that the image's user lacks.

use std::sync::Arc;

use serde::Serialize;

use crate::facts::objects::credentials::{chmod_mode, closed_places};
use crate::facts::{CuptiCopy, ImageFacts};
use crate::make::quote;
use image_linkage::layer::{FileFacts, LayerEntry, LayerIndex, NodeAccess};
use image_linkage::path::RootPath;
use image_linkage::rootfs::{FileUse, NodeKind, Rootfs};

/// A right on a file or directory for all users.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct GrantedRight {
    #[serde(serialize_with = "quote::serialize_path")]
    pub path: RootPath,
    /// As an argument of chmod(1).
    mode: &'static str,
    /// The bits that it adds to the mode.
    #[serde(skip)]
    bits: u16,
}

/// The rights that lead the user to a copy of the library and the libraries beside it; one list for each closed copy.
pub(super) fn lacking_rights(target: &ImageFacts) -> impl Iterator<Item = Vec<GrantedRight>> {
    let closed = target.copies.iter().filter(|copy| copy.denial.is_some());
    closed.map(|copy| rights_of_copy(target, copy))
}

fn rights_of_copy(target: &ImageFacts, copy: &CuptiCopy) -> Vec<GrantedRight> {
    let context = &target.contexts.as_is;
    let folder = copy.real_path.parent();
    let found = context.rootfs.lookup(&folder.absolute()).ok();
    let names = found.iter().flat_map(|found| context.rootfs.children(found.node));
    let companions = names.filter(|(name, _)| target.library.is_family(name));
    let files = companions
        .map(|(name, _)| folder.join(name))
        .chain([copy.real_path.clone()]);
    let mut rights: Vec<GrantedRight> = Vec::new();
    for file in files {
        for (path, usage) in closed_places(&context.rootfs, &context.user.credentials, &file, FileUse::Read) {
            if rights.iter().all(|right| right.path != path) {
                let (mode, bits) = (chmod_mode(usage), if usage == FileUse::Pass { 0o555 } else { 0o444 });
                rights.push(GrantedRight { path, mode, bits });
            }
        }
    }
    rights
}

/// The layer in which these files and directories have these rights.
pub(super) fn granting_layer(rootfs: &Rootfs, rights: &[GrantedRight]) -> LayerIndex {
    let mut layer = LayerIndex::empty();
    for right in rights {
        let Ok(found) = rootfs.lookup(&right.path.absolute()) else {
            continue;
        };
        let entry = match (&rootfs.node(found.node).kind, rootfs.access(found.node)) {
            (NodeKind::File(facts), _) => LayerEntry::File(Arc::new(FileFacts {
                mode: facts.mode | right.bits,
                ..(**facts).clone()
            })),
            (NodeKind::Directory(_), Some((access, _))) => {
                let mode = access.mode | right.bits;
                LayerEntry::Directory(NodeAccess { mode, ..access }, None)
            }
            _ => continue,
        };
        layer.entries.insert(&right.path, entry);
    }
    layer
}
