//! Opens a candidate file, as far as both C libraries agree.

use std::sync::Arc;

use super::trace::{LoadRefusal, TriedFile};
use crate::elf::{ElfFacts, ElfProblem};
use crate::layer::FileFacts;
use crate::path::RootPath;
use crate::rootfs::{LookupError, NodeKind, ResolvedPath, Rootfs};

/// A file that can be mapped.
#[derive(Debug, Clone)]
pub(super) struct OpenedObject {
    /// The canonical path.
    pub real_path: RootPath,
    /// The facts. The same allocation means the same inode.
    pub facts: Arc<FileFacts>,
}

/// The role of an object. The checks depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectRole {
    /// The program that the kernel maps. musl treats no role differently.
    Program,
    /// A program or library that is the loader's argument, as in `ldd`. The loader maps it.
    Argument,
    /// A dependency of the program.
    Library,
    /// Opened by dlopen, or a dependency of such an object.
    Opened,
}

/// The smallest page size of the supported processors.
const PAGE: u64 = 4096;

/// Opens `path`, resolved as `found`, and asks `verify` whether the loader would map it.
pub(super) fn open_object(
    rootfs: &Rootfs,
    path: &[u8],
    found: Result<ResolvedPath, LookupError>,
    verify: impl Fn(&FileFacts) -> TriedFile,
) -> (TriedFile, Option<OpenedObject>) {
    let found = match found {
        // Looking up the empty path yields the root here, but open(2) fails.
        Ok(_) if path.is_empty() => return (TriedFile::Missing(LookupError::NotFound), None),
        Ok(found) => found,
        Err(error) => return (TriedFile::Missing(error), None),
    };
    let facts = match &rootfs.node(found.node).kind {
        NodeKind::File(facts) => facts,
        NodeKind::Directory(_) => {
            return (TriedFile::Refused(LoadRefusal::Directory), None);
        }
        // Reading a header from a device or pipe yields too few bytes.
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

/// The refusal of a truncated object, if a whole page is missing. The rest of a partial last page reads as zeros
/// (mmap(2)).
pub(super) fn truncation(elf: &ElfFacts, role: ObjectRole) -> Option<LoadRefusal> {
    let cuts = elf.problems.iter().filter_map(|problem| match problem {
        ElfProblem::Truncated { what, end, bytes } => {
            let (is_table, is_gone) = (*what != "a loaded segment", end.div_ceil(PAGE) > bytes.div_ceil(PAGE));
            Some((is_table, is_gone, problem))
        }
        _ => None,
    });
    // All loaders read the tables, and for a program the kernel zeroes the end of the last segment. Elsewhere, missing
    // code may never run.
    let is_program = matches!(role, ObjectRole::Program | ObjectRole::Argument);
    if let Some((.., cut)) = cuts
        .clone()
        .find(|(is_table, is_gone, _)| *is_gone && (*is_table || is_program))
    {
        return Some(LoadRefusal::Crash(format!("{cut}; the process would die of SIGBUS")));
    }
    let mut gone = cuts.clone().filter(|(_, is_gone, _)| *is_gone);
    // With zeros instead of a table, glibc usually crashes but sometimes succeeds.
    let open = gone.next().or_else(|| cuts.clone().find(|(is_table, ..)| *is_table));
    open.map(|(.., cut)| LoadRefusal::Undetermined(cut.to_string()))
}
