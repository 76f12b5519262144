//! `check`: finds known problems in a Dockerfile.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::cli::config::load::{current_date, fill_phases, load_project};
use crate::cli::option_values::{OutputFile, one_of};
use crate::cli::report_outputs::ReportOutputs;
use crate::cli::shared_args::{ColorArgs, ConfigArgs, QuietArgs, ReportArgs, key_value, trimmed};
use crate::cli::terminal::CommandError;
use crate::judge::build_file::check_build_file;
use crate::judge::outcome::{FailOn, RunExit};
use crate::judge::rule::RuleQuestion;
use crate::judge::rule::suppression::SuppressionGate;
use crate::knowledge::user_folders::read_text_file;
use crate::report::build_file::CheckedBuildFile;
use crate::report::text::TextDetail;
use crate::report::{BUILD_FILE_FORMATS, ReportFormat, report_writer};
use clap::Args;
use clap::builder::FalseyValueParser;

const HELP: &str = "\
Finds known traps before a build, such as a package without libcupti, or a step that removes it. It first lists the steps \
whose effect the file does not show: scripts, unknown base images, lists of requirements. If they leave it open whether \
the image contains libcupti, the answer is \"not known\".

Exit codes:
  0  no finding at or above --fail-on
  1  a finding at or above --fail-on
  2  an error, such as a file that is no Dockerfile; with --strict also \"not known\"

Examples:
  cupti-audit check Dockerfile --phase training
  cupti-audit check --strict --target runtime docker/Dockerfile
  cupti-audit check -o sarif=check.sarif Dockerfile";

/// Find known traps for CUPTI in a Dockerfile, before the build
#[derive(Debug, Args)]
#[command(after_help = HELP)]
#[command(mut_arg("format", |format| format.value_parser(one_of(BUILD_FILE_FORMATS))))]
#[command(mut_arg("outputs", |outputs| outputs.value_parser(|text: &str| OutputFile::parse(text, BUILD_FILE_FORMATS))))]
pub struct CheckArgs {
    /// Dockerfile; - is standard input
    #[arg(value_name = "FILE", default_value = "Dockerfile")]
    file: String,
    /// Stage that becomes the image [default: the last]
    #[arg(long, value_name = "STAGE")]
    target: Option<String>,
    /// Value of an ARG, as for docker build (repeatable)
    #[arg(long = "build-arg", value_name = "KEY=VALUE", value_parser = key_value)]
    build_args: Vec<(String, String)>,
    /// Purpose of the image: inference, training, profiling; decides how severe each finding is (repeatable)
    #[arg(long, short, value_name = "PHASE", env = "CUPTI_AUDIT_PHASE", value_delimiter = ',', value_parser = trimmed)]
    phase: Vec<String>,
    /// Exit with code 2 if it is not known whether the image contains CUPTI
    #[arg(long, env = "CUPTI_AUDIT_STRICT", value_parser = FalseyValueParser::new())]
    strict: bool,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    own: ConfigArgs,
    #[command(flatten)]
    color: ColorArgs,
    #[command(flatten)]
    output: QuietArgs,
}

/// The maximum size of a Dockerfile in bytes, a thousand times that of a long one.
const FILE_BYTES: u64 = 1 << 20;

impl CheckArgs {
    /// Reports the known traps in a Dockerfile.
    pub fn run(mut self) -> Result<RunExit, CommandError> {
        let (mut config, mut knowledge) = load_project(&self.own)?;
        knowledge.rules.retain(|rule| rule.answers(RuleQuestion::BuildFile));
        fill_phases(&mut self.phase, &config, &knowledge)?;
        let text = read_build_file(&self.file)?;
        let report = check_build_file(&text, self.target.as_deref(), &self.build_args, &knowledge, &self.phase);
        let mut report = report.map_err(|error| format!("{}: {error}", self.file))?;
        let today = current_date()?;
        let is_asked = |id: &str| knowledge.rules.iter().any(|rule| rule.id == id);
        config.suppress.retain(|suppression| is_asked(&suppression.rule));
        let mut gate = SuppressionGate::new(&config.suppress, today);
        for found in &mut report.findings {
            gate.mark_findings(&self.file, std::slice::from_mut(&mut found.finding));
        }
        let fail_on = self.report.fail_on.or(config.fail_on).unwrap_or_default();
        let is_strict = self.strict || config.strict;
        let fails = report.findings.iter().any(|found| fail_on.fails(&found.finding));
        let checked = CheckedBuildFile {
            file: &self.file,
            report: &report,
            exit: match () {
                () if fails => RunExit::Findings,
                () if is_strict && report.is_open && fail_on != FailOn::Never => RunExit::Open,
                () => RunExit::Clean,
            },
        };
        let mut outputs = ReportOutputs::open(&self.report, &[PathBuf::from(&self.file)], |format, place| {
            let layout = place.layout(&self.output);
            // -qq silences every format.
            let is_silent = layout.detail == TextDetail::Nothing;
            let format = if is_silent { ReportFormat::Text } else { format };
            report_writer(format, layout, fail_on, &knowledge)
        })?;
        outputs.write(|report| report.build_file(&checked));
        Ok(checked.exit.max(outputs.close()))
    }
}

/// The text of the file.
///
/// Errors: The file cannot be read, is too large, or is not text, in words.
fn read_build_file(file: &str) -> Result<String, String> {
    if file != "-" {
        let path = Path::new(file);
        let hint = if path.is_file() {
            ""
        } else {
            "; name the Dockerfile: cupti-audit check FILE"
        };
        return read_text_file(path).map_err(|mistake| format!("{file}: {}{hint}", mistake.what));
    }
    let mut bytes = Vec::new();
    let read = io::stdin().lock().take(FILE_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("cannot read standard input: {error}"))?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > FILE_BYTES) {
        return Err(format!("standard input is larger than {FILE_BYTES} bytes"));
    }
    String::from_utf8(bytes).map_err(|error| format!("standard input is no text: {error}"))
}
