//! `links`: lists the missing dependencies of every program and library in an image.

use clap::Args;

use super::audit::{AuditArgs, AuditQuestion, judge, prepare};
use crate::cli::shared_args::{PurposeArgs, ReadArgs, ReportArgs};
use crate::cli::terminal::CommandError;
use crate::judge::outcome::RunExit;
use crate::judge::rule::RuleQuestion;

const HELP: &str = "\
Each program is started as the kernel does it, each library is mapped by itself, as ldd does it, with the variables
and the user of the image. What the driver brings at run time is listed and not missed. Nothing is run.

Findings are grouped by the library that is missing. Suppressions of the config hold: path stands for the objects that
need it.

Exit codes:
  0  every object finds what it needs, or what is missing is below --fail-on
  1  something is missing
  2  it could not be done, or something could not be followed

Examples:
  cupti-audit links docker-daemon:trainer:1
  cupti-audit links trainer.tar /opt/app /usr/bin/python3
  cupti-audit links --fail-on warning -o sarif=links.sarif docker-daemon:trainer:1";

/// List the libraries that programs and libraries of an image lack
///
/// One entry for each missing library, with the objects that need it.
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
    read: ReadArgs,
}

impl LinksArgs {
    pub fn run(self) -> Result<RunExit, CommandError> {
        // This is an audit of one image with another question.
        let mut args = AuditArgs::of_images(vec![self.image_name], self.report, self.read);
        let (knowledge, suppressions) = prepare(&mut args, RuleQuestion::Links)?;
        // The config's phases and tools are for audits.
        args.purpose = PurposeArgs::default();
        judge(&args, &knowledge, &suppressions, &AuditQuestion::Links(self.objects))
    }
}
