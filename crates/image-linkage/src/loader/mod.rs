//! What the dynamic loader would do in this image, step by step.
//!
//! [`DynamicLoader`] is what the image's own `ld.so` would start with: its default directories, its cache, the
//! processor's levels. [`SimulatedProcess`] loads an object and what it needs as that loader does, and keeps the
//! reason for each step. Nothing is printed here and nothing is recomputed for display.
//!
//! `process` knows no C library: what glibc and musl do differently stands behind the trait of `search`.

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
pub use ld_cache::{CacheEntry, LdCache, LdCacheFormat};
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
