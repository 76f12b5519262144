//! Opens a candidate, as far as both C libraries do it alike.

use std::sync::Arc;

use super::trace::{LoadRefusal, TriedFile};
use crate::elf::{ElfFacts, ElfProblem};
use crate::layer::FileFacts;
use crate::path::RootPath;
use crate::rootfs::{LookupError, NodeKind, ResolvedPath, Rootfs};

/// A file that can be mapped.
#[derive(Debug, Clone)]
pub(super) struct OpenedObject {
    /// The path without links.
    pub real_path: RootPath,
    /// The file's facts; the same allocation is the same inode.
    pub facts: Arc<FileFacts>,
}

/// What an object is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectRole {
    /// The object that is started; musl makes no difference.
    Program,
    /// An object that another needs, or that is opened.
    Library,
}

/// The smallest page of all processors here.
const PAGE: u64 = 4096;

/// Opens `path`, which led to `found`, and asks `verify` whether the loader would map the file.
pub(super) fn open_object(
    rootfs: &Rootfs,
    path: &[u8],
    found: Result<ResolvedPath, LookupError>,
    verify: impl Fn(&FileFacts) -> TriedFile,
) -> (TriedFile, Option<OpenedObject>) {
    let found = match found {
        // To look up the empty path gives the root here; open(2) finds nothing.
        Ok(_) if path.is_empty() => return (TriedFile::Missing(LookupError::NotFound), None),
        Ok(found) => found,
        Err(error) => return (TriedFile::Missing(error), None),
    };
    let facts = match &rootfs.node(found.node).kind {
        NodeKind::File(facts) => facts,
        NodeKind::Directory(_) => {
            return (TriedFile::Refused(LoadRefusal::Directory), None);
        }
        // A device or a pipe: the read of the header gives nothing that would do.
        _ => return (refused("file too short"), None),
    };
    match verify(facts) {
        TriedFile::Found => (
            TriedFile::Found,
            Some(OpenedObject {
                real_path: found.path,
                facts: Arc::clone(facts),
            }),
        ),
        other => (other, None),
    }
}

pub(super) fn refused(words: &str) -> TriedFile {
    TriedFile::Refused(LoadRefusal::Verify(words.to_owned()))
}

/// A cut that leaves a page without a byte of the file. Within its last page the rest reads as zero (mmap(2)).
pub(super) fn truncation(elf: &ElfFacts) -> Option<&ElfProblem> {
    elf.problems.iter().find(|problem| match problem {
        ElfProblem::Truncated { end, bytes, .. } => end.div_ceil(PAGE) > bytes.div_ceil(PAGE),
        _ => false,
    })
}
