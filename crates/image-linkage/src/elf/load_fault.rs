//! What a loader refuses in an object that is whole.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Something in an object that keeps loaders from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LoadFault {
    /// A `PT_DYNAMIC` without a byte in the file, as in files of debugging information: glibc refuses it from 2.35 on.
    EmptyDynamic,
    /// `DF_1_NOOPEN`: dlopen refuses it.
    NoOpen,
}

impl fmt::Display for LoadFault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::EmptyDynamic => "object file has no dynamic section",
            Self::NoOpen => "shared object cannot be dlopen()ed",
        })
    }
}
