//! What the image says of CUPTI: copies, headers, who asks for it, and what each gets.
//!
//! Everything is computed from the merged file system and the loader; nothing is judged here.

mod command_entry;
mod command_start;
mod companions;
mod consumer_outcome;
mod consumers;
mod container_files;
mod copies;
mod copy_version;
pub mod counted_contents;
mod credentials;
pub mod cuda_runtime;
mod cupti_access;
mod cupti_files;
mod dead_weight;
mod expected_soname;
mod file_owner;
mod file_references;
mod gather;
mod given_assumption;
mod host_facts;
mod image_facts;
pub mod injected_libraries;
pub mod installed_tools;
pub mod ld_cache;
mod library_aliases;
pub mod misnamed_libraries;
mod missing_symbols;
pub mod object_links;
mod opened_names;
mod other_loaders;
mod plain_open;
mod process_context;
mod process_variants;
mod python;
mod related_software;
pub mod release_mismatch;
mod resolved_objects;
pub mod search_path;
mod source_openers;
mod start_failure;
mod world;

pub use crate::knowledge::{FailureImpact, RequestKind};
pub use command_entry::{CommandEntry, CommandReading};
pub use command_start::CommandFailure;
pub use companions::CompanionLookup;
pub use consumer_outcome::ConsumerOutcome;
pub use consumers::CuptiConsumer;
pub use copies::CuptiCopy;
pub use copy_version::VersionSource;
pub use cupti_access::{ApiAvailability, CuptiAccess, CuptiProcess};
pub use cupti_files::DanglingLink;
pub(crate) use dead_weight::dead_weight_kind;
pub use dead_weight::{DeadWeightFile, DeadWeightUse};
pub use file_owner::{FileOwner, OwnerKind};
pub use file_references::{
    FileReference, FileReferrer, PROVENANCE_PLACE, ReferenceKind, is_for_processor, keep_referenced, retained_files,
};
pub use gather::gaps::{loader_gaps, user_gap};
pub use gather::{MergedLayers, ReadLayers, gather_facts, gather_from_rootfs};
pub use host_facts::{HostFacts, read_host_facts};
pub use image_facts::{CuptiStatus, Gap, ImageFacts, LayerSize};
pub use opened_names::UndecidedOpener;
pub use plain_open::PlainOpen;
pub use process_context::{GatherOptions, ProcessContext, StartOverrides};
pub use process_variants::AnswerBasis;
pub use related_software::RelatedSoftware;
pub use resolved_objects::{is_unforetold, opened_object, unresolved_objects};
pub use start_failure::{StartFailure, join_words};
pub use world::{ByWorld, World};

pub use image_linkage::loader::RequestOutcome;
