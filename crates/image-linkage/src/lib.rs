//! Predicts what the dynamic loader does in a container image, from the image's bytes.
//!
//! Data flows one way. A layer is streamed once into an index of facts ([`layer`], [`elf`]). The indexes are applied to
//! one file system ([`rootfs`]), and the dynamic loader's search is simulated on it ([`loader`]). The crate knows no
//! particular library, does no network or host file access, and executes nothing.

pub mod digest;
pub mod elf;
pub mod layer;
pub mod loader;
mod name_map;
pub mod rootfs;

pub mod escape;
pub mod limits;
pub mod path;
