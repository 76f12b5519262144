//! Files that may be dead weight, the references to them, GPU code, and the bytes of all files by group.

pub mod dead_weight;
pub mod file_references;
pub mod gpu_code;
pub mod weight_groups;
