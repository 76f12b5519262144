//! The arguments of `dockerfile`: an image, a phase, and the way by which CUPTI comes in.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::shared_args::{CuptiOnlyArgs, ReadArgs};
use crate::make::remedy::install_method::MethodKind;

const HELP: &str = "\
Without --via the ways are tried from the cheapest on, and a comment says why each was taken or not: what is in
the image already and is only not found, files of --from, pip where a Python environment asks for CUPTI, the
distribution's own package, NVIDIA's package, conda, pip, and files of NVIDIA's devel image.

The last step proves by the image's own loader that what the phase needs is found: if not, the build fails.
An image that serves the phase already gets that proof alone.

Exit codes:
  0  written
  2  it could not be done: the image cannot be helped, or not in this way

Examples:
  cupti-audit dockerfile nvidia/cuda:12.4.1-runtime-ubuntu22.04 --phase training -o Dockerfile
  cupti-audit dockerfile docker-daemon:trainer:1 --phase profiling --from nvidia/cuda:12.4.1-devel-ubuntu22.04
  cupti-audit dockerfile docker-daemon:trainer:1 --all-phases --with-builder --cloudbuild -o Dockerfile
  cupti-audit dockerfile docker-daemon:model:1 --phase inference -o Dockerfile && docker build -t model:slim - < Dockerfile";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct DockerfileArgs {
    /// The image
    #[arg(value_name = "IMAGE")]
    pub image_name: String,
    /// What the image is to be for
    // No default: every phase changes an image in another way.
    #[arg(long, value_name = "PHASE", required_unless_present = "all_phases")]
    pub phase: Option<String>,
    /// One file with a target for each phase, and one that compiles
    #[arg(long, conflicts_with = "phase")]
    pub all_phases: bool,
    /// PyTorch is built from its sources in the target that compiles
    #[arg(long, requires = "all_phases", conflicts_with = "phase")]
    pub with_builder: bool,
    /// The matching configuration of Cloud Build [default: cloudbuild.yaml]
    // With `=` alone: else `--cloudbuild IMAGE` would take the image for the file.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "cloudbuild.yaml", require_equals = true, requires = "all_phases", conflicts_with = "phase")]
    pub cloudbuild: Option<PathBuf>,
    /// How CUPTI comes in, or several ways in the order in which they are tried [default: the cheapest that works]
    #[arg(long, value_enum, value_name = "WAY", value_delimiter = ',')]
    pub via: Vec<ViaArg>,
    /// Remove all files that the phase does not need; for inference, without this, all but compilers and stubs
    #[arg(long)]
    pub drop: bool,
    /// The image to copy from: one of a registry or an engine, which FROM can name
    #[arg(long, value_name = "IMAGE")]
    pub from: Option<String>,
    /// The version of CUDA, such as 12.4, where the image does not say it or is to have another
    #[arg(long, value_name = "VERSION")]
    pub cuda: Option<String>,
    /// The name of the image for FROM, where it is read from a file or a folder
    #[arg(long, value_name = "NAME")]
    pub base: Option<String>,
    /// The file to write, whole or not at all [default: standard output]
    #[arg(long = "output", short = 'o', value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Write over a file that is there
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub only: CuptiOnlyArgs,
    #[command(flatten)]
    pub read: ReadArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ViaArg {
    /// The distribution's own package, or NVIDIA's
    Apt,
    /// NVIDIA's package for Red Hat's systems
    Dnf,
    /// NVIDIA's wheel, into a Python environment of the image
    Pip,
    /// conda-forge's package
    Conda,
    /// Files of another image: that of --from, or NVIDIA's devel image
    Copy,
}

// The words of the flag are a promise to users; what `make` calls its ways is not.
impl From<ViaArg> for MethodKind {
    fn from(argument: ViaArg) -> Self {
        match argument {
            ViaArg::Apt => Self::Apt,
            ViaArg::Dnf => Self::Dnf,
            ViaArg::Pip => Self::Pip,
            ViaArg::Conda => Self::Conda,
            ViaArg::Copy => Self::Copy,
        }
    }
}
