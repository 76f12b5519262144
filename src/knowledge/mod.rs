//! The program's knowledge: rules, phases, programs that request CUPTI, and profiling tools, each in a file.
//!
//! Built-in files come first, then the user's ([`user_folders`]). All files are checked before any judgement, and the
//! first mistake of each is reported.

pub mod advice;
pub mod api;
pub mod build_steps;
mod catalog;
mod consumer_profile;
pub(crate) mod data_files;
pub mod dead_weight;
mod error_text;
pub mod file_interest;
mod framework_wheels;
mod function_table;
pub mod gpu;
pub mod gpu_code;
pub mod host;
mod index_tables;
mod knowledge_base;
pub mod known_errors;
mod library;
mod library_release;
pub mod minimum_driver;
pub mod mistake;
pub(crate) mod names;
mod opened_text;
pub mod packages;
pub(crate) mod path_gate;
pub mod patterns;
mod phase;
mod profiler;
mod python_import;
pub mod release_fault;
mod release_table;
pub mod rule;
pub mod shared_folders;
mod tables;
pub mod user_folders;
pub mod vertex;
pub mod weight_group;
mod wheel_table;
pub mod yaml_text;

pub use catalog::{DataFile, DataKind};
pub use consumer_profile::{
    ConsumerBuild, ConsumerProfile, ConsumerVariant, FailureImpact, ProfileEvidence, RequestKind,
};
pub(crate) use consumer_profile::{is_known_part, opens_library, split_variable};
pub use data_files::knowledge_date;
pub use framework_wheels::FrameworkWheels;
pub use function_table::{FunctionSpan, FunctionTable};
pub use index_tables::{EndedFunctions, FrameworkRelease, ReleaseBuild, ResultCode};
pub use knowledge_base::Knowledge;
pub use library::{
    FamilyLibrary, HeaderVersion, InstallPlaces, LibraryProfile, OwnVersion, SonameRule, WheelNames, WheelOwner,
    WheelPackage, fill_version,
};
pub use library_release::{LibraryRelease, has_api, has_ended, version_numbers};
pub use mistake::FileMistake;
pub use opened_text::OpenedText;
pub use patterns::matches_name_pattern;
pub use phase::{DeadWeightPolicy, IdChoice, Phase, PhaseRequirements, SEVERITY_PHASES};
pub use profiler::{CuptiNeed, KnownIds, Profiler, ProfilerFile, ToolCondition, ToolExclusion, ToolOverhead};
pub use python_import::{ImportStep, LibraryRow, PythonImport};
pub use release_table::{ReleaseFile, ReleaseTable};
pub(crate) use tables::built_in_releases;
pub use tables::{BundleFolder, KnowledgeTables, ProfiledFramework};
pub use wheel_table::{ListedWheel, WheelTable};

#[cfg(test)]
mod tests;
