//! Reports many images: as a page, and as a JSON row per image.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::fleet::{ChangedImage, FleetChange, FleetSummary, ImageResult};
use crate::judge::outcome::RunExit;
use crate::report::page::{Block, Page};
use crate::report::text_layout::joined;
use crate::report::words::ReportTone;
use crate::size::{count_words, format_size};
use image_linkage::escape::escape_controls;

/// The maximum number of rows in a table of the page; JSON has all images.
const ROWS: usize = 100;

/// The identifier of the JSON contract.
const SCHEMA: &str = "cupti-audit/fleet-image/v1";

/// The page of a fleet.
pub(crate) fn fleet_page(summary: &FleetSummary, change: Option<&FleetChange>) -> Page {
    let tone = ReportTone::of_exit(fleet_exit(summary));
    let mut blocks = vec![Block::Verdict(tone, format!("{} {}", tone.mark(), headline(summary)))];
    let failures = ["image", "error"];
    let rules = ["rule", "severity", "images", "repositories"];
    let repositories = ["repository", "images", "failing", "dead weight"];
    let failing = ["image", "platform", "verdict", "rules"];
    blocks.extend(section("not audited", &failures, failure_rows(summary)));
    blocks.extend(section(
        "phases",
        &["phase", "images by verdict"],
        state_rows(&summary.phases),
    ));
    blocks.extend(section(
        "tools",
        &["tool", "images by state"],
        state_rows(&summary.tools),
    ));
    blocks.extend(section("findings by rule", &rules, rule_rows(summary)));
    blocks.extend(section(
        "bases responsible",
        &["base", "rule", "images"],
        base_rows(summary),
    ));
    blocks.extend(section(
        "repositories by what no phase needs",
        &repositories,
        repository_rows(summary),
    ));
    blocks.extend(change.map(change_section));
    blocks.extend(section("images with findings", &failing, failing_rows(summary)));
    Page(blocks)
}

fn section(title: &str, columns: &[&'static str], rows: Vec<Vec<String>>) -> Option<Block> {
    if rows.is_empty() {
        return None;
    }
    Some(Block::section(title, table(columns, rows)))
}

/// The first rows, and the number of the others.
fn table(columns: &[&'static str], mut rows: Vec<Vec<String>>) -> Vec<Block> {
    let more = rows.len().saturating_sub(ROWS);
    rows.truncate(ROWS);
    // Anyone who can write to the result store may have put arbitrary text there.
    for cell in rows.iter_mut().flatten() {
        *cell = escape_controls(cell);
    }
    let mut blocks = vec![Block::table(columns, rows)];
    if more > 0 {
        blocks.push(Block::text(format!("and {more} more, which --format json has")));
    }
    blocks
}

/// The exit status of a fleet: that of its worst image; open if an image was not audited.
pub(crate) fn fleet_exit(summary: &FleetSummary) -> RunExit {
    let counts = summary.outcomes;
    if counts.open + counts.failed + counts.missing > 0 {
        RunExit::Open
    } else if counts.findings > 0 {
        RunExit::Findings
    } else {
        RunExit::Clean
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
    let counted = parts.into_iter().filter(|(count, _)| *count > 0);
    let mut outcome = joined(counted.map(|(count, words)| format!("{count} {words}")), ", ");
    if outcome.is_empty() {
        "none with findings".clone_into(&mut outcome);
    }
    format!(
        "{}: {outcome}; {} that no phase needs",
        count_words(all, "image"),
        format_size(summary.dead_bytes)
    )
}

fn failure_rows(summary: &FleetSummary) -> Vec<Vec<String>> {
    let failures = summary.failures.iter();
    failures
        .map(|one| vec![first_name(&one.names, &one.digest), one.error.clone()])
        .collect()
}

fn state_rows(counts: &BTreeMap<String, BTreeMap<String, usize>>) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (name, states) in counts {
        let words = states.iter().map(|(state, count)| format!("{state} {count}"));
        rows.push(vec![name.clone(), joined(words, ", ")]);
    }
    rows
}

fn rule_rows(summary: &FleetSummary) -> Vec<Vec<String>> {
    let mut rules: Vec<_> = summary.rules.iter().collect();
    rules.sort_by_key(|(_, rule)| Reverse(rule.images));
    let mut rows = Vec::new();
    for (id, rule) in rules {
        let repositories = format!("in {}", count_words(rule.repositories.len(), "repository"));
        rows.push(vec![
            id.clone(),
            rule.severity.clone(),
            count_words(rule.images, "image"),
            repositories,
        ]);
    }
    rows
}

fn base_rows(summary: &FleetSummary) -> Vec<Vec<String>> {
    let mut bases: Vec<_> = summary.bases.iter().collect();
    bases.sort_by_key(|(_, images)| Reverse(**images));
    let mut rows = Vec::new();
    for ((base, rule), images) in bases {
        rows.push(vec![base.clone(), rule.clone(), count_words(*images, "image")]);
    }
    rows
}

fn repository_rows(summary: &FleetSummary) -> Vec<Vec<String>> {
    let mut repositories: Vec<_> = summary.repositories.iter().collect();
    repositories.retain(|(_, one)| one.dead_bytes > 0 || one.failing > 0);
    repositories.sort_by_key(|(_, one)| Reverse((one.dead_bytes, one.failing)));
    let mut rows = Vec::new();
    for (name, one) in repositories {
        let failing = match one.failing {
            0 => String::new(),
            failing => format!("{failing} failing"),
        };
        rows.push(vec![
            name.clone(),
            count_words(one.images, "image"),
            failing,
            format_size(one.dead_bytes),
        ]);
    }
    rows
}

fn failing_rows(summary: &FleetSummary) -> Vec<Vec<String>> {
    let mut failing: Vec<&ImageResult> = summary.results.iter().collect();
    failing.retain(|result| result.exit_code != 0);
    failing.sort_by(|a, b| (&a.names, &a.platform).cmp(&(&b.names, &b.platform)));
    let mut rows = Vec::new();
    for result in failing {
        let mut rules: Vec<&str> = result.findings.iter().map(|finding| finding.rule.as_str()).collect();
        rules.dedup();
        let name = first_name(&result.names, &result.digest);
        rows.push(vec![
            name,
            result.platform.clone(),
            result.verdict.clone(),
            rules.join(", "),
        ]);
    }
    rows
}

/// The first name, and the number of others.
fn first_name(names: &[String], digest: &str) -> String {
    match names {
        [] => digest.to_owned(),
        [only] => only.clone(),
        [first, others @ ..] => format!("{first} and {} more", count_words(others.len(), "name")),
    }
}

fn change_section(change: &FleetChange) -> Block {
    let rows: Vec<Vec<String>> = change.images.iter().map(change_row).collect();
    let mut blocks = Vec::new();
    if !rows.is_empty() {
        blocks.extend(table(&["image", "outcome", "gained", "lost"], rows));
    }
    blocks.push(Block::text(format!(
        "{} with another result, {} now lead to another image, {} new, {} gone",
        count_words(change.images.len(), "name"),
        change.rebuilt,
        change.added,
        change.removed
    )));
    Block::section("since the earlier run", blocks)
}

fn change_row(image: &ChangedImage) -> Vec<String> {
    let (before, after) = image.exit_codes;
    let outcome = if before == after {
        exit_words(after).to_owned()
    } else {
        format!("{} → {}", exit_words(before), exit_words(after))
    };
    vec![
        image.name.clone(),
        outcome,
        joined(image.gained.iter().map(|rule| format!("+{rule}")), " "),
        joined(image.lost.iter().map(|rule| format!("-{rule}")), " "),
    ]
}

fn exit_words(code: u8) -> &'static str {
    match code {
        0 => "clean",
        1 => "findings",
        _ => "open",
    }
}

/// One line of JSON per image; images that were not audited come last.
pub(crate) fn json_lines(summary: &FleetSummary) -> String {
    let mut lines = String::new();
    let results = summary.results.iter().map(json_row);
    let failures = summary.failures.iter().map(|one| {
        json!({
            "schema": SCHEMA, "digest": one.digest, "platform": one.platform, "names": one.names,
            "exit_code": 2, "error": one.error,
        })
    });
    for row in results.chain(failures) {
        let _ = writeln!(lines, "{row}");
    }
    lines
}

fn json_row(result: &ImageResult) -> Value {
    json!({
        "schema": SCHEMA,
        "digest": result.digest,
        "platform": result.platform,
        "names": result.names,
        "repositories": result.repositories(),
        "used_by": result.used_by,
        "exit_code": result.exit_code,
        "verdict": result.verdict,
        "errors": result.count("error"),
        "warnings": result.count("warning"),
        "notes": result.count("note"),
        "rules": rules(result),
        "dead_bytes": result.dead_bytes(),
        "phases": result.phases,
        // Null instead of an empty object, for which Parquet has no column type.
        "tools": (!result.tools.is_empty()).then_some(&result.tools),
    })
}

fn rules(result: &ImageResult) -> Vec<&str> {
    let mut rules: Vec<&str> = result.findings.iter().map(|finding| finding.rule.as_str()).collect();
    rules.sort_unstable();
    rules.dedup();
    rules
}
