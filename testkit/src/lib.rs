//! Makes the ELF objects, layers and images that the tests and `testdata/images` are built from.
//!
//! No compiler, no container engine and no network is needed, and the same input gives the same bytes.
//! [`elf`], [`ldcache`] and [`layer`] make parts, [`oci`] puts them together, and [`spec`] reads a whole
//! image from a readable file. [`parts`] finds what is real and cannot be made.

pub mod elf;
pub mod layer;
pub mod ldcache;
pub mod oci;
pub mod parallel;
pub mod parts;
pub mod seeds;
pub mod spec;
