//! Builds the ELF objects, layers and images for the tests and for `testdata/images`.
//!
//! Needs no compiler, container engine or network. The same input gives the same bytes. [`elf`], [`ldcache`] and
//! [`layer`] build parts, [`oci`] combines them, and [`spec`] reads a whole image from a text file. [`parts`] finds
//! real files that cannot be built, and [`run`] starts programs that a test has written.

pub mod elf;
pub mod gpu_object;
pub mod layer;
pub mod ldcache;
pub mod oci;
pub mod parallel;
pub mod parts;
pub mod random;
pub mod run;
pub mod seeds;
pub mod spec;
