//! Reads a whole squashfs into the index of one layer.

use std::collections::{HashMap, HashSet};
use std::io;

use super::squashfs::{FolderPlace, Inode, InodeKind, Squashfs, damaged};
use crate::image_error::ImageError;
use crate::root_index::{RootIndex, too_many_entries};
use crate::source::OpenRequest;
use image_linkage::layer::{LayerEntry, LayerIndex, NodeAccess, read_file_facts};
use image_linkage::path::RootPath;

/// Walks the file system from its root folder. Whatever cannot be read becomes a problem of the layer.
///
/// Errors: The root folder cannot be read, or a limit is exceeded.
pub(super) fn walk_squashfs(
    what: &str,
    squashfs: &Squashfs,
    request: &OpenRequest<'_>,
) -> Result<LayerIndex, ImageError> {
    let io_error = ImageError::io(what);
    let mut walk = SquashfsWalk {
        squashfs,
        request,
        root: RootIndex::default(),
        pending: Vec::new(),
        folders: HashSet::new(),
        linked: HashMap::new(),
        entries: 0,
        name_bytes: 0,
    };
    match squashfs.inode(squashfs.root()).map_err(&io_error)?.kind {
        InodeKind::Folder(place) => walk.pending.push((RootPath::default(), place)),
        _ => return Err(io_error(damaged("its root is not a folder"))),
    }
    while let Some((folder, place)) = walk.pending.pop() {
        match walk.enter_folder(&folder, &place) {
            Ok(()) => {}
            Err(error) if folder == RootPath::default() => return Err(io_error(error)),
            Err(error) => walk.unreadable(folder, &error),
        }
        let limits = request.limits();
        if walk.entries > limits.layer_entries {
            return Err(too_many_entries(what, limits.layer_entries));
        }
        if walk.name_bytes > limits.layer_names {
            let reason = format!(
                "its names exceed the limit of {} bytes (layer-names)",
                limits.layer_names
            );
            return Err(ImageError::not_an_image(what, reason));
        }
    }
    Ok(walk.root.finish(request.limits()))
}

/// An unfinished walk.
struct SquashfsWalk<'a> {
    squashfs: &'a Squashfs,
    request: &'a OpenRequest<'a>,
    root: RootIndex,
    /// Folders to read, with their paths.
    pending: Vec<(RootPath, FolderPlace)>,
    /// The inodes of visited folders: a folder with two names would make an endless tree.
    folders: HashSet<u64>,
    /// Files with several names, by inode.
    linked: HashMap<u64, LayerEntry>,
    entries: usize,
    name_bytes: u64,
}

impl SquashfsWalk<'_> {
    /// Adds the entries of a folder. A run of names shares the block of its inodes.
    fn enter_folder(&mut self, folder: &RootPath, place: &FolderPlace) -> io::Result<()> {
        let mut names = self.squashfs.names(place)?;
        let mut left = place.bytes;
        while left > 0 {
            let count = names.number::<4>()? + 1;
            let block = names.number::<4>()?;
            names.number::<4>()?;
            // A run has at most 256 names (SQUASHFS_DIR_COUNT).
            left = left.checked_sub(12).filter(|_| count <= 256).ok_or_else(bad_folder)?;
            for _ in 0..count {
                let offset = names.number::<2>()?;
                names.number::<4>()?;
                let length = names.number::<2>()? + 1;
                let name = names.bytes(length)?;
                left = left.checked_sub(8 + length).ok_or_else(bad_folder)?;
                self.entries += 1;
                if self.is_past_limits(length) {
                    return Ok(());
                }
                self.enter(folder, &name, (block << 16) | offset)?;
            }
        }
        Ok(())
    }

    fn is_past_limits(&mut self, more: u64) -> bool {
        self.name_bytes += more;
        let limits = self.request.limits();
        self.entries > limits.layer_entries || self.name_bytes > limits.layer_names
    }

    fn enter(&mut self, folder: &RootPath, name: &[u8], inode: u64) -> io::Result<()> {
        let is_name = !name.is_empty() && !matches!(name, b"." | b"..") && !name.iter().any(|b| matches!(b, b'/' | 0));
        let path = folder.join(name);
        // The kernel finds no longer path either (`PATH_MAX`).
        if !is_name || path.as_bytes().len() > self.request.limits().path_bytes {
            return Err(bad_folder());
        }
        let entered = match self.linked.get(&inode) {
            Some(same) => {
                self.root.insert(&path, same.clone());
                Ok(())
            }
            None => self
                .squashfs
                .inode(inode)
                .and_then(|found| self.enter_inode(&path, inode, found)),
        };
        if let Err(error) = entered {
            self.unreadable(path, &error);
        }
        Ok(())
    }

    fn enter_inode(&mut self, path: &RootPath, number: u64, inode: Inode) -> io::Result<()> {
        let access = without_set_id(inode.access);
        let entry = match inode.kind {
            InodeKind::Folder(place) => {
                if !self.folders.insert(number) {
                    return Err(damaged("a folder has two names"));
                }
                self.pending.push((path.clone(), place));
                LayerEntry::Directory(access, None)
            }
            InodeKind::Symlink(target) => {
                self.name_bytes += target.len() as u64;
                LayerEntry::Symlink(target.into())
            }
            InodeKind::Special => LayerEntry::Special,
            InodeKind::File(place) => {
                let mut content = self.squashfs.content(&place);
                let index = self.request.index;
                let (mut facts, class) = read_file_facts(path, (access.mode, Some(place.bytes)), &mut content, index)?;
                (facts.uid, facts.gid) = (access.uid, access.gid);
                self.request.progress.advance(0, facts.bytes);
                let entry = self.root.enter_file(path, facts, class, self.request.limits());
                if place.is_linked {
                    self.linked.insert(number, entry);
                }
                return Ok(());
            }
        };
        self.root.insert(path, entry);
        Ok(())
    }

    fn unreadable(&mut self, path: RootPath, error: &io::Error) {
        self.root.unread(path, format!("cannot be read: {error}"));
    }
}

/// Apptainer mounts images with `nosuid`, so neither these bits nor file capabilities count.
fn without_set_id(access: NodeAccess) -> NodeAccess {
    let mode = access.mode & 0o1777;
    NodeAccess { mode, ..access }
}

fn bad_folder() -> io::Error {
    damaged("a folder holds no names")
}
