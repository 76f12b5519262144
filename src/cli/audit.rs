//! The arguments of `audit`: images, what fails the run, and where reports go.

use clap::Args;

use super::shared_args::{ReadArgs, ReportArgs};
use crate::knowledge::DEFAULT_LIBRARY;

#[derive(Debug, Args)]
pub struct AuditArgs {
    /// The images; the gravest outcome counts
    #[arg(value_name = "IMAGE", required = true)]
    pub images: Vec<String>,
    /// What the image is for: inference, prototype, training, profiling
    ///
    /// Or a phase of --profiles; severities follow it (repeatable).
    #[arg(long, value_name = "PHASE", env = "CUPTI_AUDIT_PHASE", value_delimiter = ',')]
    pub phase: Vec<String>,
    /// A profiling tool that has to work, such as torch.profiler (repeatable)
    ///
    /// One that would not is an error, with the reason.
    #[arg(long = "tool", value_name = "TOOL", env = "CUPTI_AUDIT_TOOL", value_delimiter = ',')]
    pub tools: Vec<String>,
    #[command(flatten)]
    pub report: ReportArgs,
    /// The library that the images are asked about: a file of libraries/ of the profiles
    #[arg(
        long,
        value_name = "NAME",
        env = "CUPTI_AUDIT_LIBRARY",
        hide_short_help = true,
        default_value = DEFAULT_LIBRARY
    )]
    pub library: String,
    #[command(flatten)]
    pub read: ReadArgs,
}
