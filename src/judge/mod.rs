//! Turns an image's layers into facts, findings, and a plan for each phase.

pub mod audit;
pub mod build_file;
pub mod file_check;
pub mod image_diff;
pub mod image_reading;
mod links;
pub mod lock_file;
pub mod log_errors;
pub mod outcome;
pub mod plan;
pub mod rule;
mod verdict_line;
