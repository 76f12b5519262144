//! The arguments of `check`: a Dockerfile.

use clap::Args;

use super::shared_args::{ConfigArgs, DisplayArgs, ReportArgs};

const HELP: &str = "\
Says before a build that a RUN or COPY brings no libcupti, that of another CUDA, or onto no search path. What a script, the
build's context or an image of your own brings it does not know, and claims nothing of it.

Exit codes:
  0  no finding at or above --fail-on; the image is another matter: cupti-audit IMAGE
  1  findings
  2  it could not be done, such as a file that is no Dockerfile

Examples:
  cupti-audit check Dockerfile --phase training
  cupti-audit check --target runtime --format github docker/Dockerfile
  cupti-audit check -o sarif=check.sarif Dockerfile";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct CheckArgs {
    /// The Dockerfile; - is standard input
    #[arg(value_name = "FILE", default_value = "Dockerfile")]
    pub file: String,
    /// The stage that becomes the image [default: the last]
    #[arg(long, value_name = "STAGE")]
    pub target: Option<String>,
    /// What the image is for; severities follow it (repeatable)
    #[arg(long, value_name = "PHASE", env = "CUPTI_AUDIT_PHASE", value_delimiter = ',')]
    pub phase: Vec<String>,
    #[command(flatten)]
    pub report: ReportArgs,
    #[command(flatten)]
    pub own: ConfigArgs,
    #[command(flatten)]
    pub output: DisplayArgs,
}
