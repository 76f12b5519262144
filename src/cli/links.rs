//! The arguments of `links`: an image, and which of its objects are asked.

use clap::Args;

use super::audit::AuditArgs;
use super::shared_args::{AssumptionArgs, PurposeArgs, ReadArgs, ReportArgs};
use crate::knowledge::DEFAULT_LIBRARY;

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

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct LinksArgs {
    /// The image
    #[arg(value_name = "IMAGE")]
    pub image_name: String,
    /// Objects, or folders of them; all of the image when left out
    #[arg(value_name = "OBJECT")]
    pub objects: Vec<String>,
    #[command(flatten)]
    pub report: ReportArgs,
    #[command(flatten)]
    pub read: ReadArgs,
}

impl LinksArgs {
    /// The same as an audit takes it, and the objects that are asked.
    pub fn into_audit(self) -> (AuditArgs, Vec<String>) {
        let args = AuditArgs {
            assumptions: AssumptionArgs::default(),
            images: vec![self.image_name],
            purpose: PurposeArgs::default(),
            report: self.report,
            library: DEFAULT_LIBRARY.to_owned(),
            read: self.read,
        };
        (args, self.objects)
    }
}
