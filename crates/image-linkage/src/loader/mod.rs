//! What the dynamic loader would do in this image, step by step.
//!
//! [`DynamicLoader`] is what the image's own `ld.so` would start with: its default directories, its cache, the
//! processor's levels. [`SimulatedProcess`] loads an object and what it needs as that loader does, and keeps the
//! reason for each step. Nothing is printed here and nothing is recomputed for display.

pub mod arch;
pub mod dynamic_loader;
mod dynamic_tokens;
mod glibc;
pub mod ld_cache;
mod ld_cache_file;
pub mod ld_cache_writer;
pub mod ldconfig;
pub mod legacy_hwcaps;
mod load_queue;
mod musl;
mod object_check;
mod preload;
mod process;
pub mod trace_text;
mod version_check;

pub use arch::{Arch, CpuLevel};
pub use dynamic_loader::{DynamicLoader, Libc};
pub use legacy_hwcaps::LegacyHwcaps;
pub use process::{LoaderEnvironment, ProcessSetup, SimulatedProcess, StartMode};
pub use version_check::glibc_version;

use std::fmt;

use crate::elf::ByteString;
use crate::path::RootPath;
use crate::rootfs::LookupError;

/// Where the loader runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum World {
    /// The image as it is: its own cache, nothing injected.
    AsIs,
    /// Under the NVIDIA container runtime: driver libraries present, the cache made anew.
    Nvidia,
}

impl World {
    /// The name used on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::AsIs => "as-is",
            Self::Nvidia => "nvidia",
        }
    }
}

/// What the loader did for one start or one dlopen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoadResolution {
    /// The objects in the order in which they were loaded, those loaded before included.
    pub objects: Vec<LoadedObject>,
    /// The object that was started or opened, by its number in [`LoadResolution::objects`].
    pub root: Option<usize>,
    /// What was asked for and is not there, or cannot be loaded.
    pub unresolved: Vec<UnresolvedRequest>,
    /// Libraries of `LD_PRELOAD` and `/etc/ld.so.preload` that the loader passes over with a warning.
    pub preload_warnings: Vec<UnresolvedRequest>,
    /// Objects whose tables could not be read, and why: what they need is not known.
    pub unread: Vec<String>,
}

impl LoadResolution {
    /// Whether the start or the dlopen succeeds, with the driver's libraries taken as present.
    pub fn loads(&self) -> bool {
        self.root.is_some()
            && self
                .unresolved
                .iter()
                .all(|missing| missing.outcome == RequestOutcome::ProvidedAtRuntime)
    }

    /// The object that a name led to.
    pub fn object_for(&self, name: &[u8]) -> Option<&LoadedObject> {
        self.objects.iter().find(|object| object.answers_to(name))
    }
}

/// One loaded object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedObject {
    /// The path by which the loader opened it.
    pub path: ByteString,
    /// The path without links.
    pub real_path: RootPath,
    /// Its `DT_SONAME`.
    pub soname: Option<ByteString>,
    /// The object that asked for it first, by its number in [`LoadResolution::objects`].
    pub requested_by: Option<usize>,
    /// The name it was asked for by.
    pub name: ByteString,
    /// How it was found.
    pub how: SearchStage,
    /// The steps from the object that was started.
    pub depth: usize,
    /// The search that led to it.
    pub trace: Vec<SearchStep>,
    /// The names it needs, in order, each with the number of the object that answers, if one does.
    pub needs: Vec<(ByteString, Option<usize>)>,
}

impl LoadedObject {
    /// Whether the object is what `name` means once it is loaded.
    pub fn answers_to(&self, name: &[u8]) -> bool {
        *self.name == *name || *self.path == *name || self.soname.as_deref() == Some(name)
    }
}

/// A request that no object answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnresolvedRequest {
    /// The name that was asked for.
    pub name: ByteString,
    /// The object that asked, by its number in [`LoadResolution::objects`].
    pub requested_by: Option<usize>,
    /// What became of the request.
    pub outcome: RequestOutcome,
    /// The loader's own words.
    pub message: String,
    /// The version that the object `name` was found without, such as `GLIBC_2.25`, where that is what is missing.
    pub missing_version: Option<ByteString>,
    /// The search.
    pub trace: Vec<SearchStep>,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestOutcome {
    /// It was loaded.
    Loaded,
    /// A library of the driver, which is on the host and never in an image.
    ProvidedAtRuntime,
    /// Nothing of that name is where the loader looks.
    NotFound,
    /// What the loader found cannot be loaded, and it does not look further.
    Refused,
}

impl RequestOutcome {
    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loaded => "loaded",
            Self::ProvidedAtRuntime => "provided-at-runtime",
            Self::NotFound => "not-found",
            Self::Refused => "refused",
        }
    }
}

/// The part of the search that led to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SearchStage {
    /// It is the object that was started or opened.
    Start,
    /// It is the loader itself.
    Interpreter,
    /// `LD_PRELOAD` or `/etc/ld.so.preload`.
    Preload,
    /// The name is a path.
    Direct,
    /// `DT_RPATH` of the object with this number.
    Rpath(usize),
    /// `LD_LIBRARY_PATH`.
    LdLibraryPath,
    /// `DT_RUNPATH` of the object with this number.
    Runpath(usize),
    /// `/etc/ld.so.cache`.
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
        /// The path.
        path: ByteString,
        /// What lay there.
        tried: TriedFile,
    },
    /// A directory of the search path is not there; nothing was tried in it.
    NoDirectory {
        /// The part of the search.
        how: SearchStage,
        /// The directory.
        path: ByteString,
    },
    /// `DT_RPATH` counts for nothing because the asking object has a `DT_RUNPATH`.
    RpathIgnored,
    /// The cache has no entry of this name.
    NotInCache,
    /// There is no usable `/etc/ld.so.cache`.
    NoCache,
    /// The default directories are not searched: the asking object has `DF_1_NODEFLIB`.
    NoDefaults,
}

impl SearchStep {
    /// What lay at the path, where the step tried one.
    pub fn tried(&self) -> Option<&TriedFile> {
        match self {
            Self::Tried { tried, .. } => Some(tried),
            _ => None,
        }
    }
}

/// What lay at a path that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TriedFile {
    /// A file that can be loaded: the search ends.
    Found,
    /// No file.
    Missing(LookupError),
    /// An object of the other word size: the search goes on.
    WrongClass,
    /// An object of another processor: the search goes on.
    WrongMachine,
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
    /// It is shorter than its segments say, and no process survives to use it.
    Crash(String),
}

impl fmt::Display for LoadRefusal {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory => to.write_str("cannot read file data: Is a directory"),
            Self::Verify(words) | Self::Mapping(words) => to.write_str(words),
            Self::Crash(cut) => write!(to, "{cut}; the process would die of SIGBUS"),
        }
    }
}
