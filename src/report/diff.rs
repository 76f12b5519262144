//! Compares two images: as a page, and as JSON.

use std::iter;

use serde_json::{Value, json};

use super::blocks::{Block, ReportPage, TableRow, headed_table};
use super::json::finding as finding_json;
use super::json_parts::{gap_reports, image_identity, program_version};
use super::text_layout::{BOLD, joined, styled};
use super::words::{ReportTone, consumer_outcome, created_by, image_name, layers_words, platform_name, version_words};
use crate::facts::{CuptiConsumer, CuptiCopy, ImageFacts};
use crate::judge::image_diff::{ConsumerPair, ImageDiff};
use crate::judge::outcome::{AuditedImage, FailOn, RunExit};
use crate::judge::rule::Finding;
use crate::size::{count_words, format_size};

/// The identifier of the JSON contract.
const SCHEMA: &str = "cupti-audit/diff/v1";
/// The maximum number of owners on the page; the JSON has all.
const OWNERS: usize = 20;

/// The page of a comparison with exit status `exit`.
pub(crate) fn diff_page<'a>(diff: &ImageDiff<'a>, exit: RunExit) -> ReportPage<'a> {
    // The tone only says that the second image is no worse than the first.
    let tone = ReportTone::of_exit(exit);
    let mark = if exit == RunExit::Clean { "·" } else { tone.mark() };
    let (before, after) = (diff.before, diff.after);
    let mut blocks = vec![
        Block::Answer(tone, format!("{mark} {}", verdict(diff))),
        Block::Table(
            vec!["", "image", "platform", "layers", "verdict"],
            vec![image_row("before", before), image_row("after", after)],
        ),
    ];
    let parts: [(&'static str, &'static [&'static str], Vec<TableRow>); 6] = [
        ("phases", &["phase", "before", "after"], phase_rows(diff)),
        (
            "programs that ask for it",
            &["program", "before", "after"],
            consumer_rows(diff),
        ),
        ("copies", &["", "version", "size", "path"], copy_rows(diff)),
        ("findings", &["", "finding", "rule"], finding_rows(diff)),
        (
            "bytes by what the files belong to",
            &["what", "before", "after", "change"],
            owner_rows(diff),
        ),
        ("layers", &["", "layer", "size", "made by"], layer_rows(diff)),
    ];
    for (heading, columns, rows) in parts {
        blocks.extend(headed_table(heading, columns, rows));
    }
    let shared = before.facts.layers.len() - diff.layers.0.len();
    blocks.push(Block::Line(format!("{} are in both", count_words(shared, "layer"))));
    blocks.extend([Block::Gaps(&before.facts), Block::Gaps(&after.facts)]);
    ReportPage(blocks)
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
    let phases = diff.phases.iter().filter(|phase| phase.before != phase.after);
    let phases = phases.map(|phase| format!("{} {} → {}", phase.phase, phase.before.name(), phase.after.name()));
    let (gained, lost) = (diff.findings.0.len(), diff.findings.1.len());
    let findings = (gained + lost > 0).then(|| format!("{} gained, {lost} lost", count_words(gained, "finding")));
    joined(iter::once(size).chain(phases).chain(findings), "; ")
}

fn image_row(which: &str, audit: &AuditedImage) -> TableRow {
    let facts = &audit.facts;
    let (name, platform, layers) = (image_name(facts), platform_name(facts), layers_words(facts));
    let line = format!("{which:7} {}  {platform}  {layers}", styled(BOLD, &name));
    TableRow {
        cells: vec![which.to_owned(), name, platform, layers, audit.verdict()],
        line,
        labelled: vec![("          ".to_owned(), audit.verdict())],
    }
}

fn phase_rows(diff: &ImageDiff<'_>) -> Vec<TableRow> {
    let rows = diff.phases.iter().map(|phase| {
        let (before, after) = (phase.before.name(), phase.after.name());
        let words = if before == after {
            before.to_owned()
        } else {
            format!("{before} → {after}")
        };
        let line = format!("  {:10} {words}", phase.phase);
        TableRow::new(vec![phase.phase.to_owned(), before.to_owned(), after.to_owned()], line)
    });
    rows.collect()
}

/// The sign and word for what only the second image has (`true`), or only the first.
fn sign(is_gained: bool) -> (&'static str, &'static str) {
    if is_gained { ("+", "gained") } else { ("-", "lost") }
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

fn consumer_rows(diff: &ImageDiff<'_>) -> Vec<TableRow> {
    let rows = changed_consumers(diff).map(|(pair, any)| {
        let words = |consumer| outcome(consumer).unwrap_or_else(|| "is not there".to_owned());
        let (before, after) = (words(pair.before), words(pair.after));
        TableRow {
            cells: vec![any.name.clone(), before.clone(), after.clone()],
            line: format!("  {}  {}", any.name, any.object),
            labelled: vec![("    before  ".to_owned(), before), ("    after   ".to_owned(), after)],
        }
    });
    rows.collect()
}

fn copy_rows(diff: &ImageDiff<'_>) -> Vec<TableRow> {
    let rows = both(&diff.copies).map(|(is_gained, copy)| {
        let (sign, word) = sign(is_gained);
        let (version, size, path) = (version_words(copy), format_size(copy.bytes), copy.real_path.to_string());
        let line = format!("  {sign} {version}  {size}  {path}");
        TableRow::new(vec![word.to_owned(), version.to_owned(), size, path], line)
    });
    rows.collect()
}

fn finding_rows(diff: &ImageDiff<'_>) -> Vec<TableRow> {
    let rows = both(&diff.findings).map(|(is_gained, finding)| {
        let (sign, word) = sign(is_gained);
        let (rule, severity) = (&finding.rule, finding.severity.name());
        TableRow {
            cells: vec![format!("{word} {severity}"), finding.message.clone(), rule.clone()],
            line: String::new(),
            labelled: vec![(format!("  {sign} {severity}[{rule}] "), finding.message.clone())],
        }
    });
    rows.collect()
}

/// A size difference with its sign.
fn change_words(before: u64, after: u64) -> String {
    let sign = if after < before { "−" } else { "+" };
    format!("{sign}{}", format_size(before.abs_diff(after)))
}

fn owner_rows(diff: &ImageDiff<'_>) -> Vec<TableRow> {
    let shown = diff.owners.iter().take(OWNERS).map(|owner| {
        let change = change_words(owner.before, owner.after);
        let line = format!("  {change:>10}  {}", owner.owner);
        let sizes = [owner.before, owner.after].map(format_size);
        let cells = [owner.owner.clone()].into_iter().chain(sizes).chain([change]);
        TableRow::new(cells.collect(), line)
    });
    let rest = diff.owners.get(OWNERS..).unwrap_or_default();
    let more = rest
        .iter()
        .fold((0, 0), |sum, owner| (sum.0 + owner.before, sum.1 + owner.after));
    let more = (!rest.is_empty()).then(|| {
        let (change, words) = (change_words(more.0, more.1), format!("{} more", rest.len()));
        let line = format!("  {change:>10}  {words}");
        TableRow::new(vec![words, format_size(more.0), format_size(more.1), change], line)
    });
    shown.chain(more).collect()
}

/// The layers that only one image has: whether it is the second image, its facts and the layer number.
fn changed_layers<'d>(diff: &'d ImageDiff<'_>) -> impl Iterator<Item = (bool, &'d ImageFacts, usize)> {
    let lost = diff.layers.0.iter().map(|number| (false, &diff.before.facts, *number));
    lost.chain(diff.layers.1.iter().map(|number| (true, &diff.after.facts, *number)))
}

fn layer_bytes(facts: &ImageFacts, number: usize) -> u64 {
    facts.layers.get(number).map_or(0, |layer| layer.bytes)
}

fn layer_rows(diff: &ImageDiff<'_>) -> Vec<TableRow> {
    let rows = changed_layers(diff).map(|(is_gained, facts, number)| {
        let (sign, word) = sign(is_gained);
        let (size, made) = (format_size(layer_bytes(facts, number)), created_by(facts, number));
        let number = (number + 1).to_string();
        TableRow {
            cells: vec![word.to_owned(), number.clone(), size.clone(), made.clone()],
            line: format!("  {sign} layer {number}  {size}"),
            labelled: vec![("      ".to_owned(), made)],
        }
    });
    rows.collect()
}

/// The comparison as JSON, version 1 of the contract.
pub(crate) fn diff_json(diff: &ImageDiff<'_>, fail_on: FailOn) -> Value {
    let (before, after) = (diff.before, diff.after);
    let findings = |of: &[&Finding]| -> Value { of.iter().map(|finding| finding_json(finding)).collect() };
    let copies = |of: &[&CuptiCopy]| -> Value { of.iter().map(|copy| copy_json(copy)).collect() };
    let phases = diff.phases.iter();
    let phases = phases.map(|it| json!({"phase": it.phase, "before": it.before.name(), "after": it.after.name()}));
    let owners = diff.owners.iter();
    let owners = owners.map(|it| json!({"owner": it.owner, "before": it.before, "after": it.after}));
    let consumers = changed_consumers(diff).map(|(pair, any)| {
        let (before, after) = (outcome(pair.before), outcome(pair.after));
        json!({"name": any.name, "object": any.object.to_string(), "before": before, "after": after})
    });
    let gaps = [before, after].map(|audit| gap_reports(&audit.facts));
    let gaps = gaps.iter().filter_map(Value::as_array).flatten();
    json!({
        "schema": SCHEMA,
        "tool": program_version(),
        "verdict": verdict(diff),
        "exit_code": diff.exit(fail_on) as u8,
        "before": side_json(before, diff.file_bytes.0),
        "after": side_json(after, diff.file_bytes.1),
        "changed_bytes": i64::try_from(diff.changed_bytes()).ok(),
        "phases": phases.collect::<Value>(),
        "copies": {"gained": copies(&diff.copies.0), "lost": copies(&diff.copies.1)},
        "consumers": consumers.collect::<Value>(),
        "findings": {"gained": findings(&diff.findings.0), "lost": findings(&diff.findings.1)},
        "owners": owners.collect::<Value>(),
        "layers": layers_json(diff),
        "shared_layers": before.facts.layers.len() - diff.layers.0.len(),
        "gaps": gaps.cloned().collect::<Value>(),
    })
}

fn side_json(audit: &AuditedImage, file_bytes: u64) -> Value {
    let facts = &audit.facts;
    json!({
        "image": image_identity(&facts.image),
        "verdict": audit.verdict(),
        "layers": facts.layers.len(),
        "layer_bytes": facts.layers.iter().map(|layer| layer.bytes).sum::<u64>(),
        "file_bytes": file_bytes,
    })
}

fn copy_json(copy: &CuptiCopy) -> Value {
    let version = copy.version.as_ref().map(|(version, _)| version);
    json!({"path": copy.real_path.to_string(), "version": version, "bytes": copy.bytes})
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
