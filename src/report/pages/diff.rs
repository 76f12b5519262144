//! Compares two images: as a page, and as JSON.

use serde_json::{Value, json};

use crate::facts::{CuptiConsumer, CuptiCopy, ImageFacts};
use crate::judge::image_diff::{ConsumerPair, ImageDiff};
use crate::judge::outcome::{AuditedImage, FailOn, RunExit};
use crate::judge::rule::Finding;
use crate::report::json::finding as finding_json;
use crate::report::json_parts::{gap_reports, image_identity, program_version};
use crate::report::page::{Block, Page, gap_entries};
use crate::report::words::{
    ReportTone, consumer_outcome, created_by, image_name, layers_words, platform_name, version_words,
};
use crate::size::{count_words, format_size};

/// The identifier of the JSON contract.
const SCHEMA: &str = "cupti-audit/diff/v1";
/// The maximum number of owners on the page; the JSON has all.
const OWNERS: usize = 20;

/// The page of a comparison with exit status `exit`.
pub(crate) fn diff_page(diff: &ImageDiff<'_>, exit: RunExit) -> Page {
    // The tone only says that the second image is no worse than the first.
    let tone = ReportTone::of_exit(exit);
    let mark = if exit == RunExit::Clean { "·" } else { tone.mark() };
    let (before, after) = (diff.before, diff.after);
    let images = vec![image_row("before", before), image_row("after", after)];
    let mut blocks = vec![
        Block::Verdict(tone, format!("{mark} {}", verdict(diff))),
        Block::table(&["", "image", "platform", "layers", "verdict"], images),
    ];
    let tables = [
        ("phases", &["phase", "before", "after"][..], phase_rows(diff)),
        (
            "programs that ask for it",
            &["program", "object", "before", "after"][..],
            consumer_rows(diff),
        ),
        ("copies", &["", "version", "size", "path"][..], copy_rows(diff)),
        ("findings", &["", "rule", "finding"][..], finding_rows(diff)),
        (
            "bytes by what the files belong to",
            &["what", "before", "after", "change"][..],
            owner_rows(diff),
        ),
    ];
    for (title, columns, rows) in tables {
        blocks.extend(Block::titled_table(title, columns, rows));
    }
    let mut layers = Vec::new();
    if diff.layers.0.len() + diff.layers.1.len() > 0 {
        layers.push(Block::table(&["", "layer", "size", "made by"], layer_rows(diff)));
    }
    let shared = before.facts.layers.sizes.len() - diff.layers.0.len();
    layers.push(Block::text(format!("{} are in both", count_words(shared, "layer"))));
    blocks.push(Block::section("layers", layers));
    blocks.extend(gap_entries(&before.facts).chain(gap_entries(&after.facts)));
    Page(blocks)
}

/// The difference in one line.
fn verdict(diff: &ImageDiff<'_>) -> String {
    let bytes = u64::try_from(diff.changed_bytes().unsigned_abs()).unwrap_or(u64::MAX);
    let (before, after) = (format_size(diff.file_bytes.0), format_size(diff.file_bytes.1));
    let size = match diff.changed_bytes() {
        0 => format!("as large as before ({before})"),
        change if change < 0 => format!("{} smaller ({before} → {after})", format_size(bytes)),
        _ => format!("{} larger ({before} → {after})", format_size(bytes)),
    };
    let mut words = vec![size];
    for phase in diff.phases.iter().filter(|phase| phase.before != phase.after) {
        words.push(format!(
            "{} {} → {}",
            phase.phase,
            phase.before.name(),
            phase.after.name()
        ));
    }
    let (gained, lost) = (diff.findings.0.len(), diff.findings.1.len());
    if gained + lost > 0 {
        words.push(format!("{} gained, {lost} lost", count_words(gained, "finding")));
    }
    words.join("; ")
}

fn image_row(which: &str, audit: &AuditedImage) -> Vec<String> {
    let facts = &audit.facts;
    let (name, platform, layers) = (image_name(facts), platform_name(facts), layers_words(facts));
    vec![which.to_owned(), name, platform, layers, audit.verdict()]
}

fn phase_rows(diff: &ImageDiff<'_>) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for phase in &diff.phases {
        rows.push(
            [phase.phase, phase.before.name(), phase.after.name()]
                .map(str::to_owned)
                .to_vec(),
        );
    }
    rows
}

/// The word for what only the second image has (`true`), or only the first.
fn gained_or_lost(is_gained: bool) -> &'static str {
    if is_gained { "gained" } else { "lost" }
}

/// First the gained items and then the lost ones, each marked.
fn both<T>((gained, lost): &(Vec<T>, Vec<T>)) -> impl Iterator<Item = (bool, &T)> {
    let gained = gained.iter().map(|one| (true, one));
    gained.chain(lost.iter().map(|one| (false, one)))
}

fn outcome(consumer: Option<&CuptiConsumer>) -> Option<String> {
    consumer.map(|consumer| consumer_outcome(consumer).plain())
}

/// The programs whose result differs between the images.
fn changed_consumers<'d>(diff: &'d ImageDiff<'_>) -> impl Iterator<Item = (&'d ConsumerPair<'d>, &'d CuptiConsumer)> {
    let pairs = diff
        .consumers
        .iter()
        .filter(|pair| outcome(pair.before) != outcome(pair.after));
    pairs.filter_map(|pair| Some((pair, pair.after.or(pair.before)?)))
}

fn consumer_rows(diff: &ImageDiff<'_>) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (pair, any) in changed_consumers(diff) {
        let outcomes = [pair.before, pair.after].map(|of| outcome(of).unwrap_or_else(|| "is not there".to_owned()));
        let mut row = vec![any.name.clone(), any.object.to_string()];
        row.extend(outcomes);
        rows.push(row);
    }
    rows
}

fn copy_rows(diff: &ImageDiff<'_>) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (is_gained, copy) in both(&diff.copies) {
        rows.push(vec![
            gained_or_lost(is_gained).to_owned(),
            version_words(copy).to_owned(),
            format_size(copy.bytes),
            copy.real_path.to_string(),
        ]);
    }
    rows
}

fn finding_rows(diff: &ImageDiff<'_>) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (is_gained, finding) in both(&diff.findings) {
        let what = format!("{} {}", gained_or_lost(is_gained), finding.severity.name());
        rows.push(vec![what, finding.rule.clone(), finding.message.clone()]);
    }
    rows
}

/// A size difference with its sign.
fn change_words(before: u64, after: u64) -> String {
    let sign = if after < before { "−" } else { "+" };
    format!("{sign}{}", format_size(before.abs_diff(after)))
}

fn owner_rows(diff: &ImageDiff<'_>) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for owner in diff.owners.iter().take(OWNERS) {
        rows.push(owner_row(owner.owner.clone(), owner.before, owner.after));
    }
    let rest = diff.owners.get(OWNERS..).unwrap_or_default();
    if !rest.is_empty() {
        let before = rest.iter().map(|owner| owner.before).sum();
        let after = rest.iter().map(|owner| owner.after).sum();
        rows.push(owner_row(format!("{} more", rest.len()), before, after));
    }
    rows
}

fn owner_row(what: String, before: u64, after: u64) -> Vec<String> {
    vec![
        what,
        format_size(before),
        format_size(after),
        change_words(before, after),
    ]
}

/// The layers that only one image has: whether it is the second image, its facts and the layer number.
fn changed_layers<'d>(diff: &'d ImageDiff<'_>) -> impl Iterator<Item = (bool, &'d ImageFacts, usize)> {
    let lost = diff.layers.0.iter().map(|number| (false, &diff.before.facts, *number));
    lost.chain(diff.layers.1.iter().map(|number| (true, &diff.after.facts, *number)))
}

fn layer_bytes(facts: &ImageFacts, number: usize) -> u64 {
    facts.layers.sizes.get(number).map_or(0, |layer| layer.bytes)
}

fn layer_rows(diff: &ImageDiff<'_>) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (is_gained, facts, number) in changed_layers(diff) {
        rows.push(vec![
            gained_or_lost(is_gained).to_owned(),
            (number + 1).to_string(),
            format_size(layer_bytes(facts, number)),
            created_by(facts, number),
        ]);
    }
    rows
}

/// The comparison as JSON, version 1 of the contract.
pub(crate) fn diff_json(diff: &ImageDiff<'_>, fail_on: FailOn) -> Value {
    let (before, after) = (diff.before, diff.after);
    let phases =
        (diff.phases.iter()).map(|it| json!({"phase": it.phase, "before": it.before.name(), "after": it.after.name()}));
    let owners = (diff.owners.iter()).map(|it| json!({"owner": it.owner, "before": it.before, "after": it.after}));
    let consumers = changed_consumers(diff).map(|(pair, any)| {
        let (before, after) = (outcome(pair.before), outcome(pair.after));
        json!({"name": any.name, "object": any.object.to_string(), "before": before, "after": after})
    });
    let both_gaps = [before, after].map(|audit| gap_reports(&audit.facts));
    let gaps = both_gaps.iter().filter_map(Value::as_array).flatten();
    json!({
        "schema": SCHEMA,
        "tool": program_version(),
        "verdict": verdict(diff),
        "exit_code": diff.exit(fail_on) as u8,
        "before": side_json(before, diff.file_bytes.0),
        "after": side_json(after, diff.file_bytes.1),
        "changed_bytes": i64::try_from(diff.changed_bytes()).ok(),
        "phases": phases.collect::<Value>(),
        "copies": {"gained": copies_json(&diff.copies.0), "lost": copies_json(&diff.copies.1)},
        "consumers": consumers.collect::<Value>(),
        "findings": {"gained": findings_json(&diff.findings.0), "lost": findings_json(&diff.findings.1)},
        "owners": owners.collect::<Value>(),
        "layers": layers_json(diff),
        "shared_layers": before.facts.layers.sizes.len() - diff.layers.0.len(),
        "gaps": gaps.cloned().collect::<Value>(),
    })
}

fn side_json(audit: &AuditedImage, file_bytes: u64) -> Value {
    let facts = &audit.facts;
    json!({
        "image": image_identity(&facts.image),
        "verdict": audit.verdict(),
        "layers": facts.layers.sizes.len(),
        "layer_bytes": facts.layers.sizes.iter().map(|layer| layer.bytes).sum::<u64>(),
        "file_bytes": file_bytes,
    })
}

fn findings_json(findings: &[&Finding]) -> Value {
    findings.iter().map(|finding| finding_json(finding)).collect()
}

fn copies_json(copies: &[&CuptiCopy]) -> Value {
    let mut values = Vec::new();
    for copy in copies {
        let version = copy.version.as_ref().map(|(version, _)| version);
        values.push(json!({"path": copy.real_path.to_string(), "version": version, "bytes": copy.bytes}));
    }
    values.into()
}

fn layers_json(diff: &ImageDiff<'_>) -> Value {
    let layers = changed_layers(diff).map(|(is_gained, facts, number)| {
        let layer = facts.image.layers.get(number);
        json!({
            "of": if is_gained { "after" } else { "before" },
            "number": number,
            "bytes": layer_bytes(facts, number),
            "created_by": layer.and_then(|layer| layer.created_by.as_ref()),
        })
    });
    layers.collect()
}
