//! The members of the layer that is added: sorted, with the folders that are not there yet.
#![expect(
    clippy::disallowed_methods,
    reason = "what is brought lies in files of its own until it is written"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use super::SlimError;
use image_linkage::layer::LayerWriter;
use image_linkage::path::{self, RootPath};
use image_linkage::rootfs::{LookupError, NodeKind, Rootfs};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AddedMember {
    /// A file whose content lies on the host.
    Copied {
        file: PathBuf,
        bytes: u64,
        mode: u16,
    },
    /// A small file, mode 644.
    Written(Vec<u8>),
    Symlink(Vec<u8>),
    /// Something of the layers below is deleted.
    Deleted,
}

/// The members of a layer, by path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct AddedMembers {
    members: BTreeMap<RootPath, AddedMember>,
    folders: BTreeSet<RootPath>,
}

impl AddedMembers {
    /// Adds a member at `path` of the file system `rootfs`: behind the links of its folders, which stay.
    ///
    /// Errors: What stands in its way.
    pub(crate) fn add(&mut self, rootfs: &Rootfs, path: &RootPath, member: AddedMember) -> Result<RootPath, SlimError> {
        let folder = self.folder(rootfs, &path.parent())?;
        let at = folder.join(path.name());
        let there = rootfs.lookup_link(&at.absolute());
        // A file of an upper layer hides the whole folder of that name below (image-spec, layer.md).
        let is_folder = |id| matches!(rootfs.node(id).kind, NodeKind::Directory(_));
        if member != AddedMember::Deleted && there.is_ok_and(|found| is_folder(found.node)) {
            let text = format!("{at} is a folder in the image, and a file is to stand there");
            return Err(SlimError::Cannot(text));
        }
        self.members.insert(at.clone(), member);
        Ok(at)
    }

    /// The place of a folder; what is missing of it is added.
    fn folder(&mut self, rootfs: &Rootfs, wanted: &RootPath) -> Result<RootPath, SlimError> {
        // As many links as Linux follows (path_resolution(7)).
        self.folder_behind(rootfs, wanted, 40)
    }

    fn folder_behind(&mut self, rootfs: &Rootfs, wanted: &RootPath, links: usize) -> Result<RootPath, SlimError> {
        let mut at = RootPath::default();
        for name in path::split_components(wanted.as_bytes()) {
            let next = at.join(name);
            let there = rootfs.lookup_link(&next.absolute()).ok();
            let there = there.map(|found| &rootfs.node(found.node).kind);
            at = match (rootfs.lookup(&next.absolute()), there) {
                (Ok(found), _) if matches!(rootfs.node(found.node).kind, NodeKind::Directory(_)) => found.path,
                (Err(LookupError::NotFound), None) => {
                    self.folders.insert(next.clone());
                    next
                }
                // What a link leads to is made, as a builder's COPY does: the link may be there for a mount.
                (Err(LookupError::NotFound), Some(NodeKind::Symlink(target))) if links > 0 => {
                    let target = match target.first() {
                        Some(b'/') => RootPath::new(target),
                        _ => at.join(target),
                    };
                    self.folder_behind(rootfs, &target, links - 1)?
                }
                _ => {
                    let text = format!("{next} is no folder in the image, and files are to lie there");
                    return Err(SlimError::Cannot(text));
                }
            };
        }
        Ok(at)
    }

    /// Writes the members as a layer's tar.
    ///
    /// Errors: What `out` gives, or the files that are copied.
    pub(crate) fn write(&self, out: impl Write) -> io::Result<()> {
        let mut writer = LayerWriter::new(out);
        // Sorted, so that a folder comes before what lies in it.
        let mut all: BTreeMap<&RootPath, Option<&AddedMember>> = BTreeMap::new();
        all.extend(self.folders.iter().map(|path| (path, None)));
        all.extend(self.members.iter().map(|(path, member)| (path, Some(member))));
        for (path, member) in all {
            match member {
                None => writer.directory(path)?,
                Some(AddedMember::Copied { file, bytes, mode }) => {
                    writer.file(path, *mode, *bytes, File::open(file)?)?;
                }
                Some(AddedMember::Written(content)) => {
                    writer.file(path, 0o644, content.len() as u64, content.as_slice())?;
                }
                Some(AddedMember::Symlink(target)) => writer.symlink(path, target)?,
                Some(AddedMember::Deleted) => writer.whiteout(path)?,
            }
        }
        writer.end()
    }

    /// The paths of the members, without the folders.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &RootPath> {
        self.members.keys()
    }

    pub(crate) fn folders(&self) -> impl Iterator<Item = &RootPath> {
        self.folders.iter()
    }
}
