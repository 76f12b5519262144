//! Merges layers like overlayfs (image-spec, layer.md, "Applying Changesets").
//!
//! A layer's directory replaces a symbolic link of a lower layer; it is not redirected by it.

use std::borrow::Borrow;
use std::sync::Arc;

use super::tree::{DirectoryAccess, NodeId, NodeKind, PLAIN_DIRECTORY, ROOT, Rootfs, RootfsNode};
use crate::layer::{LayerEntry, LayerIndex, ProblemKind};
use crate::path::RootPath;

/// A part of a layer that could not be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplyProblem {
    /// The layer, counted from 0 at the bottom.
    pub layer: usize,
    /// The affected path.
    pub path: RootPath,
    /// The description, as a sentence fragment.
    pub what: String,
    /// The effect on a verdict.
    pub kind: ProblemKind,
}

/// Applies the layers, lowest first. Owned layers are dropped one by one.
pub fn merge_layers<L: Borrow<LayerIndex>>(layers: impl IntoIterator<Item = L>) -> (Rootfs, Vec<ApplyProblem>) {
    let mut rootfs = Rootfs::default();
    let mut problems = Vec::new();
    for (number, layer) in layers.into_iter().enumerate() {
        rootfs.apply(number, layer.borrow(), &mut problems);
    }
    (rootfs, problems)
}

/// The target of a hard link.
struct LinkedFile<'l> {
    kind: NodeKind,
    /// Its path, if it is in the same layer.
    own: &'l RootPath,
    /// Its node, if it is in a lower layer.
    below: Option<NodeId>,
}

impl Rootfs {
    /// Adds one more layer on top, with index `number`.
    #[must_use]
    pub fn with_layer(&self, number: usize, layer: &LayerIndex) -> Self {
        let mut rootfs = self.clone();
        // Ignore entries that cannot be applied, such as a broken hard link.
        rootfs.apply(number, layer, &mut Vec::new());
        rootfs
    }

    fn apply(&mut self, number: usize, layer: &LayerIndex, problems: &mut Vec<ApplyProblem>) {
        // Resolve hard links before anything is hidden: they may refer to a file of a lower layer.
        let mut links: Vec<(RootPath, &RootPath)> = layer.entries.hard_links().collect();
        links.sort_unstable();
        let linked: Vec<(RootPath, LinkedFile<'_>)> = links
            .into_iter()
            .filter_map(|(path, target)| {
                // Engines remove the old file at a path before they create the link.
                let file = (path != *target).then(|| self.hardlink(layer, target)).flatten();
                if file.is_none() {
                    let what = format!("the hard link target {target} is not a file in this layer or a lower one");
                    let path = path.clone();
                    problems.push(ApplyProblem {
                        layer: number,
                        path,
                        what,
                        kind: ProblemKind::Refused,
                    });
                }
                Some((path, file?))
            })
            .collect();
        // Before the layer's own entries, because whiteouts hide only lower layers (image-spec, layer.md, "Whiteouts").
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
        for (path, LinkedFile { kind, own, below }) in linked {
            let parent = self.made_directory(&path.parent(), number);
            let link = self.insert(parent, path.name(), RootfsNode { kind, layer: number });
            if let Some(file) = below.or_else(|| self.exact(own)) {
                let file = self.hard_linked(file).unwrap_or(file);
                self.linked.extend([(file, file), (link, file)]);
            }
        }
    }

    /// The target of a hard link: first in the same layer, then below.
    fn hardlink<'l>(&self, layer: &'l LayerIndex, target: &'l RootPath) -> Option<LinkedFile<'l>> {
        let (own, entry) = layer.follow_hardlink(target);
        let (kind, below) = match entry {
            Some(LayerEntry::File(facts)) => (NodeKind::File(Arc::clone(facts)), None),
            Some(LayerEntry::Symlink(to)) => (NodeKind::Symlink(to.clone()), None),
            Some(LayerEntry::Special) => (NodeKind::Special, None),
            // link(2) fails for a directory.
            Some(LayerEntry::Directory(..)) => return None,
            // Not in this layer, or a cycle: a lower layer may have the file.
            Some(LayerEntry::Hardlink(_)) | None => {
                let below = self.exact(own)?;
                match &self.node(below).kind {
                    NodeKind::Directory(_) => return None,
                    kind => (kind.clone(), Some(below)),
                }
            }
        };
        Some(LinkedFile { kind, own, below })
    }

    /// The node at this path, without following links.
    fn exact(&self, path: &RootPath) -> Option<NodeId> {
        path.split_components().try_fold(ROOT, |id, name| self.child(id, name))
    }

    fn hide_content(&mut self, id: NodeId) {
        if let Some(NodeKind::Directory(children)) = self.kind_mut(id) {
            // Nodes stay in the list, so their IDs stay valid.
            children.clear();
        }
    }

    /// The directory of a whiteout or opaque marker, created like engines do: a link of a lower layer is replaced, not
    /// followed (containerd, archive/tar.go, `applyNaive`; umoci unpacks into one directory and follows it).
    fn marked_directory(&mut self, path: &RootPath, layer: usize) -> Option<NodeId> {
        path.split_components().try_fold(ROOT, |at, name| {
            // A missing directory has nothing to hide.
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
            // Placed after all other entries.
            LayerEntry::Hardlink(_) => return,
        };
        self.insert(parent, name, RootfsNode { kind, layer });
    }

    /// A directory keeps the content of the lower one but gets the upper layer's mode and owner.
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

    /// The directory at a path, created if the tar omits it. Existing modes are kept, as engines do.
    fn made_directory(&mut self, path: &RootPath, layer: usize) -> NodeId {
        let names = path.split_components();
        names.fold(ROOT, |at, name| self.directory(at, name, layer))
    }

    /// The directory with this name. Replaces anything else.
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
        // Four billion nodes would need a hundred gigabytes.
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

    /// Removes a name, as a process in the container would.
    pub(crate) fn remove_link(&mut self, directory: NodeId, name: &[u8]) {
        if let Some(NodeKind::Directory(children)) = self.kind_mut(directory) {
            children.remove(name);
        }
    }

    /// Adds a symbolic link, as a process in the container would. The directory must exist.
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
