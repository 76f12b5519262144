//! `fleet report`: what all images come to.

use std::collections::BTreeSet;

use crate::cli::fleet::{FleetFormat, FleetReportArgs};
use crate::fleet::{FleetChange, FleetSummary};
use crate::judge::outcome::RunExit;
use crate::report::fleet::{csv_table, fleet_exit, fleet_page, json_lines, prometheus_text};

use super::super::command_error::CommandError;
use super::super::terminal::{set_color_choice, terminal_width, write_result};
use super::named_files::read_work_entries;
use super::read_results::{KeptResults, read_results};

/// Reports on the results of a fleet.
pub(super) fn report_fleet(args: &FleetReportArgs) -> Result<RunExit, CommandError> {
    set_color_choice(args.color);
    let mut kept = read_results(&args.out)?;
    let expected = match &args.worklist {
        None => None,
        Some(file) => Some(keep_listed(&mut kept, file)?),
    };
    let summary = FleetSummary::of(kept.results, kept.failures, expected);
    let change = match &args.since {
        None => None,
        Some(earlier) => Some(FleetChange::between(&read_results(earlier)?.results, &summary.results)),
    };
    let page = || fleet_page(&summary, change.as_ref());
    let text = match args.format {
        FleetFormat::Text => page().text(terminal_width()),
        FleetFormat::Html => page().html(),
        FleetFormat::Markdown => page().markdown(),
        FleetFormat::Json => json_lines(&summary),
        FleetFormat::Csv => csv_table(&summary),
        FleetFormat::Prometheus => prometheus_text(&summary),
    };
    Ok(write_result(&text, kept.exit.max(fleet_exit(&summary))))
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
