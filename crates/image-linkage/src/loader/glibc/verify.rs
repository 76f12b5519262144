//! glibc's checks before it maps a file, with its messages (elf/dl-load.c, `open_verify` and `_dl_map_object_from_fd`).

use elf::abi::{ET_DYN, ET_EXEC};

use crate::elf::{ElfFacts, ElfProblem, LoadFault};
use crate::layer::FileFacts;
use crate::loader::dynamic_loader::DynamicLoader;
use crate::loader::machine::{Arch, Libc};
use crate::loader::object_check::{ObjectRole, refused, truncation};
use crate::loader::trace::{LoadRefusal, TriedFile};

/// The size of an ELF header by class. A shorter file is "too short".
const HEADER: [u64; 3] = [0, 52, 64];

/// The name of the program headers in problems.
const HEADERS: &str = "the program headers";

/// Whether glibc maps a file with these facts.
pub(super) fn verify_object(facts: &FileFacts, linker: &DynamicLoader, role: ObjectRole) -> TriedFile {
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
    // Debian's and Ubuntu's loaders check the machine first (unsubmitted-ldso-machine-mismatch.diff), in their own byte
    // order.
    let [_, _, _, _, _, data, ..] = elf.ident;
    let machine = match data {
        1 | 2 if data != arch.data => elf.machine.swap_bytes(),
        _ => elf.machine,
    };
    if linker.is_debian && machine != arch.machine {
        return TriedFile::WrongMachine;
    }
    if let Some(words) = ident(elf, arch) {
        return refused(words);
    }
    if elf.machine != arch.machine {
        return TriedFile::WrongMachine;
    }
    mapping(elf, linker, role).map_or(TriedFile::Found, TriedFile::Refused)
}

/// The identification and version checks of `open_verify`.
fn ident(elf: &ElfFacts, arch: &Arch) -> Option<&'static str> {
    let [_, _, _, _, _, data, version, osabi, abiversion, padding @ ..] = elf.ident;
    let checks = [
        (
            data != arch.data && arch.data == 1,
            "ELF file data encoding not little-endian",
        ),
        (data != arch.data, "ELF file data encoding not big-endian"),
        (version != 1, "ELF file version ident does not match current one"),
        // ELFOSABI_SYSV and ELFOSABI_GNU pass. Only the latter has ABI versions.
        (osabi != 0 && osabi != 3, "ELF file OS ABI invalid"),
        (
            abiversion != 0 && (osabi != 3 || abiversion > 4),
            "ELF file ABI version invalid",
        ),
        (padding.iter().any(|&byte| byte != 0), "nonzero padding in e_ident"),
        (elf.version != 1, "ELF file version does not match current one"),
    ];
    checks
        .into_iter()
        .find_map(|(is_wrong, words)| is_wrong.then_some(words))
}

/// The faults that the loader finds while it reads the program headers.
const HEADER_FAULTS: [LoadFault; 3] = [
    LoadFault::EmptyDynamic,
    LoadFault::AlignmentOffPage,
    LoadFault::OffsetOffPage,
];

/// The refusal of an object with the right machine: first `open_verify`, then `_dl_map_object_from_fd`. The former's
/// message names the path, the latter's the request.
fn mapping(elf: &ElfFacts, linker: &DynamicLoader, role: ObjectRole) -> Option<LoadRefusal> {
    verify_headers(elf).or_else(|| map_segments(elf, linker, role))
}

fn verify_headers(elf: &ElfFacts) -> Option<LoadRefusal> {
    let entry_size = if elf.class() == 1 { 32 } else { 56 };
    let words = if !matches!(elf.kind, ET_EXEC | ET_DYN) {
        "only ET_DYN and ET_EXEC can be loaded"
    } else if elf.phentsize != entry_size {
        "ELF file's phentsize not the expected size"
    } else if cut_headers(elf)? == u64::MAX {
        // The sum overflows, and the loader reads its own memory.
        return Some(LoadRefusal::Undetermined(HEADERS.to_owned() + " lie behind every end"));
    } else {
        "cannot read file data"
    };
    Some(LoadRefusal::Verify(words.to_owned()))
}

fn map_segments(elf: &ElfFacts, linker: &DynamicLoader, role: ObjectRole) -> Option<LoadRefusal> {
    let is_library = matches!(role, ObjectRole::Library | ObjectRole::Opened);
    let header_fault = || {
        let mut faults = HEADER_FAULTS.into_iter();
        faults.find_map(|fault| fault_refusal(elf, fault, linker, role))
    };
    let words = if is_library && elf.loads > 0 && elf.kind == ET_EXEC {
        "cannot dynamically load executable"
    } else if is_library && elf.loads == 0 {
        "object file has no loadable segments"
    } else if let Some(refusal) = header_fault().or_else(|| truncation(elf, role)) {
        return Some(refusal);
    } else if elf.loads == 0 {
        "object file has no loadable segments"
    } else if !elf.dynamic {
        "object file has no dynamic section"
    } else if is_library && elf.is_pie() {
        "cannot dynamically load position-independent executable"
    } else if elf.executable_stack && role == ObjectRole::Opened && keeps_stack(linker) {
        "cannot enable executable stack as shared object requires: Invalid argument"
    } else {
        return fault_refusal(elf, LoadFault::NoOpen, linker, role);
    };
    Some(LoadRefusal::Mapping(words.to_owned()))
}

/// Whether dlopen no longer makes the stack executable: since glibc 2.41 (glibc bug 32653).
fn keeps_stack(linker: &DynamicLoader) -> bool {
    matches!(linker.libc, Libc::Glibc(Some(version)) if version >= (2, 41))
}

/// The end of the program headers, if they extend past the end of the file.
fn cut_headers(elf: &ElfFacts) -> Option<u64> {
    elf.problems.iter().find_map(|problem| match problem {
        ElfProblem::Truncated { what, end, .. } if *what == HEADERS => Some(*end),
        _ => None,
    })
}

/// The refusal of a fault; `None` if this loader ignores it or reports it later.
fn fault_refusal(elf: &ElfFacts, fault: LoadFault, linker: &DynamicLoader, role: ObjectRole) -> Option<LoadRefusal> {
    let is_refused = match fault {
        // For a program, the kernel decides.
        _ if role == ObjectRole::Program || elf.load_faults().all(|found| found != fault) => false,
        LoadFault::EmptyDynamic => !linker.libc.is_glibc_before((2, 35)),
        // glibc 2.35 removed this check (glibc bug 28688).
        LoadFault::AlignmentOffPage => linker.libc.is_glibc_before((2, 35)),
        LoadFault::OffsetOffPage => true,
        LoadFault::NoOpen => role == ObjectRole::Opened,
    };
    let words = match fault {
        // The words until glibc 2.35 (glibc bug 28676).
        LoadFault::OffsetOffPage if linker.libc.is_glibc_before((2, 35)) => {
            "ELF load command address/offset not properly aligned".to_owned()
        }
        _ => fault.to_string(),
    };
    is_refused.then_some(LoadRefusal::Mapping(words))
}
