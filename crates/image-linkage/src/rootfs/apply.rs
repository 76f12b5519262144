//! Puts layers on top of each other, as overlayfs shows them (image-spec, layer.md, "Applying Changesets").
//!
//! A layer's paths are its own: a directory of a layer that meets a symbolic link below hides the link, it
//! is not redirected by it.

use std::borrow::Borrow;
use std::sync::Arc;

use super::tree::{DirectoryAccess, NodeId, NodeKind, PLAIN_DIRECTORY, ROOT, Rootfs, RootfsNode};
use crate::layer::{LayerEntry, LayerIndex, ProblemKind};
use crate::path::RootPath;

/// Something in a layer that could not be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplyProblem {
    /// The layer, counted from 0 at the bottom.
    pub layer: usize,
    /// The path it concerns.
    pub path: RootPath,
    /// What is wrong, as a sentence fragment.
    pub what: String,
    /// What it means for a verdict.
    pub kind: ProblemKind,
}

/// Applies the layers, lowest first. Those that are handed over are let go one by one.
pub fn merge_layers<L: Borrow<LayerIndex>>(layers: impl IntoIterator<Item = L>) -> (Rootfs, Vec<ApplyProblem>) {
    let mut rootfs = Rootfs::default();
    let mut problems = Vec::new();
    for (number, layer) in layers.into_iter().enumerate() {
        rootfs.apply(number, layer.borrow(), &mut problems);
    }
    (rootfs, problems)
}

impl Rootfs {
    /// The same with one more layer on top, which is counted as `number`.
    #[must_use]
    pub fn with_layer(&self, number: usize, layer: &LayerIndex) -> Self {
        let mut rootfs = self.clone();
        // What cannot be applied, such as a link to nothing, is not there, as in a layer that was read.
        rootfs.apply(number, layer, &mut Vec::new());
        rootfs
    }

    fn apply(&mut self, number: usize, layer: &LayerIndex, problems: &mut Vec<ApplyProblem>) {
        // Hard links are resolved before anything is hidden: they may lead to a file of a lower layer.
        let mut links: Vec<(RootPath, &RootPath)> = layer.entries.hard_links().collect();
        links.sort_unstable();
        let linked: Vec<(RootPath, NodeKind)> = links
            .into_iter()
            .filter_map(|(path, target)| {
                // Engines unlink what a path holds before they make the link to it.
                let kind = (path != *target).then(|| self.hardlink(layer, target)).flatten();
                if kind.is_none() {
                    let what = format!("the target {target} of the hard link is no file of this layer or of one below");
                    let path = path.clone();
                    problems.push(ApplyProblem {
                        layer: number,
                        path,
                        what,
                        kind: ProblemKind::Refused,
                    });
                }
                Some((path, kind?))
            })
            .collect();
        // Before the layer's own entries: these marks hide lower layers only (image-spec, layer.md, "Whiteouts").
        for path in &layer.opaque {
            if let Some(id) = self.marked_directory(path, number) {
                self.hide_content(id);
            }
        }
        for path in &layer.whiteouts {
            if let Some(parent) = self.marked_directory(&path.parent(), number) {
                self.remove_link(parent, path.name());
            }
        }
        for (folder, names) in layer.entries.folders() {
            let parent = self.made_directory(folder, number);
            for (name, entry) in names.iter() {
                self.place(parent, name, entry, number);
            }
        }
        for (path, kind) in linked {
            let parent = self.made_directory(&path.parent(), number);
            self.insert(parent, path.name(), RootfsNode { kind, layer: number });
        }
    }

    /// What a hard link of `layer` to `target` names: content of the same layer first.
    fn hardlink(&self, layer: &LayerIndex, target: &RootPath) -> Option<NodeKind> {
        let (path, entry) = layer.follow_hardlink(target);
        match entry {
            Some(LayerEntry::File(facts)) => return Some(NodeKind::File(Arc::clone(facts))),
            Some(LayerEntry::Symlink(to)) => return Some(NodeKind::Symlink(to.clone())),
            Some(LayerEntry::Special) => return Some(NodeKind::Special),
            // link(2) refuses a directory, so that no engine could make the link.
            Some(LayerEntry::Directory(..)) => return None,
            // Not in this layer, or a circle of links: a layer below may have the file.
            Some(LayerEntry::Hardlink(_)) | None => {}
        }
        match &self.node(self.exact(path)?).kind {
            NodeKind::Directory(_) => None,
            kind => Some(kind.clone()),
        }
    }

    /// The node at exactly this path: no link is followed.
    fn exact(&self, path: &RootPath) -> Option<NodeId> {
        path.split_components().try_fold(ROOT, |id, name| self.child(id, name))
    }

    fn hide_content(&mut self, id: NodeId) {
        if let Some(NodeKind::Directory(children)) = self.kind_mut(id) {
            // The nodes stay in the list, so that a number that was given out keeps its meaning.
            children.clear();
        }
    }

    /// The directory that a mark of a layer stands in, which engines make for it: where a link stands below, it is
    /// hidden and not followed (containerd, archive/tar.go, `applyNaive`; umoci unpacks into one folder and follows it).
    fn marked_directory(&mut self, path: &RootPath, layer: usize) -> Option<NodeId> {
        path.split_components().try_fold(ROOT, |at, name| {
            // What is not there below has nothing to hide.
            self.child(at, name)?;
            Some(self.directory(at, name, layer))
        })
    }

    fn place(&mut self, parent: NodeId, name: &[u8], entry: &LayerEntry, layer: usize) {
        let kind = match entry {
            LayerEntry::Directory(access, list) => {
                return self.place_directory(parent, name, (*access, list.clone()), layer);
            }
            LayerEntry::File(facts) => NodeKind::File(Arc::clone(facts)),
            LayerEntry::Symlink(target) => NodeKind::Symlink(target.clone()),
            LayerEntry::Special => NodeKind::Special,
            // Placed last.
            LayerEntry::Hardlink(_) => return,
        };
        self.insert(parent, name, RootfsNode { kind, layer });
    }

    /// A directory over another one keeps its content; mode and owner are those of the upper layer.
    fn place_directory(&mut self, parent: NodeId, name: &[u8], access: DirectoryAccess, layer: usize) {
        let id = self.directory(parent, name, layer);
        if let Some(node) = self.nodes.get_mut(id.0 as usize) {
            node.layer = layer;
        }
        if access == (PLAIN_DIRECTORY, None) {
            self.guarded.remove(&id);
        } else {
            self.guarded.insert(id, access);
        }
    }

    /// The directory at a path. A tar may leave out those on the way: engines make them, and keep what lower
    /// layers say of their modes.
    fn made_directory(&mut self, path: &RootPath, layer: usize) -> NodeId {
        let names = path.split_components();
        names.fold(ROOT, |at, name| self.directory(at, name, layer))
    }

    /// The directory of this name; whatever else stands there makes way for it.
    fn directory(&mut self, parent: NodeId, name: &[u8], layer: usize) -> NodeId {
        match self.child(parent, name) {
            Some(id) if matches!(self.node(id).kind, NodeKind::Directory(_)) => id,
            _ => self.insert(
                parent,
                name,
                RootfsNode {
                    kind: NodeKind::Directory(Box::default()),
                    layer,
                },
            ),
        }
    }

    fn insert(&mut self, parent: NodeId, name: &[u8], node: RootfsNode) -> NodeId {
        // Four thousand million nodes would be a hundred gigabytes of them.
        let id = NodeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.nodes.push(node);
        if let Some(NodeKind::Directory(children)) = self.kind_mut(parent) {
            children.insert(name, id);
        }
        id
    }

    fn kind_mut(&mut self, id: NodeId) -> Option<&mut NodeKind> {
        self.nodes.get_mut(id.0 as usize).map(|node| &mut node.kind)
    }

    /// Removes a name from a directory, as a program that runs in the container would.
    pub(crate) fn remove_link(&mut self, directory: NodeId, name: &[u8]) {
        if let Some(NodeKind::Directory(children)) = self.kind_mut(directory) {
            children.remove(name);
        }
    }

    /// Adds a symbolic link on top, as a program that runs in the container would. Its directory must be there.
    pub(crate) fn add_link(&mut self, directory: NodeId, name: &[u8], target: &[u8], layer: usize) {
        self.insert(
            directory,
            name,
            RootfsNode {
                kind: NodeKind::Symlink(target.into()),
                layer,
            },
        );
    }
}
