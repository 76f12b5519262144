//! The arguments of `audit`: images, what fails the run, and where reports go.

use clap::Args;

use super::shared_args::{AssumptionArgs, PurposeArgs, ReadArgs, ReportArgs};
use crate::knowledge::DEFAULT_LIBRARY;

#[derive(Debug, Args)]
pub struct AuditArgs {
    /// The images; the gravest outcome counts
    #[arg(value_name = "IMAGE", required = true)]
    pub images: Vec<String>,
    #[command(flatten)]
    pub purpose: PurposeArgs,
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
    pub assumptions: AssumptionArgs,
    #[command(flatten)]
    pub read: ReadArgs,
}
