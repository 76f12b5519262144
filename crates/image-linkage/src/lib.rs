//! What the dynamic loader would do in a container image, worked out from the image's bytes.
//!
//! The flow is one way: a layer is read once as a stream into an index of facts ([`layer`], [`elf`]), the indexes are
//! applied to one file system ([`rootfs`]), and the dynamic loader's search is followed on it ([`loader`]). Nothing here
//! knows a particular library, touches the network or the host's files, or executes anything.

pub mod digest;
pub mod elf;
pub mod layer;
pub mod loader;
mod name_map;
pub mod rootfs;

pub mod escape;
pub mod limits;
pub mod path;
