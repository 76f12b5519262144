//! `diff`: compares two images.

use crate::cli::config::load::{current_date, fill_phases};
use crate::cli::image_reader::PreparedCommand;
use crate::cli::option_values::{FAIL_ON, one_of};
use crate::cli::shared_args::{OnePlatformArgs, ProgressArgs, ReadArgs, trimmed};
use crate::cli::terminal::{CommandError, write_answer};
use crate::judge::audit::judge_image;
use crate::judge::image_diff::ImageDiff;
use crate::judge::outcome::{AuditedImage, FailOn, RunExit};
use crate::judge::rule::sort_findings;
use crate::judge::rule::suppression::SuppressionGate;
use crate::report::pages::diff::{diff_json, diff_page};
use crate::report::{ANSWER_FORMATS, ReportFormat};
use clap::Args;

const HELP: &str = "\
Shows what changed: bytes by Python package and directory, layers, copies of CUPTI, programs that get CUPTI, \
phases and findings. \
Unchanged parts are left out.

Exit codes:
  0  AFTER has no new finding at or above --fail-on
  1  AFTER has such a finding
  2  an error, or something could not be checked

Examples:
  cupti-audit diff trainer:1 trainer:2
  cupti-audit diff --phase training --format markdown reg.example/app:main docker-daemon:app
  cupti-audit diff --format html old.tar new.tar > diff.html";

/// Compare two images: sizes, CUPTI, programs, phases, findings
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct DiffArgs {
    /// Old image
    #[arg(value_name = "BEFORE")]
    before: String,
    /// New image
    #[arg(value_name = "AFTER")]
    after: String,
    /// Purpose of the images: inference, training, profiling (repeatable)
    #[arg(long, short, value_name = "PHASE", value_delimiter = ',', value_parser = trimmed)]
    phase: Vec<String>,
    /// Lowest severity of a new finding that fails the run [default: error]
    #[arg(long, value_name = "SEVERITY", value_parser = one_of(&FAIL_ON))]
    fail_on: Option<FailOn>,
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

impl DiffArgs {
    /// Compares two images. Fails if the second has a finding that the first lacks.
    pub fn run(mut self) -> Result<RunExit, CommandError> {
        let prepared = PreparedCommand::new(&mut self.read, &self.platform, self.progress.bars())?;
        let config = &prepared.config;
        fill_phases(&mut self.phase, config, &prepared.knowledge)?;
        let mut gate = SuppressionGate::new(&config.suppress, current_date()?);
        let audit = |image: &str, gate: &mut SuppressionGate<'_>| -> Result<AuditedImage, CommandError> {
            let facts = prepared.read(image)?;
            let environment = &self.read.start.environment;
            let mut audit = judge_image(facts, &prepared.knowledge, &self.phase, environment);
            gate.mark_findings(image, &mut audit.findings);
            sort_findings(&mut audit.findings);
            Ok(audit)
        };
        let (before, after) = (audit(&self.before, &mut gate)?, audit(&self.after, &mut gate)?);
        let diff = ImageDiff::of(&before, &after);
        let fail_on = self.fail_on.or(config.fail_on).unwrap_or_default();
        let exit = diff.exit(fail_on);
        Ok(write_answer(
            self.format,
            &diff_page(&diff, exit),
            &diff_json(&diff, fail_on),
            exit,
        ))
    }
}
