//! The content of a layer: its entries, whiteouts and problems.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::access_list::AccessList;
use super::layer_entries::LayerEntries;
use serde::{Deserialize, Serialize};

use super::node_access::{FileCapabilities, NodeAccess};
use crate::digest::{Digest, DigestHasher};
use crate::elf::ElfFacts;
use crate::path::RootPath;

/// The content of one layer: its entries, and what it hides of lower layers.
///
/// The order of the tar does not matter. Whiteouts and opaque markers hide only lower layers, and the last entry of a
/// path wins (image-spec, layer.md). A hard link keeps the file that its target was when the link was added.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerIndex {
    /// The digest of the stored blob.
    pub digest: Digest,
    /// The size of the stored blob in bytes.
    pub compressed_bytes: u64,
    /// The digest of the uncompressed tar.
    pub diff_id: Digest,
    /// The size of the uncompressed tar in bytes.
    pub bytes: u64,
    /// The entry at each path.
    pub entries: LayerEntries,
    /// The deleted paths of lower layers.
    pub whiteouts: BTreeSet<RootPath>,
    /// The directories whose lower content is hidden.
    pub opaque: BTreeSet<RootPath>,
    /// Damage and oddities, in stream order.
    pub problems: Vec<LayerProblem>,
}

impl LayerIndex {
    /// An empty layer. Its digests are those of an empty input.
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

    /// The bytes of the entries' paths and of the names in their facts.
    pub fn name_bytes(&self) -> u64 {
        let folders = self.entries.folders();
        let entries = folders.flat_map(|(folder, names)| names.iter().map(move |(name, entry)| (folder, name, entry)));
        let bytes = entries.map(|(folder, name, entry)| folder.as_bytes().len() + name.len() + entry.name_bytes());
        bytes.sum::<usize>() as u64
    }

    /// The bytes of the names in the facts of objects.
    pub fn object_bytes(&self) -> u64 {
        self.entries.values().map(LayerEntry::object_bytes).sum::<usize>() as u64
    }

    /// The bytes of kept file content.
    pub fn kept_bytes(&self) -> u64 {
        let kept = self.entries.values().filter_map(|entry| match entry {
            LayerEntry::File(facts) => facts.kept.as_ref(),
            _ => None,
        });
        kept.map(|kept| kept.len() as u64).sum()
    }

    /// Follows a hard link. Returns its final target and the entry there; `None` if a lower layer has the file.
    pub fn follow_hardlink<'l>(&'l self, mut target: &'l RootPath) -> (&'l RootPath, Option<&'l LayerEntry>) {
        for _ in 0..HARDLINK_DEPTH {
            match self.entries.get(target.as_bytes()) {
                Some(LayerEntry::Hardlink(next)) => target = next,
                found => return (target, found),
            }
        }
        (target, None)
    }
}

/// The maximum length of a hard link chain. Tars need one; two links to each other would never end.
const HARDLINK_DEPTH: usize = 40;

/// The entry at one path of a layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum LayerEntry {
    /// A directory with its access rights.
    Directory(NodeAccess, Option<Arc<AccessList>>),
    /// A regular file with its facts.
    File(Arc<FileFacts>),
    /// A symbolic link with its raw target.
    Symlink(#[serde(with = "serde_bytes")] Box<[u8]>),
    /// A hard link to a file of this layer or a lower one.
    Hardlink(RootPath),
    /// A device, a FIFO or a socket.
    Special,
}

impl LayerEntry {
    /// The bytes of names in memory, without the path.
    pub(crate) fn name_bytes(&self) -> usize {
        match self {
            Self::Symlink(target) => target.len(),
            // Also stored in `hard_links` while the layer is read.
            Self::Hardlink(target) => 3 * target.as_bytes().len(),
            // Kept content has its own limit.
            Self::File(facts) => self.object_bytes() + facts.access_list.as_deref().map_or(0, AccessList::bytes),
            Self::Directory(_, list) => list.as_deref().map_or(0, AccessList::bytes),
            Self::Special => 0,
        }
    }

    /// The part of these bytes that comes from objects.
    pub(crate) fn object_bytes(&self) -> usize {
        match self {
            Self::File(facts) => facts.elf.as_ref().map_or(0, |elf| elf.text_bytes()),
            _ => 0,
        }
    }
}

/// The facts of a regular file.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FileFacts {
    /// The size in bytes, including holes of sparse files.
    pub bytes: u64,
    /// The permission bits, including set-user-ID and set-group-ID.
    pub mode: u16,
    /// The owning user.
    pub uid: u32,
    /// The owning group.
    pub gid: u32,
    /// The file capabilities.
    pub capabilities: Option<FileCapabilities>,
    /// The access control list.
    pub access_list: Option<Arc<AccessList>>,
    /// The ELF facts; `None` for files without the ELF magic number.
    pub elf: Option<Box<ElfFacts>>,
    /// The content of a small file for later stages. Lists of installed files are reduced to libraries and modules.
    #[serde(with = "serde_bytes")]
    pub kept: Option<Box<[u8]>>,
    /// The hexadecimal SHA-256, for files whose identity matters.
    pub sha256: Option<Box<str>>,
    /// The words to note that the file contains, sorted.
    pub noted_words: Box<[Box<str>]>,
}

impl FileFacts {
    /// Whether only size, mode and owner are known. Equal files share such facts.
    pub fn is_plain(&self) -> bool {
        let has_access = self.capabilities.is_some() || self.access_list.is_some();
        let has_content = self.elf.is_some() || self.kept.is_some() || self.sha256.is_some();
        !has_access && !has_content && self.noted_words.is_empty()
    }

    /// The owner and permission bits.
    pub(crate) fn access(&self) -> NodeAccess {
        let Self { mode, uid, gid, .. } = *self;
        NodeAccess { mode, uid, gid }
    }
}

/// Damage or an oddity that does not stop the audit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerProblem {
    /// The affected member.
    pub path: RootPath,
    /// The description, as a sentence fragment.
    pub what: String,
    /// The effect on a verdict.
    pub kind: ProblemKind,
}

/// The effect of a problem on a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ProblemKind {
    /// Informational; everything was read.
    Odd,
    /// A file was not read that a later stage needs: a gap.
    Unread,
    /// No engine can unpack the layer, so no container can exist: a gap.
    Refused,
    /// This host denies access to a path, so its content, and what is below it, is unknown: a gap that leaves every
    /// result open.
    Hidden,
}

/// The expected identity of a blob. `None` if the source does not know it.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExpectedBlob<'a> {
    /// The digest of the stored blob.
    pub digest: Option<&'a Digest>,
    /// The size of the stored blob in bytes.
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
    /// The problem, its place, and a remedy.
    pub reason: String,
}
