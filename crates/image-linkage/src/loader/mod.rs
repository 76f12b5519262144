//! Simulates the image's dynamic loader step by step.
//!
//! [`DynamicLoader`] holds the settings of the image's own `ld.so`: default directories, cache and ISA levels.
//! [`SimulatedProcess`] loads an object and its dependencies like that loader and records the reason for each step.
//! Nothing is printed here, and nothing is recomputed for display.
//!
//! `process` is independent of the C library: the differences between glibc and musl are behind the trait in `search`.

mod budget;
mod machine;
mod trace;

mod resolution;
mod trace_text;

mod ld_cache;
mod ld_cache_file;
mod ld_cache_writer;
mod legacy_hwcaps;

mod dynamic_loader;
mod dynamic_tokens;
mod load_queue;
mod object_check;

mod link_map;
mod load_report;
mod process_identity;
mod refusal_text;
mod search;

mod glibc;
mod musl;

mod detect;
mod ldconfig;
mod process;

pub use budget::LoaderBudget;
pub use dynamic_loader::{DynamicLoader, SYSTEM_CACHE};
pub use glibc::glibc_version;
pub use ld_cache::{CacheEntry, LdCache};
pub use ld_cache_writer::write_cache;
pub use ldconfig::{
    LdSoConf, LdconfigOutcome, LinkChanges, expand_pattern, folders_of_cache, matches_text, run_ldconfig,
};
pub use legacy_hwcaps::LegacyHwcaps;
pub use link_map::{LoaderEnvironment, ProcessSetup};
pub use machine::{Arch, CpuLevel, Libc};
pub use process::{SimulatedProcess, StartMode};
pub use process_identity::SecureExecution;
pub use resolution::{LoadResolution, LoadedObject, NumberedObjects, ObjectNames, RequestOutcome, UnresolvedRequest};
pub use trace::{LoadRefusal, SearchStage, SearchStep, TriedFile};
pub use trace_text::{TraceLine, object_machine, trace_lines};
