//! Software that requests CUPTI: files and copies of the library, their owners, the requests, and their results.

pub mod cached_packages;
pub mod command_start;
pub mod companions;
pub(crate) mod conda_records;
pub mod consumer_outcome;
pub mod consumers;
pub mod copies;
pub mod copy_version;
pub mod cuda_runtime;
pub mod cupti_access;
pub mod cupti_files;
pub mod expected_soname;
pub mod file_owner;
pub mod file_removals;
pub mod given_assumption;
pub(crate) mod imported_object;
pub mod opened_names;
pub mod package_files;
pub mod process_variants;
pub mod related_software;
pub mod replaced_files;
pub mod requirements;
pub(crate) mod rpm_database;
pub mod search_path;
pub mod source_openers;
pub(crate) mod source_text;
