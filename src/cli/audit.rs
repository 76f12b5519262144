//! The arguments of `audit`: images, what fails the run, and where reports go.

use clap::Args;

use super::option_values::{FailOnArg, OutputFile, ReportFormat};
use super::shared_args::ReadArgs;
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
    /// From which severity on findings fail [default: error]
    #[arg(long, value_enum, value_name = "SEVERITY", env = "CUPTI_AUDIT_FAIL_ON")]
    // No default of clap's: what is still open here is filled from the config.
    pub fail_on: Option<FailOnArg>,
    /// The form of the report [default: text]
    #[arg(long, value_enum, env = "CUPTI_AUDIT_FORMAT")]
    pub format: Option<ReportFormat>,
    /// A report in a file besides, such as json=audit.json
    ///
    /// Repeatable; - is standard output.
    #[arg(long = "output", short, value_name = "FORMAT=FILE", value_parser = OutputFile::parse,
        // A variable is one text, so that commas part what a flag says several times.
        env = "CUPTI_AUDIT_OUTPUT", value_delimiter = ',')]
    pub outputs: Vec<OutputFile>,
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
