//! Opens a candidate and checks what the loader checks before it maps it (glibc elf/dl-load.c,
//! `open_verify` and `_dl_map_object_from_fd`), in the loader's words.

use std::sync::Arc;

use super::{Arch, Linker, Tried};
use crate::elf::{ElfFacts, ElfProblem};
use crate::layer::FileFacts;
use crate::path::RootPath;
use crate::rootfs::{NodeKind, Rootfs};

/// A file that can be mapped.
#[derive(Debug, Clone)]
pub struct Opened {
    /// The path without links.
    pub real_path: RootPath,
    /// The file's facts; the same allocation is the same inode.
    pub facts: Arc<FileFacts>,
}

/// What an object is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The object that is started; musl makes no difference.
    Program,
    /// An object that another needs, or that is opened.
    Library,
}

/// `DF_1_PIE`: a program, though of the type of a shared object.
const PIE: u64 = 0x0800_0000;
/// What is said of a directory, in the words of the C library.
pub const IS_DIRECTORY: &str = "cannot read file data: Is a directory";
/// What ends the words about an object that no process survives.
pub const CRASH: &str = "; the process would die of SIGBUS";
/// What is said once the file was accepted and is mapped; the loader puts the name that was asked for before
/// it, and the path before everything else (`_dl_map_object_from_fd`).
pub const MAPPING: [&str; 4] = [
    "object file has no loadable segments",
    "cannot dynamically load executable",
    "object file has no dynamic section",
    "cannot dynamically load position-independent executable",
];

/// The size of a 64-bit ELF header; shorter files are "too short".
const HEADER: [u64; 3] = [0, 52, 64];

/// The smallest page.
const PAGE: u64 = 4096;

/// Opens `path` in a process of this loader.
pub fn open(rootfs: &Rootfs, path: &[u8], linker: &Linker, role: Role) -> (Tried, Option<Opened>) {
    let found = match rootfs.lookup(path) {
        Ok(found) => found,
        Err(error) => return (Tried::Missing(error), None),
    };
    let facts = match &rootfs.node(found.node).kind {
        NodeKind::File(facts) => facts,
        NodeKind::Directory(_) => {
            return (Tried::Refused(IS_DIRECTORY.to_owned()), None);
        }
        _ => return (Tried::Refused("file too short".to_owned()), None),
    };
    match verify(facts, linker, role) {
        Tried::Found => (
            Tried::Found,
            Some(Opened {
                real_path: found.path,
                facts: Arc::clone(facts),
            }),
        ),
        other => (other, None),
    }
}

fn verify(facts: &FileFacts, linker: &Linker, role: Role) -> Tried {
    let arch = linker.arch;
    let header = HEADER.get(usize::from(arch.class)).copied().unwrap_or(64);
    if facts.bytes < header {
        return Tried::Refused("file too short".to_owned());
    }
    let Some(elf) = &facts.elf else {
        return Tried::Refused("invalid ELF header".to_owned());
    };
    if elf.class() != arch.class {
        return Tried::WrongClass;
    }
    // Debian's and Ubuntu's loaders look at the processor first (unsubmitted-ldso-machine-mismatch.diff).
    let [_, _, _, _, _, data, ..] = elf.ident;
    if linker.is_debian && (elf.machine != arch.machine || data != arch.data) {
        return Tried::WrongMachine;
    }
    let refused = ident(elf, arch).or_else(|| {
        if elf.machine == arch.machine {
            mapping(elf, role)
        } else {
            None
        }
    });
    match refused {
        Some(words) => Tried::Refused(words),
        None if elf.machine != arch.machine => Tried::WrongMachine,
        None => Tried::Found,
    }
}

/// What `open_verify` says of the identification, and of the version.
fn ident(elf: &ElfFacts, arch: &Arch) -> Option<String> {
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
    Some(words.to_owned())
}

/// What is said of an object that is for this processor and still cannot be mapped.
fn mapping(elf: &ElfFacts, role: Role) -> Option<String> {
    let entry_size = if elf.class() == 1 { 32 } else { 56 };
    let [no_segments, executable, no_dynamic, program] = MAPPING;
    let is_library = role == Role::Library;
    let words = match () {
        () if elf.kind != 2 && elf.kind != 3 => "only ET_DYN and ET_EXEC can be loaded",
        () if elf.phentsize != entry_size => "ELF file's phentsize not the expected size",
        () if is_library && elf.loads > 0 && elf.kind == 2 => executable,
        () if let Some(cut) = truncation(elf) => {
            return Some(format!("{cut}{CRASH}"));
        }
        () if elf.loads == 0 => no_segments,
        () if !elf.dynamic => no_dynamic,
        () if is_library && elf.flags_1 & PIE != 0 => program,
        () => return None,
    };
    Some(words.to_owned())
}

/// A cut that leaves a page without a byte of the file. Within its last page the rest reads as zero (mmap(2)).
fn truncation(elf: &ElfFacts) -> Option<&ElfProblem> {
    elf.problems.iter().find(|problem| match problem {
        ElfProblem::Truncated { end, bytes, .. } => end.div_ceil(PAGE) > bytes.div_ceil(PAGE),
        _ => false,
    })
}
