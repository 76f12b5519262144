//! The merged file system of an image. Every node knows its layer.
//!
//! [`apply`] merges a layer on top. [`lookup`] resolves paths like the kernel, for root or with the [`credentials`] of
//! another user.

mod apply;
mod credentials;
mod lookup;
mod tree;

pub use apply::{ApplyProblem, merge_layers};
pub use credentials::{AccessDenial, FileCredentials, FileUse};
pub(crate) use lookup::PATH;
pub use lookup::{LookupError, ResolvedPath};
pub use tree::{NodeId, NodeKind, Rootfs, RootfsNode};
