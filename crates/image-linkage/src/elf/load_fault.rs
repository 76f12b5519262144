//! Reasons why loaders refuse an intact object.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A reason why loaders refuse an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LoadFault {
    /// A `PT_DYNAMIC` without content, as in debug files. glibc refuses it since 2.35.
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
