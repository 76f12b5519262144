//! The arguments of `tree`: an image and one of its objects.

use clap::{Args, ValueEnum};

use super::shared_args::ReadArgs;
use crate::facts::World;

#[derive(Debug, Args)]
pub struct TreeArgs {
    /// The image
    #[arg(value_name = "IMAGE")]
    pub image_name: String,
    /// A path in the image, or a soname such as libcupti.so.12
    pub object: String,
    /// The image as it is, or under the NVIDIA container runtime
    // As it is, which is also what a build of the image or a run without a GPU sees.
    #[arg(long, value_enum, default_value = "as-is")]
    pub world: WorldArg,
    /// The form of the tree
    #[arg(long, value_enum, default_value = "text")]
    pub format: TreeFormat,
    #[command(flatten)]
    pub read: ReadArgs,
}

/// The form of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TreeFormat {
    /// For people
    Text,
    /// For programs: one object
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WorldArg {
    /// The image as it is.
    AsIs,
    /// Driver libraries present, the loader's cache made anew.
    Nvidia,
}

// The facts know no clap, so that the flag has an enum of its own.
impl From<WorldArg> for World {
    fn from(argument: WorldArg) -> Self {
        match argument {
            WorldArg::AsIs => Self::AsIs,
            WorldArg::Nvidia => Self::Nvidia,
        }
    }
}
