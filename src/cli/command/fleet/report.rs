//! `fleet report`: summarizes the results of all images.

use std::collections::BTreeMap;

use super::named_files::read_work_entries;
use super::read_results::{KeptResults, read_results};
use crate::cli::option_values::{COLOR, one_of};
use crate::cli::terminal::{CommandError, terminal_width, write_result};
use crate::fleet::{FleetChange, FleetSummary, WorkEntry};
use crate::judge::outcome::RunExit;
use crate::report::pages::fleet::{fleet_exit, fleet_page, json_lines};
use crate::report::{FLEET_FORMATS, ReportFormat, page_text};
use anstream::ColorChoice;
use clap::Args;

const HELP: &str = "\
Exit codes:
  0  no image has a finding at or above the --fail-on of the run
  1  an image has such a finding
  2  an image has an open verdict or no result

Examples:
  cupti-audit fleet report results --worklist work.jsonl
  cupti-audit fleet report results --worklist new.jsonl --since old.jsonl --format html > fleet.html";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct FleetReportArgs {
    /// Where the results are
    #[arg(value_name = "DIR")]
    out: String,
    /// Worklist of the images to report on
    #[arg(long, value_name = "FILE")]
    worklist: String,
    /// Worklist of an earlier run, to report changes
    #[arg(long, value_name = "FILE")]
    since: Option<String>,
    /// Where the results of the earlier run are [default: the same]
    #[arg(long, value_name = "DIR", requires = "since")]
    since_results: Option<String>,
    /// Format of the report
    #[arg(long, default_value = "text", value_parser = one_of(&FLEET_FORMATS))]
    format: ReportFormat,
    /// When to use colours; `NO_COLOR` is respected
    #[arg(long, value_parser = one_of(&COLOR), default_value = "auto", value_name = "WHEN")]
    color: ColorChoice,
}

impl FleetReportArgs {
    /// Reports on the results of a fleet.
    pub(super) fn run(self) -> Result<RunExit, CommandError> {
        if self.since.is_some() && self.format == ReportFormat::Json {
            return Err("--since needs --format text, markdown or html: json has no place for changes".into());
        }
        let kept = read_results(&self.out)?;
        // Both runs mostly share their results, which may be many and far away.
        let earlier = match (&self.since, &self.since_results) {
            (None, _) => None,
            (Some(file), None) => Some(name_results(kept.clone(), file)?.0),
            (Some(file), Some(place)) => Some(name_results(read_results(place)?, file)?.0),
        };
        let (kept, expected) = name_results(kept, &self.worklist)?;
        let summary = FleetSummary::of(kept.results, kept.failures, expected);
        let change = earlier.map(|earlier| FleetChange::between(&earlier.results, &summary.results));
        let text = match self.format {
            ReportFormat::Json => json_lines(&summary),
            format => page_text(&fleet_page(&summary, change.as_ref()), format, terminal_width()),
        };
        Ok(write_result(&text, kept.exit.max(fleet_exit(&summary))))
    }
}

/// The results of the images in a worklist, with the worklist's names, and the number of its images.
fn name_results(mut kept: KeptResults, file: &str) -> Result<(KeptResults, usize), CommandError> {
    let mut listed: BTreeMap<(String, String), WorkEntry> = BTreeMap::new();
    read_work_entries(file, |_, entry| {
        listed.insert((entry.digest.clone(), entry.platform.clone()), entry);
    })?;
    let find = |digest: &String, platform: &String| listed.get(&(digest.clone(), platform.clone()));
    kept.results.retain_mut(|one| {
        find(&one.digest, &one.platform).is_some_and(|entry| {
            one.names.clone_from(&entry.names);
            one.used_by.clone_from(&entry.used_by);
            true
        })
    });
    kept.failures.retain_mut(|one| {
        find(&one.digest, &one.platform).is_some_and(|entry| {
            one.names.clone_from(&entry.names);
            true
        })
    });
    Ok((kept, listed.len()))
}
