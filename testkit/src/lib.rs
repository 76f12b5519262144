//! Makes the ELF objects, layers and images that the tests and `testdata/images` are built from.
//!
//! No compiler, no container engine and no network is needed, and the same input gives the same bytes.
//! [`elf`], [`ldcache`] and [`layer`] make parts, and [`oci`] puts them together.

pub mod elf;
pub mod layer;
pub mod ldcache;
pub mod oci;
