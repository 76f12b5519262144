//! `check`: what is known to go wrong of a Dockerfile.

use std::io::{self, Read as _};
use std::path::Path;

use crate::cli::check::CheckArgs;
use crate::cli::option_values::ReportFormat;
use crate::judge::build_file::check_build_file;
use crate::judge::outcome::{FailOn, RunExit};
use crate::judge::rule::suppression::{Suppression, SuppressionGate};
use crate::judge::rule::{Rule, RuleQuestion};
use crate::knowledge::user_folders::read_text_file;
use crate::report::build_file::{CheckedBuildFile, annotations, check_json, check_page, junit_report, sarif_log};

use super::command_error::CommandError;
use super::project_config;
use super::report_outputs::{FinishedReport, ReportOutputs, ReportPlace};
use super::terminal::set_color_choice;

/// The bytes of a Dockerfile, at most: a thousand times those of a long one.
const FILE_BYTES: u64 = 1 << 20;

/// Says of a Dockerfile which steps bring no libcupti that a loader finds.
pub fn run_check(mut args: CheckArgs) -> Result<RunExit, CommandError> {
    set_color_choice(args.output.color);
    let config_file = project_config::read_config(&args.own)?;
    let mut knowledge = project_config::load_knowledge(&args.own, config_file.as_ref())?;
    let config = config_file.map(|file| file.config).unwrap_or_default();
    knowledge.rules.retain(|rule| rule.answers(RuleQuestion::BuildFile));
    config.fill_phases(&mut args.phase, &knowledge)?;
    let text = read_build_file(&args.file)?;
    let report = check_build_file(&text, args.target.as_deref(), &knowledge, &args.phase);
    let mut report = report.map_err(|error| format!("{}: {error}", args.file))?;
    let today = project_config::current_date()?;
    let is_asked = |one: &&Suppression| knowledge.rules.iter().any(|rule| rule.id == one.rule);
    let suppressions: Vec<Suppression> = config.suppressions.iter().filter(is_asked).cloned().collect();
    let mut gate = SuppressionGate::new(&suppressions, today);
    for found in &mut report.findings {
        gate.mark_findings(&args.file, std::slice::from_mut(&mut found.finding));
    }
    let fail_on = config.fail_on(args.report.fail_on);
    let fails = report.findings.iter().any(|found| fail_on.fails(&found.finding));
    let checked = CheckedBuildFile {
        file: &args.file,
        report: &report,
        exit: if fails { RunExit::Findings } else { RunExit::Clean },
    };
    let mut outputs = ReportOutputs::open(&args.report, |format, place| {
        let is_quiet = place == ReportPlace::Stdout && args.output.quiet > 1;
        let text = || check_report(format, place.width(), &checked, &knowledge.rules, fail_on);
        Box::new(FinishedReport(if is_quiet { Ok(String::new()) } else { text() }))
    })?;
    outputs.write(|report| report.end(checked.exit));
    Ok(checked.exit.max(outputs.close()))
}

/// The text of the file.
///
/// Errors: It cannot be read, is too large, or is no text, in words.
fn read_build_file(file: &str) -> Result<String, String> {
    if file != "-" {
        return read_text_file(Path::new(file))
            .map_err(|mistake| format!("{file}: {}; name the Dockerfile: cupti-audit check FILE", mistake.what));
    }
    let mut bytes = Vec::new();
    let read = io::stdin().lock().take(FILE_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("cannot read standard input: {error}"))?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > FILE_BYTES) {
        return Err(format!("standard input is larger than {FILE_BYTES} bytes"));
    }
    String::from_utf8(bytes).map_err(|error| format!("standard input is no text: {error}"))
}

/// The report in one of its forms.
fn check_report(
    format: ReportFormat,
    width: usize,
    checked: &CheckedBuildFile<'_>,
    rules: &[Rule],
    fail_on: FailOn,
) -> io::Result<String> {
    Ok(match format {
        ReportFormat::Text => check_page(checked).text(width),
        ReportFormat::Json => format!("{}\n", check_json(checked)),
        ReportFormat::Sarif => sarif_log(checked, rules),
        ReportFormat::Junit => junit_report(checked, rules, fail_on)?,
        ReportFormat::Markdown => check_page(checked).markdown(),
        ReportFormat::GitHub => annotations(checked),
        ReportFormat::Html => check_page(checked).html(),
        ReportFormat::Attestation => {
            return Err(io::Error::other(
                "an attestation is about an image, and this is a Dockerfile",
            ));
        }
    })
}
