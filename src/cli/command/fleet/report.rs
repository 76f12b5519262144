//! `fleet report`: what all images come to.

use std::collections::BTreeSet;

use super::named_files::read_work_entries;
use super::read_results::{KeptResults, read_results};
use crate::cli::option_values::{COLOR, one_of};
use crate::cli::terminal::{CommandError, terminal_width, write_result};
use crate::fleet::{FleetChange, FleetSummary};
use crate::judge::outcome::RunExit;
use crate::report::fleet::{csv_table, fleet_exit, fleet_page, json_lines, prometheus_text};
use crate::report::{FLEET_FORMATS, ReportFormat, page_text};
use anstream::ColorChoice;
use clap::Args;

const HELP: &str = "\
Exit codes:
  0  no image has a finding at or above the --fail-on of the run
  1  one has
  2  one has an open verdict, no result, or could not be audited

Examples:
  cupti-audit fleet report results --worklist work.jsonl
  cupti-audit fleet report s3://audits/nightly --since s3://audits/last-week --format html > fleet.html
  cupti-audit fleet report results --format prometheus > /var/lib/node_exporter/cupti.prom";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct FleetReportArgs {
    /// Where the results are kept
    #[arg(value_name = "DIR|URL")]
    out: String,
    /// The worklist, to tell which images have no result yet
    #[arg(long, value_name = "FILE")]
    worklist: Option<String>,
    /// The results of an earlier run, to tell what changed
    #[arg(long, value_name = "DIR|URL")]
    since: Option<String>,
    /// The form of the report
    #[arg(long, default_value = "text", value_parser = one_of(&FLEET_FORMATS))]
    format: ReportFormat,
    /// Colours: on a terminal, always, or never (`NO_COLOR` is respected)
    #[arg(long, value_parser = one_of(&COLOR), default_value = "auto", value_name = "WHEN")]
    color: ColorChoice,
}

impl FleetReportArgs {
    /// Reports on the results of a fleet.
    pub(super) fn run(self) -> Result<RunExit, CommandError> {
        let mut kept = read_results(&self.out)?;
        let expected = match &self.worklist {
            None => None,
            Some(file) => Some(keep_listed(&mut kept, file)?),
        };
        let summary = FleetSummary::of(kept.results, kept.failures, expected);
        let change = match &self.since {
            None => None,
            Some(earlier) => Some(FleetChange::between(&read_results(earlier)?.results, &summary.results)),
        };
        let text = match self.format {
            ReportFormat::Json => json_lines(&summary),
            ReportFormat::Csv => csv_table(&summary),
            ReportFormat::Prometheus => prometheus_text(&summary),
            format => page_text(&fleet_page(&summary, change.as_ref()), format, terminal_width()),
        };
        Ok(write_result(&text, kept.exit.max(fleet_exit(&summary))))
    }
}

/// Leaves out what the worklist has not; says how many images it has.
fn keep_listed(kept: &mut KeptResults, file: &str) -> Result<usize, CommandError> {
    let mut listed = BTreeSet::new();
    read_work_entries(file, |_, entry| {
        listed.insert((entry.digest, entry.platform));
    })?;
    // Not by a pair of what is lent: a set of owned texts wants owned ones.
    let has = |digest: &String, platform: &String| listed.contains(&(digest.clone(), platform.clone()));
    kept.results.retain(|one| has(&one.digest, &one.platform));
    kept.failures.retain(|one| has(&one.digest, &one.platform));
    Ok(listed.len())
}
