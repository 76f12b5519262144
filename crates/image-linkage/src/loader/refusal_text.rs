//! Refusals in glibc's words. Also used for program start with musl, whose loader says little there.

use super::link_map::{LoadPhase, SearchMiss};
use super::resolution::RequestOutcome;
use super::trace::{LoadRefusal, TriedFile};
use crate::escape;
use crate::rootfs::LookupError;

/// The loader's message for a refused or missing file.
pub(super) fn refusal_miss(path: &[u8], tried: &TriedFile, phase: LoadPhase) -> SearchMiss {
    let path = escape::escape_bytes(path);
    match tried {
        TriedFile::Refused(LoadRefusal::Directory) if phase != LoadPhase::Open => SearchMiss {
            outcome: RequestOutcome::Refused,
            // At startup the loader has no text for EISDIR.
            message: format!("{path}: cannot read file data: Error 21"),
        },
        TriedFile::Refused(refusal) => SearchMiss {
            outcome: RequestOutcome::Refused,
            message: format!("{path}: {refusal}"),
        },
        TriedFile::Missing(error) => SearchMiss {
            outcome: RequestOutcome::NotFound,
            message: format!("{path}: cannot open shared object file: {}", system_words(error, phase)),
        },
        TriedFile::WrongClass => SearchMiss {
            outcome: RequestOutcome::Refused,
            message: format!("{path}: wrong ELF class"),
        },
        TriedFile::WrongMachine | TriedFile::Untrusted | TriedFile::Found => SearchMiss {
            outcome: RequestOutcome::Refused,
            message: format!("{path}: cannot open shared object file"),
        },
    }
}

/// A system error in the words of the phase. At startup the loader has texts for only five errors (glibc
/// elf/dl-minimal.c, `__strerror_r`).
pub(super) fn system_words(error: &LookupError, phase: LoadPhase) -> String {
    let number = match error {
        LookupError::NotFound | LookupError::Denied(_) => return error.to_string(),
        LookupError::NotDirectory => 20,
        LookupError::Loop => 40,
        LookupError::TooLong => 36,
    };
    match phase {
        LoadPhase::Start | LoadPhase::Preload => format!("Error {number}"),
        LoadPhase::Open => error.to_string(),
    }
}
