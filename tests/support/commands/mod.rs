//! Entry scripts after those of public images, in images that exist twice: as layers, for the audit, and as a root file
//! system, in which the real command is run.

pub mod base;
pub mod case;
pub mod compare;
pub mod image;
pub mod judge;
pub mod mutants;
pub mod random;
pub mod subject;
