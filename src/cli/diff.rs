//! The arguments of `diff`: two images.

use clap::Args;

use super::option_values::FailOnArg;
use super::shared_args::ReadArgs;
use super::tools::AnswerFormat;

const HELP: &str = "\
Bytes by what the files belong to and by layer, copies of CUPTI and programs that get it or no longer do, phases and
findings. What is alike in both is left out.

Exit codes:
  0  AFTER has no finding at or above --fail-on that BEFORE has not
  1  it has one
  2  it could not be done, or something could not be checked

Examples:
  cupti-audit diff trainer:1 trainer:2
  cupti-audit diff --phase training --format markdown reg.example/app:main docker-daemon:app
  cupti-audit diff --format html old.tar new.tar > diff.html";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct DiffArgs {
    /// The image that is compared with
    #[arg(value_name = "BEFORE")]
    pub before: String,
    /// The image that is compared
    #[arg(value_name = "AFTER")]
    pub after: String,
    /// What the images are for; severities follow it (repeatable)
    #[arg(long, value_name = "PHASE", value_delimiter = ',')]
    pub phase: Vec<String>,
    /// From which severity on a finding that is new fails [default: error]
    #[arg(long, value_enum, value_name = "SEVERITY")]
    pub fail_on: Option<FailOnArg>,
    /// The form of the report
    #[arg(long, value_enum, default_value = "text")]
    pub format: AnswerFormat,
    #[command(flatten)]
    pub read: ReadArgs,
}
