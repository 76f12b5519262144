//! The arguments of `audit`: images, what fails the run, and where reports go.

use clap::Args;
use clap::builder::FalseyValueParser;

use super::shared_args::{PurposeArgs, ReadArgs, ReportArgs};
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
    /// Count a verdict that rests on an assumption as open (exit 2)
    #[arg(long, env = "CUPTI_AUDIT_STRICT", value_parser = FalseyValueParser::new(), hide_short_help = true)]
    pub strict: bool,
    /// Assumption that holds, by its id in the report (repeatable)
    #[arg(long, value_name = "ID", hide_short_help = true)]
    pub accept: Vec<String>,
    #[command(flatten)]
    pub read: ReadArgs,
}
