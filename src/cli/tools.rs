//! What `profilers` and `advise` take.

use clap::{Args, ValueEnum};

use super::shared_args::{ColorArg, ConfigArgs, CuptiOnlyArgs, ReadArgs};

const PROFILERS_HELP: &str = "\
States:
  ready           as far as an image shows it
  not ready       something is missing; the reason is the loader's
  not applicable  there is nothing in the image for it to look at
  not known       an image does not show it, as with CUPTI that is linked statically

Exit codes:
  0  done, whatever the states
  2  it could not be done, or something could not be checked

Examples:
  cupti-audit profilers pytorch/pytorch
  cupti-audit profilers --format markdown docker-daemon:trainer:latest
  cupti-audit profilers -e KINETO_USE_DAEMON=1 docker-daemon:trainer:latest";

const ADVISE_HELP: &str = "\
Without --tool and --phase, the tools that can be asked about are listed.

Exit codes:
  0  answered
  2  there is no such tool, or no such version

Examples:
  cupti-audit advise --tool torch.profiler --tool nsys
  cupti-audit advise --phase profiling --cuda 12.4
  cupti-audit advise --tool proton --format markdown";

#[derive(Debug, Args)]
#[command(after_help = PROFILERS_HELP)]
pub struct ProfilersArgs {
    /// The image
    #[arg(value_name = "IMAGE")]
    pub image_name: String,
    /// The form of the report
    #[arg(long, value_enum, default_value = "text")]
    pub format: AnswerFormat,
    #[command(flatten)]
    pub only: CuptiOnlyArgs,
    #[command(flatten)]
    pub read: ReadArgs,
}

#[derive(Debug, Args)]
#[command(after_help = ADVISE_HELP)]
pub struct AdviseArgs {
    /// A profiling tool that is to be used, such as torch.profiler or nsys (repeatable)
    #[arg(long = "tool", short, value_name = "TOOL")]
    pub tools: Vec<String>,
    /// What the image is for: inference, training, profiling, or a phase of --profiles
    #[arg(long, value_name = "PHASE")]
    pub phase: Option<String>,
    /// The version of CUDA, such as 12.4 [default: the newest 12.x that is known]
    #[arg(long, value_name = "VERSION")]
    pub cuda: Option<String>,
    /// The form of the answer
    #[arg(long, value_enum, default_value = "text")]
    pub format: AnswerFormat,
    /// Colours: on a terminal, always, or never (`NO_COLOR` is respected)
    // Of its own: `advise` reads no image, and has none of the options on how one is read.
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    pub color: ColorArg,
    #[command(flatten)]
    pub only: CuptiOnlyArgs,
    #[command(flatten)]
    pub own: ConfigArgs,
}

/// The form of an answer on tools.
// Fewer forms than a report has: SARIF, JUnit and annotations hold findings, and here are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AnswerFormat {
    /// For people
    Text,
    /// For programs: one object
    Json,
    /// For a page or a comment
    Markdown,
    /// One page for a browser; it needs nothing beside itself
    Html,
}
