//! `audit`: reads images, judges them, and writes the reports.

use std::fmt::Write as _;

use crate::cli::config::load::{current_date, fill_phases, load_for_images};
use crate::cli::image_reader::ImageReader;
use crate::cli::progress::BarVisibility;
use crate::cli::report_outputs::ReportOutputs;
use crate::cli::shared_args::{
    AssumptionArgs, DetailArgs, GpuArgs, PlatformArgs, PurposeArgs, RARE_COMMANDS, ReadArgs, ReportArgs, fill_list,
};
use crate::cli::terminal::{CommandError, report_error, report_warning};
use crate::judge::audit::{ask_gpus, ask_tools, judge_image as judged, judge_links};
use crate::judge::image_reading::RunningContainer;
use crate::judge::outcome::{AuditedImage, FailOn, RunExit, UnreadImage};
use crate::judge::plan::advice::find_tool;
use crate::judge::rule::Severity;
use crate::judge::rule::suppression::Suppression;
use crate::judge::rule::suppression::SuppressionGate;
use crate::judge::rule::{self, RuleQuestion};
use crate::knowledge::Knowledge;
use crate::make::cure::tell_cure;
use crate::make::repair::tell_repairs;
use crate::report::report_writer;
use clap::Args;
use image_source::{Platform, SourceKind, host_file};

const AFTER_HELP: &str = "\
Exit codes:
  0  no finding at or above --fail-on
  1  a finding at or above --fail-on
  2  an error, or the image alone does not show the answer
  With several images or platforms, the highest code counts.

A flag overrides its environment variable, and the variable overrides cupti-audit.yaml. An empty variable is ignored. \
The config file can also suppress known findings, each with a reason.

Examples:
  cupti-audit nvidia/cuda:12.4.0-runtime-ubuntu22.04
  cupti-audit --phase profiling docker-daemon:trainer:latest
  cupti-audit -o sarif=out.sarif -o html=report.html docker-daemon:trainer:latest
  docker save trainer | cupti-audit --format json -
  cupti-audit tree nvidia/cuda:12.4.1-devel-ubuntu22.04 libcupti.so.12";

/// The text below the options of -h, short enough for one screen.
fn after_short_help() -> String {
    let forms = SourceKind::ALL.map(|kind| kind.form().0).join(", ");
    let layout = textwrap::Options::new(80)
        .initial_indent("Images: ")
        .subsequent_indent("        ")
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    let images = textwrap::fill(&format!("{forms}, a path, or - (standard input)"), layout);
    format!(
        "{images}\nExit codes: 0 pass, 1 findings, 2 an error, or the image alone does not show the answer\n\
         Example: cupti-audit --phase training nvidia/cuda:12.4.0-runtime-ubuntu22.04\nMore commands: {}",
        RARE_COMMANDS.join(", ")
    )
}

fn after_help() -> String {
    let mut images = "Images:\n".to_owned();
    for (form, what) in SourceKind::ALL.map(SourceKind::form) {
        let _ = writeln!(images, "  {form:<25}  {what}");
    }
    format!("{images}  The scheme can be left out for an existing file or directory.\n\n{AFTER_HELP}")
}

/// Check whether CUPTI loads in images, for which programs, and if not, why
#[derive(Debug, Args)]
#[command(after_help = after_short_help(), after_long_help = after_help())]
pub struct AuditArgs {
    /// Images to audit; the highest exit code counts
    #[arg(value_name = "IMAGE", required = true)]
    pub images: Vec<String>,
    #[command(flatten)]
    pub purpose: PurposeArgs,
    #[command(flatten)]
    pub target: GpuArgs,
    #[command(flatten)]
    pub report: ReportArgs,
    #[command(flatten)]
    pub assumptions: AssumptionArgs,
    #[command(flatten)]
    pub platform: PlatformArgs,
    #[command(flatten)]
    pub read: ReadArgs,
    #[command(flatten)]
    pub output: DetailArgs,
}

impl AuditArgs {
    /// An audit of `images`; the config sets the rest.
    pub(super) fn of_images(images: Vec<String>, report: ReportArgs, read: ReadArgs) -> Self {
        Self {
            images,
            report,
            read,
            purpose: PurposeArgs::default(),
            target: GpuArgs::default(),
            assumptions: AssumptionArgs::default(),
            platform: PlatformArgs::default(),
            output: DetailArgs::default(),
        }
    }

    /// Audits the images in sequence. The highest exit code counts.
    pub fn run(mut self) -> Result<RunExit, CommandError> {
        let (knowledge, suppressions) = prepare(&mut self, RuleQuestion::Image)?;
        judge(&self, &knowledge, &suppressions, &AuditQuestion::Library)
    }
}

/// The question of a run.
pub(super) enum AuditQuestion {
    /// Whether the library is available, and to which programs.
    Library,
    /// The missing dependencies of the objects at these paths, or of all.
    Links(Vec<String>),
    /// Whether the library is available in this process's own container.
    Running(Box<RunningContainer>),
}

/// Loads the user's files, and fills options that the command line leaves open.
pub(super) fn prepare(
    args: &mut AuditArgs,
    question: RuleQuestion,
) -> Result<(Knowledge, Vec<Suppression>), CommandError> {
    let (mut config, mut knowledge) = load_for_images(&mut args.read)?;
    args.report.fill(&config);
    args.platform.fill(&config);
    args.assumptions.strict |= config.strict;
    fill_list(&mut args.purpose.tools, &config.tools);
    fill_phases(&mut args.purpose.phase, &config, &knowledge)?;
    let mut ids = Vec::new();
    for name in &args.purpose.tools {
        ids.push(find_tool(name, &knowledge.profilers)?.id.clone());
    }
    args.purpose.tools = ids;
    for name in &args.target.gpus {
        knowledge.tables.gpus.find(name)?;
    }
    // Remove rules that this command does not evaluate, because without findings they would look passed. Their
    // suppressions are not unused either.
    knowledge.rules.retain(|rule| rule.answers(question));
    config
        .suppress
        .retain(|suppression| knowledge.rule(&suppression.rule).is_some());
    if question == RuleQuestion::Image {
        config.suppress.append(&mut config.accept);
        let accepted = args
            .assumptions
            .accept
            .iter()
            .map(|id| Suppression::of_accept_option(id));
        config.suppress.extend(accepted);
    }
    Ok((knowledge, config.suppress))
}

pub(super) fn judge(
    args: &AuditArgs,
    knowledge: &Knowledge,
    suppressions: &[Suppression],
    question: &AuditQuestion,
) -> Result<RunExit, CommandError> {
    let today = current_date()?;
    let fail_on = args.report.fail_on.unwrap_or_default();
    // Not without a report in a file, because it looks into archives.
    let images = args.images.iter().filter(|_| !args.report.outputs.is_empty());
    let files: Vec<_> = images.filter_map(|image| host_file(image)).collect();
    let outputs = ReportOutputs::open(&args.report, &files, |format, place| {
        report_writer(format, place.detailed_layout(&args.output), fail_on, knowledge)
    })?;
    let mut run = AuditRun {
        auditor: ImageAuditor {
            args,
            knowledge,
            reader: ImageReader::new(
                &args.read,
                knowledge,
                BarVisibility::with_quiet(args.output.less.quiet > 0),
            ),
            question,
            fail_on,
            gate: SuppressionGate::new(suppressions, today),
        },
        outputs,
        exit: RunExit::Clean,
        all_read: true,
    };
    // Unused suppressions are only known after the last image.
    let (last, others) = args.images.split_last().ok_or("name an image")?;
    for image in others {
        run.image(image, RunPosition::Before);
    }
    run.image(last, RunPosition::Last);
    for near_miss in run.auditor.gate.near_misses() {
        report_warning(&near_miss);
    }
    let AuditRun { mut outputs, exit, .. } = run;
    outputs.write(|report| report.end(exit));
    // A report that cannot be written is exit code 2, whatever the findings.
    Ok(exit.max(outputs.close()))
}

/// Whether further images follow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RunPosition {
    Before,
    /// The last image of a run in which all images were read.
    Last,
}

/// Reads and judges images with the same arguments.
pub(super) struct ImageAuditor<'a> {
    pub(super) args: &'a AuditArgs,
    pub(super) knowledge: &'a Knowledge,
    pub(super) reader: ImageReader,
    pub(super) question: &'a AuditQuestion,
    pub(super) fail_on: FailOn,
    pub(super) gate: SuppressionGate<'a>,
}

/// One run over all images.
struct AuditRun<'a> {
    auditor: ImageAuditor<'a>,
    outputs: ReportOutputs,
    exit: RunExit,
    all_read: bool,
}

impl AuditRun<'_> {
    fn image(&mut self, image: &str, place: RunPosition) {
        let platforms = match self.auditor.reader.platforms(image, &self.auditor.args.platform) {
            Ok(platforms) => platforms,
            Err(error) => return self.unread(image, error.to_string()),
        };
        let count = platforms.len();
        for (number, platform) in platforms.iter().enumerate() {
            // Only a complete run can show that a suppression is unused.
            let place = if number + 1 == count && self.all_read {
                place
            } else {
                RunPosition::Before
            };
            match self.auditor.audit(image, &[image], platform.as_ref(), place) {
                Ok(audit) => {
                    self.exit = self.exit.max(audit.exit());
                    self.outputs.write(|report| Ok(report.audited(&audit)));
                }
                // Continue with the other platforms.
                Err(error) => self.unread(image, error),
            }
        }
    }

    fn unread(&mut self, image: &str, why: String) {
        self.all_read = false;
        self.exit = self.exit.max(report_error(&why));
        let unread = UnreadImage {
            image: image.to_owned(),
            why,
        };
        self.outputs.write(|report| Ok(report.unread(&unread)));
    }
}

impl ImageAuditor<'_> {
    /// Audits an image. Suppressions may match any of its `names`.
    ///
    /// Errors: Why it cannot be read, in words.
    pub(super) fn audit(
        &mut self,
        image: &str,
        names: &[&str],
        platform: Option<&Platform>,
        place: RunPosition,
    ) -> Result<AuditedImage, String> {
        let read = match self.question {
            AuditQuestion::Running(container) => self.reader.read_running(container),
            _ => self.reader.read(image, platform),
        };
        let facts = read.map_err(|error| error.to_string())?;
        let environment = &self.args.read.start.environment;
        let mut audit = match self.question {
            AuditQuestion::Library | AuditQuestion::Running(_) => {
                judged(facts, self.knowledge, &self.args.purpose.phase, environment)
            }
            AuditQuestion::Links(chosen) => judge_links(facts, self.knowledge, chosen)?,
        };
        if !self.args.purpose.tools.is_empty() {
            ask_tools(&mut audit, self.knowledge, &self.args.purpose.tools, environment);
        }
        ask_gpus(&mut audit, self.knowledge, &self.args.target.gpus);
        audit.is_strict = self.args.assumptions.strict;
        audit.fail_on = self.fail_on;
        for name in names {
            self.gate.mark_findings(name, &mut audit.findings);
            self.gate.accept_assumptions(name, &mut audit.facts.answers.assumptions);
        }
        tell_repairs(&mut audit);
        rule::sort_findings(&mut audit.findings);
        // A running container cannot be a base image.
        let is_image = !matches!(self.question, AuditQuestion::Running(_));
        if is_image && audit.counting().any(|it| it.severity >= Severity::Warning) {
            let of_platform = platform.map(|platform| ("--platform", platform.to_string()));
            let options: Vec<_> = of_platform
                .into_iter()
                .chain(self.args.read.repeated_options())
                .collect();
            tell_cure(&mut audit, self.knowledge, &self.reader.conditions(), &options);
        }
        // After the fix for the image, which changes nothing in the config.
        if place == RunPosition::Last {
            let asked = self.knowledge.phases_named(&self.args.purpose.phase);
            let idle = rule::judge_hits(&self.knowledge.rules, &self.gate.unused_suppressions(), &asked);
            audit.findings.extend(idle);
        }
        // The fix changes severities.
        rule::sort_findings(&mut audit.findings);
        Ok(audit)
    }
}
