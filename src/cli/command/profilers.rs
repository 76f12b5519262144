//! `profilers`: reports which profiling tools would work in an image.

use crate::cli::option_values::one_of;
use crate::cli::shared_args::{OnePlatformArgs, ProgressArgs, ReadArgs};
use crate::facts::ImageFacts;
use crate::judge::outcome::RunExit;
use crate::judge::plan::profilers::installed_tools;
use crate::judge::plan::{host_notes, profilers};
use crate::knowledge::Profiler;
use crate::report::pages::profilers::{ProfilerMatrix, profilers_json, profilers_page};
use crate::report::{ANSWER_FORMATS, ReportFormat};
use clap::Args;

use crate::cli::image_reader::PreparedCommand;
use crate::cli::terminal::{CommandError, write_answer};

const HELP: &str = "\
States:
  ready           nothing in the image prevents it from working
  not ready       something is missing; the report shows the loader's error
  not applicable  the image has nothing that the tool could profile
  not known       the image does not show it, for example because CUPTI is linked statically

Exit codes:
  0  answered, whatever the states
  2  an error, or something could not be checked

Examples:
  cupti-audit profilers pytorch/pytorch
  cupti-audit profilers --format markdown docker-daemon:trainer:latest
  cupti-audit profilers --env KINETO_USE_DAEMON=1 docker-daemon:trainer:latest";

/// Show which profiling tools work in an image, and why others do not
///
/// Also shows what each tool lacks, and which tools to use instead.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct ProfilersArgs {
    /// Image to read
    #[arg(value_name = "IMAGE")]
    image_name: String,
    /// Format of the report
    #[arg(long, default_value = "text", value_parser = one_of(&ANSWER_FORMATS))]
    format: ReportFormat,
    #[command(flatten)]
    platform: OnePlatformArgs,
    #[command(flatten)]
    read: ReadArgs,
    #[command(flatten)]
    progress: ProgressArgs,
}

impl ProfilersArgs {
    /// Judges the profiling tools in one image.
    pub fn run(mut self) -> Result<RunExit, CommandError> {
        let prepared = PreparedCommand::new(&mut self.read, &self.platform, self.progress.bars())?;
        let facts = prepared.read(&self.image_name)?;
        Ok(show(&self, &facts, &prepared.knowledge.profilers))
    }
}

fn show(args: &ProfilersArgs, facts: &ImageFacts, known: &[Profiler]) -> RunExit {
    let tools = installed_tools::find_installed_tools(facts, known, &args.read.start.environment);
    let entries = profilers::assess_tools(facts, &tools, known);
    let host = host_notes::gather_host_notes(facts, &entries);
    let matrix = ProfilerMatrix { facts, entries, host };
    // A tool that is not ready is an answer; only gaps change the exit code.
    let exit = if facts.gaps.is_empty() {
        RunExit::Clean
    } else {
        RunExit::Open
    };
    write_answer(args.format, &profilers_page(&matrix), &profilers_json(&matrix), exit)
}
