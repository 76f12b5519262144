//! What has weight: the files that may be dead weight, and who refers to them.

pub mod dead_weight;
pub mod file_references;
