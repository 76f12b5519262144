//! The arguments of `slim`: an image, what it is to be for, and where the new one goes.

use clap::Args;

use super::shared_args::{CuptiOnlyArgs, ReadArgs};
use crate::make::slim::output::ImageOutput;

const HELP: &str = "\
Outputs:
  oci:DIR[:TAG]             an OCI image layout, new, or one that gains an image
  oci-archive:FILE[:TAG]    the same in a tar
  docker-archive:FILE[:NAME]  what docker load reads
  docker-daemon:NAME        a Docker Engine
  docker://REG/NAME[:TAG]   a registry; layers that stay are mounted where it has the image too
  What is there already is replaced with --force only, and what cannot be finished leaves nothing. A pipe is
  written into: docker-archive:/dev/stdout

What stays as it is keeps its layers, byte for byte. What is brought comes in one layer on top, with the
loader's cache made anew; with --drop the layers that hold dead weight are written again without it.
The same input gives the same digest. /usr/share/cupti-audit/proof.json in the image says what was done.

Exit codes:
  0  the image was made, and its audit for the phase passes
  2  nothing was made: it could not be done, or the audit of what it came to does not pass

Examples:
  cupti-audit slim trainer:1 --phase profiling --cupti-from nvidia/cuda:12.4.1-devel-ubuntu22.04 -o oci:out:1
  cupti-audit slim docker-daemon:app --phase inference --drop -o docker-daemon:app:slim
  cupti-audit slim reg.example/app:1 --phase inference --drop --dry-run";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct SlimArgs {
    /// The image
    #[arg(value_name = "IMAGE")]
    pub image_name: String,
    /// What the new image is for: inference, training, profiling, or a phase of --profiles
    // Exactly one: what a phase drops the next may need.
    #[arg(long, value_name = "PHASE")]
    pub phase: String,
    /// Where CUPTI is brought from, if the image does not serve the phase: an image, a wheel or a folder; without it, one
    /// that lies in the image is put on the search path
    #[arg(long, value_name = "IMAGE|WHEEL|DIR")]
    pub cupti_from: Option<String>,
    /// Leave out the files that the phase does not need
    #[arg(long)]
    pub drop: bool,
    /// Where the new image is put
    // No default place: what is written without being asked for could replace an image.
    #[arg(long = "output", short = 'o', value_name = "OUTPUT", value_parser = ImageOutput::parse, required_unless_present = "dry_run")]
    pub to: Option<ImageOutput>,
    /// Replace what is there already
    #[arg(long)]
    pub force: bool,
    /// Say what would be done and whether it would serve, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub only: CuptiOnlyArgs,
    #[command(flatten)]
    pub read: ReadArgs,
}
