//! The nodes of a merged file system.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::layer::{AccessList, FileFacts, NodeAccess};
use crate::name_map::NameMap;
use crate::path::RootPath;

/// The ID of a node in its file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(super) u32);

/// The access rights of a directory.
pub(super) type DirectoryAccess = (NodeAccess, Option<Arc<AccessList>>);

/// The merged file system of an image.
#[derive(Debug, Clone)]
pub struct Rootfs {
    pub(super) nodes: Vec<RootfsNode>,
    /// The access rights of directories that differ from root's with mode 0755, the common case.
    pub(super) guarded: BTreeMap<NodeId, DirectoryAccess>,
    /// The hard links, with the node of the file that each was made for. That file is here, too.
    pub(super) linked: BTreeMap<NodeId, NodeId>,
}

/// A node and its layer.
#[derive(Debug, Clone)]
pub struct RootfsNode {
    /// The kind and content.
    pub kind: NodeKind,
    /// Its layer, counted from 0 at the bottom.
    pub layer: usize,
}

/// The kind of a node.
#[derive(Debug, Clone)]
pub enum NodeKind {
    /// A directory with its entries by name.
    Directory(Box<NameMap<NodeId>>),
    /// A regular file. Hard links share their facts, like an inode; equal files without kept content do, too.
    File(Arc<FileFacts>),
    /// A symbolic link with its raw target.
    Symlink(Box<[u8]>),
    /// A device, a FIFO or a socket.
    Special,
}

/// The access rights of a directory without an entry, as engines create it.
pub(super) const PLAIN_DIRECTORY: NodeAccess = NodeAccess {
    mode: 0o755,
    uid: 0,
    gid: 0,
};

/// The root directory. It always exists.
pub(super) const ROOT: NodeId = NodeId(0);

impl Default for Rootfs {
    fn default() -> Self {
        Self {
            nodes: vec![RootfsNode {
                kind: NodeKind::Directory(Box::default()),
                layer: 0,
            }],
            guarded: BTreeMap::new(),
            linked: BTreeMap::new(),
        }
    }
}

impl Rootfs {
    /// The node with an ID of this file system.
    #[expect(clippy::missing_panics_doc, reason = "the root is always there")]
    pub fn node(&self, id: NodeId) -> &RootfsNode {
        self.nodes
            .get(id.0 as usize)
            // An ID of another file system yields the root instead of a panic.
            .or(self.nodes.first())
            .expect("a file system has its root")
    }

    /// The file that a hard link was made for, which all its links share; `None` for a file without hard links.
    pub fn hard_linked(&self, id: NodeId) -> Option<NodeId> {
        self.linked.get(&id).copied()
    }

    /// The entries of a directory, sorted by name; none for other nodes.
    pub fn children(&self, id: NodeId) -> impl Iterator<Item = (&[u8], NodeId)> {
        let entries = self.entries(id).into_iter().flat_map(NameMap::iter);
        entries.map(|(name, id)| (name, *id))
    }

    /// The entries of a directory whose names start with `prefix`, sorted by name.
    pub fn children_with(&self, id: NodeId, prefix: &[u8]) -> impl Iterator<Item = (&[u8], NodeId)> {
        let entries = self
            .entries(id)
            .into_iter()
            .flat_map(|entries| entries.iter_from(prefix));
        let found = entries.take_while(move |(name, _)| name.starts_with(prefix));
        found.map(|(name, id)| (name, *id))
    }

    /// The child with this name.
    pub(crate) fn child(&self, id: NodeId, name: &[u8]) -> Option<NodeId> {
        self.entries(id)?.get(name).map(|(_, id)| *id)
    }

    /// The entries of a directory; `None` for other nodes.
    fn entries(&self, id: NodeId) -> Option<&NameMap<NodeId>> {
        match &self.node(id).kind {
            NodeKind::Directory(entries) => Some(entries),
            _ => None,
        }
    }

    /// Calls `visit` for every node below the root: parents first, sorted by name.
    pub fn visit(&self, mut visit: impl FnMut(&RootPath, NodeId, &RootfsNode)) {
        // Iterative, because a layer may nest directories deeper than the stack allows.
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

    /// The number of nodes below the root, including hidden ones.
    pub fn len(&self) -> usize {
        self.nodes.len() - 1
    }

    /// Whether the root is empty.
    pub fn is_empty(&self) -> bool {
        self.children(ROOT).next().is_none()
    }
}
