//! The steps of a search, and what lay at each place that was tried.

use std::fmt;
use std::sync::Arc;

use super::process_identity::SecureExecution;
use crate::rootfs::{AccessDenial, LookupError};

/// The part of the search that led to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SearchStage {
    /// It is the object that was started or opened.
    Start,
    /// It is the loader itself.
    Interpreter,
    /// `LD_PRELOAD` or `/etc/ld.so.preload` names it.
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
    /// The name used in reports.
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
        /// The part of the search.
        how: SearchStage,
        /// The path as the loader opens it, which may be relative.
        path: Arc<[u8]>,
        /// What became of it.
        tried: TriedFile,
    },
    /// A directory of the search path is not there; nothing was tried in it.
    NoDirectory {
        /// The part of the search.
        how: SearchStage,
        /// The directory, as the loader asks for it.
        path: Arc<[u8]>,
    },
    /// `LD_LIBRARY_PATH` counts for nothing in a secure execution.
    LibraryPathIgnored(SecureExecution),
    /// An element of a search path counts for nothing in a secure execution, because `$ORIGIN` in it could be forged.
    OriginIgnored {
        /// The part of the search.
        how: SearchStage,
        /// The element, or the whole path, as written.
        path: Arc<[u8]>,
        /// Why it is a secure execution.
        why: SecureExecution,
    },
    /// The cache is not read for what a secure execution preloads.
    CacheIgnored(SecureExecution),
    /// `DT_RPATH` counts for nothing because the asking object has a `DT_RUNPATH`.
    RpathIgnored,
    /// The cache has no entry of this name.
    NotInCache,
    /// There is no usable `/etc/ld.so.cache`.
    NoCache,
    /// The default directories are not searched: the asking object has `DF_1_NODEFLIB`.
    NoDefaults,
    /// So many steps of a long search, none of which ends it.
    LeftOut(usize),
}

impl SearchStep {
    /// Who kept the process from a file or a directory of the search, if somebody did.
    pub fn denial(&self) -> Option<&AccessDenial> {
        match self.tried()? {
            TriedFile::Missing(LookupError::Denied(denial)) => Some(denial),
            _ => None,
        }
    }

    /// The part of the search that it belongs to, where it tells of a directory or a file.
    pub(crate) fn stage(&self) -> Option<SearchStage> {
        match self {
            Self::Tried { how, .. } | Self::NoDirectory { how, .. } | Self::OriginIgnored { how, .. } => Some(*how),
            _ => None,
        }
    }

    /// The path that it tells of.
    pub(crate) fn path(&self) -> Option<&[u8]> {
        match self {
            Self::Tried { path, .. } | Self::NoDirectory { path, .. } | Self::OriginIgnored { path, .. } => Some(path),
            _ => None,
        }
    }

    /// What lay at the path, where the step tried one.
    pub(crate) fn tried(&self) -> Option<&TriedFile> {
        match self {
            Self::Tried { tried, .. } => Some(tried),
            _ => None,
        }
    }
}

/// The steps of one search that are told, at most: who configures hundreds of directories knows what is not in them.
const STEPS: usize = 256;

/// Whether a trace takes no further step but one that ends the search.
pub(super) fn is_full(trace: &[SearchStep]) -> bool {
    trace.len() >= STEPS
}

/// Adds a step after which the search goes on; of a long search the first are told, and how many follow.
pub(super) fn add_step(trace: &mut Vec<SearchStep>, step: SearchStep) {
    if is_full(trace) {
        leave_out(trace, 1);
    } else {
        trace.push(step);
    }
}

/// Counts steps that are not told.
pub(super) fn leave_out(trace: &mut Vec<SearchStep>, steps: usize) {
    match trace.last_mut() {
        Some(SearchStep::LeftOut(others)) => *others += steps,
        _ => trace.push(SearchStep::LeftOut(steps)),
    }
}

/// What lay at a path that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TriedFile {
    /// A file that can be loaded: the search ends.
    Found,
    /// Nothing is there, for this reason: the search goes on.
    Missing(LookupError),
    /// An object of the other word size: the search goes on.
    WrongClass,
    /// An object of another processor: the search goes on.
    WrongMachine,
    /// A file without the set-user-ID bit, of which a secure execution preloads none: the search goes on.
    Untrusted,
    /// Something that cannot be loaded: the search ends.
    Refused(LoadRefusal),
}

/// Why the loader refuses a file, in its own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadRefusal {
    /// It is a directory.
    Directory,
    /// It is no object that this loader can use, by its first bytes.
    Verify(String),
    /// It was accepted, and cannot be mapped.
    Mapping(String),
    /// It was mapped, and nothing in the process defines so many of the symbols that it imports.
    Unbound(usize),
    /// It was accepted, and no process survives to use it: of what it dies.
    Crash(String),
    /// It was accepted, and is damaged so that what comes of it cannot be told without running it.
    Unforetold(String),
}

impl LoadRefusal {
    /// Whether the process ends here, or may end.
    pub(crate) fn is_fatal(&self) -> bool {
        matches!(self, Self::Crash(_) | Self::Unforetold(_))
    }
}

impl fmt::Display for LoadRefusal {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory => to.write_str("cannot read file data: Is a directory"),
            Self::Verify(words) | Self::Mapping(words) | Self::Crash(words) => to.write_str(words),
            Self::Unbound(count) => write!(
                to,
                "undefined symbols: nothing in the process defines {count} of those that it imports"
            ),
            Self::Unforetold(what) => write!(to, "{what}; what comes of that cannot be determined"),
        }
    }
}
