//! Facts about CUPTI in an image: copies, headers, consumers, and what each consumer gets.
//!
//! All facts come from the merged file system and the loader simulation; other modules assess them.

mod gather;
mod image_facts;
mod merged_layers;
pub mod object_links;
pub mod objects;
pub mod software;
pub mod weight;

pub use crate::knowledge::{FailureImpact, RequestKind};
pub use gather::answers::{Answers, CuptiStatus};
pub use gather::gaps::{loader_gaps, user_gap};
pub use gather::{gather_facts, gather_from_rootfs};
pub use image_facts::ImageFacts;
pub use merged_layers::{Gap, LayerSize, MergedLayers, ReadLayers};
pub use objects::command_entry::{CommandEntry, CommandReading};
pub use objects::host_facts::{HostFacts, InjectionMode, read_host_facts};
pub use objects::load_answer::{LoadAnswer, LoadFailure, LoadedFile};
pub use objects::plain_open::PlainOpen;
pub use objects::process_context::{GatherOptions, ProcessContext, StartOverrides};
pub use objects::resolved_objects::{is_undetermined, opened_object, unresolved_objects};
pub use objects::start_failure::{StartFailure, join_words};
pub use objects::world::{ByWorld, World};
pub use software::command_start::CommandFailure;
pub use software::companions::CompanionLookup;
pub use software::consumer_outcome::ConsumerOutcome;
pub use software::consumers::CuptiConsumer;
pub use software::copies::CuptiCopy;
pub use software::copy_version::VersionSource;
pub use software::cupti_access::{ApiAvailability, CuptiAccess, CuptiProcess};
pub use software::cupti_files::DanglingLink;
pub use software::file_owner::{FileOwner, OwnerKind};
pub use software::opened_names::UndecidedOpener;
pub use software::process_variants::AnswerBasis;
pub use software::related_software::{ProgramBuild, RelatedSoftware};
pub(crate) use weight::dead_weight::dead_weight_kind;
pub use weight::dead_weight::{DeadWeightFile, DeadWeightUse};
pub use weight::file_references::{
    FileReference, FileReferrer, PROVENANCE_PLACE, ReferenceKind, SLIM_GPU_LABEL, WeightFacts, is_for_processor,
    keep_referenced, retained_files,
};
pub use weight::gpu_code::{GpuCodeAmounts, GpuCodeObject, architecture_words, gpu_code_kept_for};

pub use image_linkage::loader::RequestOutcome;
