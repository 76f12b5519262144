//! Opens a candidate and checks what the loader checks before it maps it (glibc elf/dl-load.c,
//! `open_verify` and `_dl_map_object_from_fd`), in the loader's words.

use std::sync::Arc;

use super::{Arch, DynamicLoader, Libc, LoadRefusal, TriedFile, musl};
use crate::elf::{ElfFacts, ElfProblem};
use crate::layer::FileFacts;
use crate::path::RootPath;
use crate::rootfs::{LookupError, NodeKind, Rootfs};

/// A file that can be mapped.
#[derive(Debug, Clone)]
pub struct OpenedObject {
    /// The path without links.
    pub real_path: RootPath,
    /// The file's facts; the same allocation is the same inode.
    pub facts: Arc<FileFacts>,
}

/// What an object is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectRole {
    /// The object that is started; musl makes no difference.
    Program,
    /// An object that another needs, or that is opened.
    Library,
}

/// The size of a 64-bit ELF header; shorter files are "too short".
const HEADER: [u64; 3] = [0, 52, 64];

/// The smallest page.
const PAGE: u64 = 4096;

/// Opens `path` in a process of this loader.
pub fn open_object(
    rootfs: &Rootfs,
    path: &[u8],
    linker: &DynamicLoader,
    role: ObjectRole,
) -> (TriedFile, Option<OpenedObject>) {
    let found = match rootfs.lookup(path) {
        Ok(_) if path.is_empty() => return (TriedFile::Missing(LookupError::NotFound), None),
        Ok(found) => found,
        Err(error) => return (TriedFile::Missing(error), None),
    };
    let facts = match &rootfs.node(found.node).kind {
        NodeKind::File(facts) => facts,
        NodeKind::Directory(_) => {
            return (TriedFile::Refused(LoadRefusal::Directory), None);
        }
        _ => return (refused("file too short"), None),
    };
    let tried = match linker.libc {
        Libc::Glibc(_) => verify(facts, linker, role),
        Libc::Musl => musl::verify_object(facts, linker),
    };
    match tried {
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

fn verify(facts: &FileFacts, linker: &DynamicLoader, role: ObjectRole) -> TriedFile {
    let arch = linker.arch;
    let header = HEADER.get(usize::from(arch.class)).copied().unwrap_or(64);
    if facts.bytes < header {
        return refused("file too short");
    }
    let Some(elf) = &facts.elf else {
        return refused("invalid ELF header");
    };
    if elf.class() != arch.class {
        return TriedFile::WrongClass;
    }
    // Debian's and Ubuntu's loaders look at the processor first (unsubmitted-ldso-machine-mismatch.diff).
    let [_, _, _, _, _, data, ..] = elf.ident;
    if linker.is_debian && (elf.machine != arch.machine || data != arch.data) {
        return TriedFile::WrongMachine;
    }
    if let Some(words) = ident(elf, arch) {
        return refused(words);
    }
    if elf.machine != arch.machine {
        return TriedFile::WrongMachine;
    }
    mapping(elf, role).map_or(TriedFile::Found, TriedFile::Refused)
}

fn refused(words: &str) -> TriedFile {
    TriedFile::Refused(LoadRefusal::Verify(words.to_owned()))
}

/// What `open_verify` says of the identification, and of the version.
fn ident(elf: &ElfFacts, arch: &Arch) -> Option<&'static str> {
    let [
        _,
        _,
        _,
        _,
        _,
        data,
        version,
        osabi,
        abiversion,
        padding @ ..,
    ] = elf.ident;
    let words = match () {
        () if data != arch.data && arch.data == 1 => "ELF file data encoding not little-endian",
        () if data != arch.data => "ELF file data encoding not big-endian",
        () if version != 1 => "ELF file version ident does not match current one",
        () if osabi != 0 && osabi != 3 => "ELF file OS ABI invalid",
        () if abiversion != 0 && (osabi != 3 || abiversion > 4) => "ELF file ABI version invalid",
        () if padding.iter().any(|&byte| byte != 0) => "nonzero padding in e_ident",
        () if elf.version != 1 => "ELF file version does not match current one",
        () => return None,
    };
    Some(words)
}

/// What is said of an object that is for this processor and still cannot be mapped: first `open_verify`, then
/// `_dl_map_object_from_fd`, which names the request where the former names the path.
fn mapping(elf: &ElfFacts, role: ObjectRole) -> Option<LoadRefusal> {
    let entry_size = if elf.class() == 1 { 32 } else { 56 };
    let verify = |words: &str| Some(LoadRefusal::Verify(words.to_owned()));
    let mapping = |words: &str| Some(LoadRefusal::Mapping(words.to_owned()));
    let is_library = role == ObjectRole::Library;
    match () {
        () if elf.kind != 2 && elf.kind != 3 => verify("only ET_DYN and ET_EXEC can be loaded"),
        () if elf.phentsize != entry_size => verify("ELF file's phentsize not the expected size"),
        () if is_library && elf.loads > 0 && elf.kind == 2 => {
            mapping("cannot dynamically load executable")
        }
        () if let Some(cut) = truncation(elf) => Some(LoadRefusal::Crash(cut.to_string())),
        () if elf.loads == 0 => mapping("object file has no loadable segments"),
        () if !elf.dynamic => mapping("object file has no dynamic section"),
        () if is_library && elf.is_pie() => {
            mapping("cannot dynamically load position-independent executable")
        }
        () => None,
    }
}

/// A cut that leaves a page without a byte of the file. Within its last page the rest reads as zero (mmap(2)).
pub(super) fn truncation(elf: &ElfFacts) -> Option<&ElfProblem> {
    elf.problems.iter().find(|problem| match problem {
        ElfProblem::Truncated { end, bytes, .. } => end.div_ceil(PAGE) > bytes.div_ceil(PAGE),
        _ => false,
    })
}
