//! `links`: lists the missing dependencies of every program and library in an image.

use clap::Args;

use super::audit::{AuditArgs, AuditQuestion, judge, prepare};
use crate::cli::shared_args::{DetailArgs, PlatformArgs, PurposeArgs, ReadArgs, ReportArgs};
use crate::cli::terminal::CommandError;
use crate::judge::outcome::RunExit;
use crate::judge::rule::RuleQuestion;

const HELP: &str = "\
A program is checked as if it were started, and a library as `ldd` would check it. The variables and the user are \
those of the image. Nothing is run. Driver libraries are listed, but they do not count as missing.

Findings are grouped by the missing library. Suppressions in the config apply; their `path` matches the objects that \
need the library.

Exit codes:
  0  no finding at or above --fail-on
  1  findings: a library is missing or cannot be loaded
  2  an error, or some objects could not be checked

Examples:
  cupti-audit links docker-daemon:trainer:1
  cupti-audit links trainer.tar /opt/app /usr/bin/python3
  cupti-audit links --fail-on warning -o sarif=links.sarif docker-daemon:trainer:1";

/// List missing libraries of all programs and libraries in an image
///
/// Shows one entry for each missing library, with the objects that need it.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct LinksArgs {
    /// Image to read
    #[arg(value_name = "IMAGE")]
    image_name: String,
    /// Programs, libraries or directories in the image [default: all]
    #[arg(value_name = "OBJECT")]
    objects: Vec<String>,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    platform: PlatformArgs,
    #[command(flatten)]
    read: ReadArgs,
    #[command(flatten)]
    output: DetailArgs,
}

impl LinksArgs {
    pub fn run(self) -> Result<RunExit, CommandError> {
        // This is an audit of one image with another question.
        let mut args = AuditArgs {
            platform: self.platform,
            output: self.output,
            ..AuditArgs::of_images(vec![self.image_name], self.report, self.read)
        };
        let (knowledge, suppressions) = prepare(&mut args, RuleQuestion::Links)?;
        // The config's phases and tools are for audits.
        args.purpose = PurposeArgs::default();
        judge(&args, &knowledge, &suppressions, &AuditQuestion::Links(self.objects))
    }
}
