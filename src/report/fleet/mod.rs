//! Reports many images: as a page, and as a JSON row per image.

mod image_rows;

pub(crate) use image_rows::json_lines;

use std::collections::BTreeMap;

use super::blocks::{Block, ReportPage, TableRow, headed_table};
use super::text_layout::{BOLD, joined, styled};
use super::words::ReportTone;
use crate::fleet::{ChangedImage, FleetChange, FleetSummary, ImageResult};
use crate::judge::outcome::RunExit;
use crate::size::{count_words, format_size};
use image_linkage::escape::escape_bytes;

/// The maximum number of rows in a table of the page; JSON has all images.
const ROWS: usize = 100;

/// The page of a fleet.
pub(crate) fn fleet_page(summary: &FleetSummary, change: Option<&FleetChange>) -> ReportPage<'static> {
    let tone = ReportTone::of_exit(fleet_exit(summary));
    let mut blocks = vec![Block::Answer(tone, format!("{} {}", tone.mark(), headline(summary)))];
    let parts: [(&'static str, &'static [&'static str], Vec<TableRow>); 8] = [
        ("not audited", &["image", "error"], failure_rows(summary)),
        ("phases", &["phase", "images by verdict"], state_rows(&summary.phases)),
        ("tools", &["tool", "images by state"], state_rows(&summary.tools)),
        (
            "findings by rule",
            &["rule", "severity", "images", "repositories"],
            rule_rows(summary),
        ),
        ("bases responsible", &["base", "rule", "images"], base_rows(summary)),
        (
            "repositories by what no phase needs",
            &["repository", "images", "failing", "dead weight"],
            repository_rows(summary),
        ),
        (
            "since the earlier run",
            &["image", "outcome", "gained", "lost"],
            change_rows(change),
        ),
        (
            "images with findings",
            &["image", "platform", "verdict", "rules"],
            failing_rows(summary),
        ),
    ];
    for (heading, columns, mut rows) in parts {
        let more = rows.len().saturating_sub(ROWS);
        rows.truncate(ROWS);
        blocks.extend(headed_table(heading, columns, rows));
        if more > 0 {
            blocks.push(Block::Line(format!("and {more} more, which --format json has")));
        }
        if let Some(change) = change.filter(|_| heading == "since the earlier run") {
            blocks.push(Block::Line(change_words(change)));
        }
    }
    ReportPage(blocks)
}

/// The exit status of a fleet: that of its worst image; open if an image was not audited.
pub(crate) fn fleet_exit(summary: &FleetSummary) -> RunExit {
    let counts = summary.outcomes;
    match () {
        () if counts.open + counts.failed + counts.missing > 0 => RunExit::Open,
        () if counts.findings > 0 => RunExit::Findings,
        () => RunExit::Clean,
    }
}

fn headline(summary: &FleetSummary) -> String {
    let counts = summary.outcomes;
    let all = summary.results.len() + counts.failed + counts.missing;
    let parts = [
        (counts.findings, "with findings"),
        (counts.open, "with an open verdict"),
        (counts.failed, "not audited"),
        (counts.missing, "without a result yet"),
    ];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0);
    let parts = joined(parts.map(|(count, words)| format!("{count} {words}")), ", ");
    let outcome = if parts.is_empty() { "none with findings" } else { &parts };
    format!(
        "{}: {outcome}; {} that no phase needs",
        count_words(all, "image"),
        format_size(summary.dead_bytes)
    )
}

/// A row whose text line is its cells with two spaces between, the first in bold.
fn row<const N: usize>(cells: &[String; N]) -> TableRow {
    // Anyone who can write to the result store may have put arbitrary text there.
    let cells: Vec<String> = cells.iter().map(|cell| escape_bytes(cell.as_bytes())).collect();
    let shown = cells.iter().skip(1).filter(|cell| !cell.is_empty());
    let first = cells.first().map(|first| styled(BOLD, first));
    let line = format!(
        "  {}  {}",
        first.unwrap_or_default(),
        joined(shown.map(String::as_str), "  ")
    );
    TableRow::new(cells, line.trim_end().to_owned())
}

fn failure_rows(summary: &FleetSummary) -> Vec<TableRow> {
    let rows = summary.failures.iter();
    rows.map(|one| row(&[first_name(&one.names, &one.digest), one.error.clone()]))
        .collect()
}

fn state_rows(counts: &BTreeMap<String, BTreeMap<String, usize>>) -> Vec<TableRow> {
    let words =
        |states: &BTreeMap<String, usize>| joined(states.iter().map(|(state, count)| format!("{state} {count}")), ", ");
    counts
        .iter()
        .map(|(name, states)| row(&[name.clone(), words(states)]))
        .collect()
}

fn rule_rows(summary: &FleetSummary) -> Vec<TableRow> {
    let mut rules: Vec<_> = summary.rules.iter().collect();
    rules.sort_by_key(|(_, rule)| std::cmp::Reverse(rule.images));
    let rows = rules.into_iter().map(|(id, rule)| {
        let (images, repositories) = (count_words(rule.images, "image"), rule.repositories.len());
        row(&[
            id.clone(),
            rule.severity.clone(),
            images,
            format!("in {}", count_words(repositories, "repository")),
        ])
    });
    rows.collect()
}

fn base_rows(summary: &FleetSummary) -> Vec<TableRow> {
    let mut bases: Vec<_> = summary.bases.iter().collect();
    bases.sort_by_key(|(_, images)| std::cmp::Reverse(**images));
    let rows = bases.into_iter();
    rows.map(|((base, rule), images)| row(&[base.clone(), rule.clone(), count_words(*images, "image")]))
        .collect()
}

fn repository_rows(summary: &FleetSummary) -> Vec<TableRow> {
    let notable = summary
        .repositories
        .iter()
        .filter(|(_, one)| one.dead_bytes > 0 || one.failing > 0);
    let mut repositories: Vec<_> = notable.collect();
    repositories.sort_by_key(|(_, one)| std::cmp::Reverse((one.dead_bytes, one.failing)));
    let rows = repositories.into_iter().map(|(name, one)| {
        let failing = if one.failing == 0 {
            String::new()
        } else {
            format!("{} failing", one.failing)
        };
        row(&[
            name.clone(),
            count_words(one.images, "image"),
            failing,
            format_size(one.dead_bytes),
        ])
    });
    rows.collect()
}

fn failing_rows(summary: &FleetSummary) -> Vec<TableRow> {
    let failing = summary.results.iter().filter(|result| result.exit_code != 0);
    let mut failing: Vec<&ImageResult> = failing.collect();
    failing.sort_by(|a, b| (&a.names, &a.platform).cmp(&(&b.names, &b.platform)));
    let rows = failing.into_iter().map(|result| {
        let mut rules: Vec<&str> = result.findings.iter().map(|finding| finding.rule.as_str()).collect();
        rules.dedup();
        let name = first_name(&result.names, &result.digest);
        row(&[name, result.platform.clone(), result.verdict.clone(), rules.join(", ")])
    });
    rows.collect()
}

/// The first name, and the number of others.
fn first_name(names: &[String], digest: &str) -> String {
    match names {
        [] => digest.to_owned(),
        [only] => only.clone(),
        [first, others @ ..] => format!("{first} and {} more", count_words(others.len(), "name")),
    }
}

fn change_rows(change: Option<&FleetChange>) -> Vec<TableRow> {
    let words = |code: u8| match code {
        0 => "clean",
        1 => "findings",
        _ => "open",
    };
    let images = change.map(|change| change.images.as_slice()).unwrap_or_default();
    let rows = images.iter().map(|image: &ChangedImage| {
        let (before, after) = image.exit_codes;
        let outcome = if before == after {
            words(after).to_owned()
        } else {
            format!("{} → {}", words(before), words(after))
        };
        let list = |sign: &str, rules: &[String]| joined(rules.iter().map(|rule| format!("{sign}{rule}")), " ");
        row(&[
            image.name.clone(),
            outcome,
            list("+", &image.gained),
            list("-", &image.lost),
        ])
    });
    rows.collect()
}

fn change_words(change: &FleetChange) -> String {
    format!(
        "since the earlier run: {} with another result, {} now lead to another image, {} new, {} gone",
        count_words(change.images.len(), "name"),
        change.rebuilt,
        change.added,
        change.removed
    )
}
