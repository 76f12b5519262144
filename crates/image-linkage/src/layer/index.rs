//! What a layer says: its entries, what it hides of the layers below, and what is odd about it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::access_list::AccessList;
use super::layer_entries::LayerEntries;
use serde::{Deserialize, Serialize};

use super::node_access::{FileCapabilities, NodeAccess};
use crate::digest::{Digest, DigestHasher};
use crate::elf::ElfFacts;
use crate::path::RootPath;

/// What one layer says: its entries and what it hides of the layers below.
///
/// The order of the tar means nothing: whiteouts and opaque marks hide lower layers only, and the last entry
/// of a path wins (image-spec, layer.md); a hard link keeps the file that stood there before it.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerIndex {
    /// The digest of the blob as stored.
    pub digest: Digest,
    /// The bytes of the blob as stored.
    pub compressed_bytes: u64,
    /// The digest of the uncompressed tar.
    pub diff_id: Digest,
    /// The bytes of the uncompressed tar.
    pub bytes: u64,
    /// What lies at each path.
    pub entries: LayerEntries,
    /// Paths of lower layers that are deleted.
    pub whiteouts: BTreeSet<RootPath>,
    /// Directories whose content in lower layers is hidden.
    pub opaque: BTreeSet<RootPath>,
    /// Damage and oddities, in the order of the stream.
    pub problems: Vec<LayerProblem>,
}

impl LayerIndex {
    /// A layer that holds nothing and was read from nothing: its digests are those of no bytes.
    pub fn empty() -> Self {
        let nothing = DigestHasher::default().finish();
        Self {
            digest: nothing.clone(),
            compressed_bytes: 0,
            diff_id: nothing,
            bytes: 0,
            entries: LayerEntries::default(),
            whiteouts: BTreeSet::new(),
            opaque: BTreeSet::new(),
            problems: Vec::new(),
        }
    }

    /// The bytes held of the paths of its entries, and of what they name.
    pub fn name_bytes(&self) -> u64 {
        let folders = self.entries.folders();
        let entries = folders.flat_map(|(folder, names)| names.iter().map(move |(name, entry)| (folder, name, entry)));
        let bytes = entries.map(|(folder, name, entry)| folder.as_bytes().len() + name.len() + entry.name_bytes());
        bytes.sum::<usize>() as u64
    }

    /// The bytes held of what its objects name.
    pub fn object_bytes(&self) -> u64 {
        self.entries.values().map(LayerEntry::object_bytes).sum::<usize>() as u64
    }

    /// The bytes held of files whose content is kept.
    pub fn kept_bytes(&self) -> u64 {
        let kept = self.entries.values().filter_map(|entry| match entry {
            LayerEntry::File(facts) => facts.kept.as_ref(),
            _ => None,
        });
        kept.map(|kept| kept.len() as u64).sum()
    }

    /// Where a hard link to `target` ends, and what the layer holds there: nothing where the file is one of a layer below.
    pub(crate) fn follow_hardlink<'l>(&'l self, mut target: &'l RootPath) -> (&'l RootPath, Option<&'l LayerEntry>) {
        for _ in 0..HARDLINK_DEPTH {
            match self.entries.get(target.as_bytes()) {
                Some(LayerEntry::Hardlink(next)) => target = next,
                found => return (target, found),
            }
        }
        (target, None)
    }
}

/// Hard links that lead to hard links are followed this far. No tar needs more than one; two that lead to each other
/// would be followed for ever.
const HARDLINK_DEPTH: usize = 40;

/// What lies at one path of a layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum LayerEntry {
    /// A directory, and who may pass it.
    Directory(NodeAccess, Option<Arc<AccessList>>),
    /// A regular file, and what was read from it.
    File(Arc<FileFacts>),
    /// A symbolic link and its target, as written.
    Symlink(#[serde(with = "serde_bytes")] Box<[u8]>),
    /// Another name for a file of this layer, or of a lower one.
    Hardlink(RootPath),
    /// A device, a FIFO or a socket.
    Special,
}

impl LayerEntry {
    /// The bytes that it holds of names, beside its path.
    pub(crate) fn name_bytes(&self) -> usize {
        let list_bytes = |list: &Option<Arc<AccessList>>| list.as_deref().map_or(0, AccessList::bytes);
        match self {
            Self::Symlink(target) => target.len(),
            // Held once more by `hard_links` of the layer that is read, beside the path.
            Self::Hardlink(target) => 3 * target.as_bytes().len(),
            // The content of kept files has a bound of its own.
            Self::File(facts) => self.object_bytes() + list_bytes(&facts.access_list),
            Self::Directory(_, list) => list_bytes(list),
            Self::Special => 0,
        }
    }

    /// The bytes among them that an object names.
    pub(crate) fn object_bytes(&self) -> usize {
        match self {
            Self::File(facts) => facts.elf.as_ref().map_or(0, |elf| elf.text_bytes()),
            _ => 0,
        }
    }
}

/// What was read from a regular file as it passed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FileFacts {
    /// The size in bytes, holes of sparse files included.
    pub bytes: u64,
    /// The permission bits, with set-user-ID and set-group-ID.
    pub mode: u16,
    /// The user that owns it.
    pub uid: u32,
    /// The group that owns it.
    pub gid: u32,
    /// What it gives the process that it is executed as.
    pub capabilities: Option<FileCapabilities>,
    /// Who else may use it.
    pub access_list: Option<Arc<AccessList>>,
    /// The facts of an ELF object; `None` for every file that does not begin with the ELF magic number.
    pub elf: Option<Box<ElfFacts>>,
    /// The whole content of a small file that a later stage reads; of a list of installed files, the lines of libraries
    /// and modules.
    #[serde(with = "serde_bytes")]
    pub kept: Option<Box<[u8]>>,
    /// The SHA-256 in hexadecimal, of files whose identity matters.
    pub sha256: Option<Box<str>>,
}

impl FileFacts {
    /// Whether no more is known than size, mode and owner. Facts of such files are shared by all that are alike.
    pub fn is_plain(&self) -> bool {
        let has_access = self.capabilities.is_some() || self.access_list.is_some();
        !has_access && self.elf.is_none() && self.kept.is_none() && self.sha256.is_none()
    }

    /// Its owner and permission bits.
    pub(crate) fn access(&self) -> NodeAccess {
        let Self { mode, uid, gid, .. } = *self;
        NodeAccess { mode, uid, gid }
    }
}

/// Damage or an oddity in a layer that does not stop the audit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerProblem {
    /// The member it concerns.
    pub path: RootPath,
    /// What is odd about it, as a sentence fragment.
    pub what: String,
    /// What it means for a verdict.
    pub kind: ProblemKind,
}

/// What a problem means for a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ProblemKind {
    /// Worth a word; everything was read.
    Odd,
    /// Something was not read that a later stage would have looked at: a gap.
    Unread,
    /// No engine unpacks the layer, so that no container is ever made of it: a gap.
    Refused,
}

/// What a blob is compared with. `None` where the source does not say.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExpectedBlob<'a> {
    /// The digest of the blob as stored.
    pub digest: Option<&'a Digest>,
    /// The size of the blob as stored, in bytes.
    pub size: Option<u64>,
    /// The digest of the uncompressed tar.
    pub diff_id: Option<&'a Digest>,
}

/// Why a layer could not be read.
#[derive(Debug, thiserror::Error)]
#[error("layer {layer}: {reason}")]
pub struct LayerError {
    /// The digest or name of the layer.
    pub layer: String,
    /// What is wrong, where, and what to do.
    pub reason: String,
}
