//! Entry scripts modelled on public images. Each image exists as layers, for the audit, and as a root file system, in
//! which the real command runs.

pub mod base;
pub mod case;
pub mod compare;
pub mod image;
pub mod judge;
pub mod mutants;
pub mod random;
pub mod subject;
