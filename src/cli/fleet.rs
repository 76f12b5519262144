//! The arguments of `fleet`: many images, on an engine that runs workers.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::option_values::FailOnArg;
use super::shared_args::{ColorArg, PurposeArgs, ReadArgs};
use crate::fleet::WorkShare;
use crate::knowledge::DEFAULT_LIBRARY;

const LIST_HELP: &str = "\
Sources:
  registry:HOST[/REPOSITORY][:TAG]  what a registry holds; both may be patterns: registry:reg.example/team/*:v*
  FILE, or - for standard input     references, a line each; a Dockerfile, by what it begins from; or what
                                    kubectl get … -o json writes, by every container
  IMAGE                             one image

One line of JSON for each digest and platform, in the order of the digests: the same images give the same bytes.

Exit codes:
  0  every image was found
  2  one was not, or a source could not be read; the others are listed all the same

Examples:
  cupti-audit fleet list registry:reg.example/team/** > work.jsonl
  kubectl get pods,cronjobs -A -o json | cupti-audit fleet list - > work.jsonl
  cupti-audit fleet list images.txt docker/Dockerfile --platform all -o work.jsonl";

const RUN_HELP: &str = "\
Takes its share by JOB_COMPLETION_INDEX (Kubernetes, with --shards), CLOUD_RUN_TASK_INDEX, SLURM_ARRAY_TASK_ID or
AWS_BATCH_JOB_ARRAY_INDEX, or by --shard; all where none is set. Each image has one result, written once; what has one
is passed over, so that a run goes on where it was killed. What could not be audited is noted beside, and tried again by
the next run. A cache that the workers share (--cache-dir) has each layer read once.

Exit codes:
  0  each image of the share has a result, whatever its verdict: fleet report says that
  2  one has none; run it again

Examples:
  cupti-audit fleet run work.jsonl --out results --phase training
  cupti-audit fleet run work.jsonl --out s3://audits/nightly --shard 3/10
  srun cupti-audit fleet run work.jsonl --out /shared/results --cache-dir /shared/cache";

const REPORT_HELP: &str = "\
Exit codes:
  0  no image has a finding at or above the --fail-on of the run
  1  one has
  2  one has an open verdict, no result, or could not be audited

Examples:
  cupti-audit fleet report results --worklist work.jsonl
  cupti-audit fleet report s3://audits/nightly --since s3://audits/last-week --format html > fleet.html
  cupti-audit fleet report results --format prometheus > /var/lib/node_exporter/cupti.prom";

#[derive(Debug, Args)]
pub struct FleetArgs {
    #[command(subcommand)]
    pub action: FleetAction,
}

/// The steps of auditing a fleet.
#[derive(Debug, Subcommand)]
pub enum FleetAction {
    /// List images by digest: those of registries, clusters, files
    List(Box<FleetListArgs>),
    /// Audit a worklist, or one worker's share of it
    Run(Box<FleetRunArgs>),
    /// Say what all images come to
    Report(FleetReportArgs),
}

#[derive(Debug, Args)]
#[command(after_help = LIST_HELP)]
pub struct FleetListArgs {
    /// Where the images are named
    #[arg(value_name = "SOURCE", required = true)]
    pub sources: Vec<String>,
    /// The worklist; - is standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
    #[command(flatten)]
    pub read: ReadArgs,
}

#[derive(Debug, Args)]
#[command(after_help = RUN_HELP)]
pub struct FleetRunArgs {
    /// The worklist; - is standard input
    #[arg(value_name = "WORKLIST")]
    pub worklist: String,
    /// Where the results are kept: a folder, or `s3://BUCKET/PREFIX`
    #[arg(long, value_name = "DIR|URL", env = "CUPTI_AUDIT_FLEET_OUT")]
    pub out: String,
    /// Which share of the list, the first being 1
    #[arg(long, value_name = "K/N", value_parser = WorkShare::parse)]
    pub shard: Option<WorkShare>,
    /// How many workers there are, where their engine does not say it
    #[arg(long, value_name = "N", env = "CUPTI_AUDIT_SHARDS", value_parser = at_least_one)]
    pub shards: Option<usize>,
    #[command(flatten)]
    pub purpose: PurposeArgs,
    /// From which severity on findings fail an image [default: error]
    #[arg(long, value_enum, value_name = "SEVERITY", env = "CUPTI_AUDIT_FAIL_ON")]
    pub fail_on: Option<FailOnArg>,
    /// The library that the images are asked about: a file of libraries/ of the profiles
    #[arg(long, value_name = "NAME", env = "CUPTI_AUDIT_LIBRARY", hide_short_help = true, default_value = DEFAULT_LIBRARY)]
    pub library: String,
    #[command(flatten)]
    pub read: ReadArgs,
}

#[derive(Debug, Args)]
#[command(after_help = REPORT_HELP)]
pub struct FleetReportArgs {
    /// Where the results are kept
    #[arg(value_name = "DIR|URL")]
    pub out: String,
    /// The worklist, to tell which images have no result yet
    #[arg(long, value_name = "FILE")]
    pub worklist: Option<String>,
    /// The results of an earlier run, to tell what changed
    #[arg(long, value_name = "DIR|URL")]
    pub since: Option<String>,
    /// The form of the report
    #[arg(long, value_enum, default_value = "text")]
    pub format: FleetFormat,
    /// Colours: on a terminal, always, or never (`NO_COLOR` is respected)
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    pub color: ColorArg,
}

/// The form of a report on many images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FleetFormat {
    /// For people
    Text,
    /// One page for a browser; it needs nothing beside itself
    Html,
    /// For a page or a comment
    Markdown,
    /// For programs: one object per image, a line each
    Json,
    /// A row per image
    Csv,
    /// Numbers in Prometheus's text format
    Prometheus,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "expected a number from 1 on".to_owned())
}
