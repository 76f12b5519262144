//! What the kernel executes of the files that commands name (execve(2)).

use super::CommandFollower;
use image_linkage::elf::{ElfFacts, ElfProblem};
use image_linkage::rootfs::{LookupError, NodeKind};

impl CommandFollower<'_> {
    /// Whether the kernel does not execute what lies at a path, which ends the command; a shell would go on, and may run
    /// an empty file as a script.
    pub(super) fn is_refused(&mut self, path: &str) -> bool {
        if !self.is_direct {
            return false;
        }
        let is_own = self.config.command.first().is_some_and(|own| own == path);
        let why = match self.rootfs.lookup(path.as_bytes()) {
            Err(LookupError::NotDirectory) => Some("not a directory".to_owned()),
            Err(LookupError::TooLong) => Some("file name too long".to_owned()),
            Err(_) => None,
            Ok(found) => match &self.rootfs.node(found.node).kind {
                NodeKind::Directory(_) => Some("is a directory".to_owned()),
                NodeKind::File(facts) if facts.bytes == 0 && is_own => {
                    Some("exec format error: it is empty".to_owned())
                }
                NodeKind::File(facts) => {
                    let fault = facts.elf.as_deref().and_then(object_fault);
                    fault.map(|fault| format!("exec format error: {fault}"))
                }
                _ => None,
            },
        };
        if let Some(why) = &why {
            self.fail(path, why);
        }
        why.is_some()
    }
}

/// Why the kernel takes an object for no program (Linux `fs/binfmt_elf.c`, `load_elf_binary`).
fn object_fault(elf: &ElfFacts) -> Option<&'static str> {
    let is_cut = |problem: &ElfProblem| match problem {
        ElfProblem::Truncated { what, .. } => ["the header", "the program headers"].contains(what),
        _ => false,
    };
    match elf.kind {
        _ if elf.problems.iter().any(is_cut) => Some("the object is cut off"),
        EXECUTABLE | MOVABLE => None,
        _ => Some("the object is no program"),
    }
}

/// `ET_EXEC` and `ET_DYN`.
const EXECUTABLE: u16 = 2;
const MOVABLE: u16 = 3;
