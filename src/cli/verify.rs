//! The arguments of `verify`: what the container that this process runs in has to serve, and what is run then.

use clap::Args;

use super::audit::AuditArgs;
use super::shared_args::{AssumptionArgs, PurposeArgs, ReadArgs, ReportArgs};
use crate::knowledge::DEFAULT_LIBRARY;

const HELP: &str = "\
The audit of an image, asked of the container that this process runs in: its files with what was mounted and injected, its
environment, its user and capabilities, and what the host grants by the files of /proc. Mounted folders are read where the
system or a variable leads to them.

With a command, that is what is judged; it takes the place of this process when nothing fails, else it is not started.

Exit codes:
  0  what was asked for works here (without a command)
  1  it does not
  2  it could not be told

Examples:
  cupti-audit verify --phase training
  cupti-audit verify --phase profiling --tool ncu --format json
  cupti-audit verify --phase training -- python train.py";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct VerifyArgs {
    #[command(flatten)]
    pub purpose: PurposeArgs,
    /// Start the command whatever was found
    #[arg(long)]
    pub anyway: bool,
    #[command(flatten)]
    pub assumptions: AssumptionArgs,
    #[command(flatten)]
    pub report: ReportArgs,
    #[command(flatten)]
    pub read: ReadArgs,
    /// The command that is judged, and run when nothing fails
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

impl VerifyArgs {
    /// The same as an audit takes it.
    pub fn into_audit(self) -> AuditArgs {
        AuditArgs {
            assumptions: self.assumptions,
            images: vec!["rootfs:/".to_owned()],
            purpose: self.purpose,
            report: self.report,
            library: DEFAULT_LIBRARY.to_owned(),
            read: self.read,
        }
    }
}
