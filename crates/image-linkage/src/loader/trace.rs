//! The steps of a search, and the result of each tried path.

use std::fmt;
use std::sync::Arc;

use super::process_identity::SecureExecution;
use crate::rootfs::{AccessDenial, LookupError};

/// The stage of the search that found an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SearchStage {
    /// The started or opened object itself.
    Start,
    /// The loader itself.
    Interpreter,
    /// Named by `LD_PRELOAD` or `/etc/ld.so.preload`.
    Preload,
    /// The name is a path.
    Direct,
    /// `DT_RPATH` of the object with this number.
    Rpath(usize),
    /// A directory of `LD_LIBRARY_PATH`.
    LdLibraryPath,
    /// `DT_RUNPATH` of the object with this number.
    Runpath(usize),
    /// An entry of `/etc/ld.so.cache`.
    Cache,
    /// The directories compiled into the loader, or musl's path file.
    Default,
}

impl SearchStage {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start | Self::Direct => "direct",
            Self::Interpreter => "interpreter",
            Self::Preload => "preload",
            Self::Rpath(_) => "rpath",
            Self::LdLibraryPath => "ld-library-path",
            Self::Runpath(_) => "runpath",
            Self::Cache => "ld.so.cache",
            Self::Default => "default",
        }
    }
}

/// One step of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchStep {
    /// A file was tried.
    Tried {
        /// The search stage.
        how: SearchStage,
        /// The path as the loader opens it; may be relative.
        path: Arc<[u8]>,
        /// The result.
        tried: TriedFile,
    },
    /// A missing directory of the search path; nothing was tried in it.
    NoDirectory {
        /// The search stage.
        how: SearchStage,
        /// The directory as the loader requests it.
        path: Arc<[u8]>,
    },
    /// Secure-execution mode ignores `LD_LIBRARY_PATH`.
    LibraryPathIgnored(SecureExecution),
    /// Secure-execution mode ignores an element with `$ORIGIN`, because it could be forged.
    OriginIgnored {
        /// The search stage.
        how: SearchStage,
        /// The element or the whole path, as written.
        path: Arc<[u8]>,
        /// The reason for secure-execution mode.
        why: SecureExecution,
    },
    /// Secure-execution mode does not use the cache for preloads.
    CacheIgnored(SecureExecution),
    /// `DT_RPATH` is ignored, because the requester has a `DT_RUNPATH`.
    RpathIgnored,
    /// The cache has no entry with this name.
    NotInCache,
    /// There is no usable `/etc/ld.so.cache`.
    NoCache,
    /// The default directories are not searched, because the requester has `DF_1_NODEFLIB`.
    NoDefaults,
    /// The number of omitted steps of a long search. None of them ended it.
    LeftOut(usize),
}

impl SearchStep {
    /// The denied access of this step.
    pub fn denial(&self) -> Option<&AccessDenial> {
        match self.tried()? {
            TriedFile::Missing(LookupError::Denied(denial)) => Some(denial),
            _ => None,
        }
    }

    /// The search stage of a step about a directory or file.
    pub(crate) fn stage(&self) -> Option<SearchStage> {
        match self {
            Self::Tried { how, .. } | Self::NoDirectory { how, .. } | Self::OriginIgnored { how, .. } => Some(*how),
            _ => None,
        }
    }

    /// The path of this step.
    pub(crate) fn path(&self) -> Option<&[u8]> {
        match self {
            Self::Tried { path, .. } | Self::NoDirectory { path, .. } | Self::OriginIgnored { path, .. } => Some(path),
            _ => None,
        }
    }

    /// The result of a tried path.
    pub(crate) fn tried(&self) -> Option<&TriedFile> {
        match self {
            Self::Tried { tried, .. } => Some(tried),
            _ => None,
        }
    }
}

/// The maximum recorded steps of one search.
const STEPS: usize = 256;

/// Whether a trace only accepts a final step.
pub(super) fn is_full(trace: &[SearchStep]) -> bool {
    trace.len() >= STEPS
}

/// Adds a step that does not end the search. Beyond the limit, only counts it.
pub(super) fn add_step(trace: &mut Vec<SearchStep>, step: SearchStep) {
    if is_full(trace) {
        leave_out(trace, 1);
    } else {
        trace.push(step);
    }
}

/// Counts omitted steps.
pub(super) fn leave_out(trace: &mut Vec<SearchStep>, steps: usize) {
    match trace.last_mut() {
        Some(SearchStep::LeftOut(others)) => *others += steps,
        _ => trace.push(SearchStep::LeftOut(steps)),
    }
}

/// The result of a tried path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TriedFile {
    /// Loadable; the search ends.
    Found,
    /// Missing, for this reason; the search continues.
    Missing(LookupError),
    /// An object of the other ELF class; the search continues.
    WrongClass,
    /// An object for another machine; the search continues.
    WrongMachine,
    /// A file without the set-user-ID bit, which secure-execution mode does not preload; the search continues.
    Untrusted,
    /// Not loadable; the search ends.
    Refused(LoadRefusal),
}

/// The loader's reason to refuse a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadRefusal {
    /// A directory.
    Directory,
    /// Not an object that this loader supports, according to its header.
    Verify(String),
    /// Accepted, but mapping fails.
    Mapping(String),
    /// Mapped, but this many imported symbols are undefined in the process.
    Unbound(usize),
    /// Accepted, but the process dies for this reason.
    Crash(String),
    /// Accepted, but damaged in a way whose effect only a run can show.
    Undetermined(String),
}

impl LoadRefusal {
    /// Whether the process dies or may die.
    pub(crate) fn is_fatal(&self) -> bool {
        matches!(self, Self::Crash(_) | Self::Undetermined(_))
    }
}

impl fmt::Display for LoadRefusal {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory => to.write_str("cannot read file data: Is a directory"),
            Self::Verify(words) | Self::Mapping(words) | Self::Crash(words) => to.write_str(words),
            Self::Unbound(count) => write!(
                to,
                "undefined symbols: no object in the process defines {count} of its imports"
            ),
            Self::Undetermined(what) => write!(to, "{what}; the result cannot be determined"),
        }
    }
}
