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
    /// An object that one of the program's needs.
    Library,
    /// An object that dlopen opens, or that such an object needs.
    Opened,
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

/// The end of a process at a cut that leaves a page without a byte of the file. Within its last page the rest is zero
/// to a reader (mmap(2)).
pub(super) fn truncation(elf: &ElfFacts, role: ObjectRole) -> Option<LoadRefusal> {
    let cuts = elf.problems.iter().filter_map(|problem| match problem {
        ElfProblem::Truncated { what, end, bytes } => {
            let (is_table, is_gone) = (*what != "a loaded segment", end.div_ceil(PAGE) > bytes.div_ceil(PAGE));
            Some((is_table, is_gone, problem))
        }
        _ => None,
    });
    // Every loader reads the tables, and the kernel writes zeros behind the last segment of a program; of the rest, code may
    // be cut that nobody runs.
    let is_sure = |is_table: bool| is_table || role == ObjectRole::Program;
    if let Some((.., cut)) = cuts
        .clone()
        .find(|(is_table, is_gone, _)| *is_gone && is_sure(*is_table))
    {
        return Some(LoadRefusal::Crash(format!("{cut}; the process would die of SIGBUS")));
    }
    let mut gone = cuts.clone().filter(|(_, is_gone, _)| *is_gone);
    // Of zeros in place of a table glibc dies mostly, and takes some.
    let open = gone.next().or_else(|| cuts.clone().find(|(is_table, ..)| *is_table));
    open.map(|(.., cut)| LoadRefusal::Unforetold(cut.to_string()))
}
