//! The merged file system of an image: layers applied in order, every node knowing its layer.
//!
//! [`apply`] puts a layer on top; [`lookup`] walks a path as the kernel does inside the root, for root or with the
//! [`credentials`] of another user.

mod apply;
mod credentials;
mod lookup;
mod tree;

pub use apply::{ApplyProblem, merge_layers};
pub use credentials::{AccessDenial, FileCredentials, FileUse};
pub(crate) use lookup::PATH;
pub use lookup::{LookupError, ResolvedPath};
pub use tree::{NodeId, NodeKind, Rootfs, RootfsNode};
