//! Checks the interpreter that a program names, as the kernel does when it executes the program (Linux
//! `fs/binfmt_elf.c`, `load_elf_binary`).

use image_linkage::elf::ElfFacts;
use image_linkage::escape;
use image_linkage::loader::{LoadResolution, RequestOutcome, UnresolvedRequest};
use image_linkage::path::RootPath;
use image_linkage::rootfs::{FileCredentials, FileUse, LookupError, NodeKind, Rootfs};

/// Why the kernel does not start a program with its interpreter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InterpreterFault {
    /// The interpreter's name in the program.
    pub interpreter: Vec<u8>,
    /// The kernel's error.
    error: String,
    why: &'static str,
    pub outcome: RequestOutcome,
}

impl InterpreterFault {
    /// The fault of the interpreter of `program`, which `user` starts in the directory `working_dir`; `None` if the kernel
    /// takes it, if the user may not execute it, or if the program names none.
    pub(crate) fn find(
        rootfs: &Rootfs,
        working_dir: &[u8],
        user: &FileCredentials,
        program: &ElfFacts,
    ) -> Option<Self> {
        let interpreter = program.interp.as_ref()?;
        // The simulated start reports a denial, with its permissions.
        if let Err(LookupError::Denied(_)) = rootfs.open_as(interpreter, user, FileUse::Execute) {
            return None;
        }
        let mut path = interpreter.to_vec();
        // A relative interpreter depends on the working directory, not the program's.
        if interpreter.first() != Some(&b'/') {
            path = [working_dir, b"/", interpreter].concat();
        }
        let (error, why) = if interpreter.is_empty() {
            ("exec format error", "(an empty name) is none")
        } else {
            match rootfs.lookup(&path) {
                Ok(found) => refusal(&rootfs.node(found.node).kind, program)?,
                Err(error) => {
                    return Some(Self {
                        interpreter: interpreter.to_vec(),
                        error: error.to_string(),
                        why: "is not in the image",
                        outcome: RequestOutcome::NotFound,
                    });
                }
            }
        };
        Some(Self {
            interpreter: interpreter.to_vec(),
            error: error.to_owned(),
            why,
            outcome: RequestOutcome::Refused,
        })
    }

    /// The kernel's message for the program at `path`, with the reason.
    pub(crate) fn message(&self, path: &RootPath) -> String {
        let interpreter = escape::escape_bytes(&self.interpreter);
        format!("{path}: {}: its interpreter {interpreter} {}", self.error, self.why)
    }

    /// The failed start of the program at `path`.
    pub(crate) fn resolution(&self, path: &RootPath) -> LoadResolution {
        let missing = UnresolvedRequest {
            name: self.interpreter.as_slice().into(),
            requested_by: None,
            outcome: self.outcome,
            message: self.message(path),
            missing_version: None,
            trace: Vec::new(),
        };
        LoadResolution {
            unresolved: vec![missing],
            ..LoadResolution::default()
        }
    }
}

/// Whether an object is a program, and not a library that may be executed as well, such as glibc's `libc.so.6`.
pub(crate) fn is_only_program(elf: &ElfFacts) -> bool {
    elf.is_program() || elf.interp.is_some() && elf.soname.is_none()
}

/// Why the kernel refuses a file as the interpreter of a program: its error, and the reason.
fn refusal(interpreter: &NodeKind, program: &ElfFacts) -> Option<(&'static str, &'static str)> {
    let NodeKind::File(facts) = interpreter else {
        return Some(("Permission denied", "is not a file"));
    };
    match facts.elf.as_deref() {
        None if facts.bytes < 64 => Some(("Input/output error", "is too short")),
        None => Some(("Accessing a corrupted shared library", "is no object")),
        Some(elf) if elf.machine != program.machine || elf.class() != program.class() => {
            Some(("Accessing a corrupted shared library", "is for another processor"))
        }
        Some(_) => None,
    }
}
