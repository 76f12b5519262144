//! Files that may be dead weight, and the references to them.

pub mod dead_weight;
pub mod file_references;
pub mod gpu_code;
