//! The nodes of a merged file system.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::layer::{AccessList, FileFacts, NodeAccess};
use crate::name_map::NameMap;
use crate::path::RootPath;

/// The number of a node in its file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(super) u32);

/// Who may pass and list a directory.
pub(super) type DirectoryAccess = (NodeAccess, Option<Arc<AccessList>>);

/// The merged file system of an image.
#[derive(Debug, Clone)]
pub struct Rootfs {
    pub(super) nodes: Vec<RootfsNode>,
    /// The directories that are not root's with the mode 0755, as most are.
    pub(super) guarded: BTreeMap<NodeId, DirectoryAccess>,
}

/// A node and the layer that brought it.
#[derive(Debug, Clone)]
pub struct RootfsNode {
    /// What the node is.
    pub kind: NodeKind,
    /// The layer it comes from, counted from 0 at the bottom.
    pub layer: usize,
}

/// What a node is.
#[derive(Debug, Clone)]
pub enum NodeKind {
    /// A directory and what it holds, by name.
    Directory(Box<NameMap<NodeId>>),
    /// A regular file. Hard links share their facts, as they share an inode; so do plain files that are alike.
    File(Arc<FileFacts>),
    /// A symbolic link and its target, as written.
    Symlink(Box<[u8]>),
    /// A device, a FIFO or a socket.
    Special,
}

/// Who owns a directory of which nothing else is said, as engines make those that a layer leaves out.
pub(super) const PLAIN_DIRECTORY: NodeAccess = NodeAccess {
    mode: 0o755,
    uid: 0,
    gid: 0,
};

/// The root directory, which is always there.
pub(super) const ROOT: NodeId = NodeId(0);

impl Default for Rootfs {
    fn default() -> Self {
        Self {
            nodes: vec![RootfsNode {
                kind: NodeKind::Directory(Box::default()),
                layer: 0,
            }],
            guarded: BTreeMap::new(),
        }
    }
}

impl Rootfs {
    /// The node of a number that this file system gave out.
    #[expect(clippy::missing_panics_doc, reason = "the root is always there")]
    pub fn node(&self, id: NodeId) -> &RootfsNode {
        self.nodes
            .get(id.0 as usize)
            // The number of another file system gives the root instead of a panic.
            .or(self.nodes.first())
            .expect("a file system has its root")
    }

    /// What a directory holds, sorted by name; nothing for a node that is no directory.
    pub fn children(&self, id: NodeId) -> impl Iterator<Item = (&[u8], NodeId)> {
        let children = match &self.node(id).kind {
            NodeKind::Directory(children) => Some(children.iter()),
            _ => None,
        };
        children.into_iter().flatten().map(|(name, id)| (name, *id))
    }

    /// The child of this name.
    pub(crate) fn child(&self, id: NodeId, name: &[u8]) -> Option<NodeId> {
        match &self.node(id).kind {
            NodeKind::Directory(children) => children.get(name).map(|(_, id)| *id),
            _ => None,
        }
    }

    /// Calls `visit` with every node below the root, parents first, sorted by name within a directory.
    pub fn visit(&self, mut visit: impl FnMut(&RootPath, NodeId, &RootfsNode)) {
        // A list and no recursion: a layer may nest directories deeper than a stack goes.
        let mut pending = vec![(RootPath::default(), ROOT)];
        while let Some((path, id)) = pending.pop() {
            if id != ROOT {
                visit(&path, id, self.node(id));
            }
            let below: Vec<_> = self
                .children(id)
                .map(|(name, child)| (path.child(name), child))
                .collect();
            pending.extend(below.into_iter().rev());
        }
    }

    /// The number of nodes below the root, those hidden by later layers included.
    pub fn len(&self) -> usize {
        self.nodes.len() - 1
    }

    /// Whether nothing lies below the root.
    pub fn is_empty(&self) -> bool {
        self.children(ROOT).next().is_none()
    }
}
