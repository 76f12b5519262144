//! The page of an audited image, for Markdown and HTML: verdict, gaps, findings, phases, programs, copies, layers.

use std::collections::BTreeMap;

use super::blocks::{Block, ReportPage, TableRow, headed_table};
use super::command::assumption_words;
use super::links::asked_words;
use super::text_layout::joined;
use super::words::{
    ReportTone, command_text, consumer_outcome, copy_reach, image_name, layer_words, layers_words, owner_words,
    platform_name, request_words, suppression_words, version_words,
};
use crate::facts::{CuptiConsumer, CuptiCopy, ImageFacts};
use crate::judge::outcome::{AuditedImage, UnreadImage};
use crate::judge::plan::{Plan, PlanItem};
use crate::judge::rule::{Evidence, Finding, Rule};
use crate::size::{count_words, format_size};
use image_linkage::escape;

/// The rules of a run, by their id.
pub(super) type RulesById = BTreeMap<String, Rule>;

/// The maximum number of files of a phase on the page; the JSON report has all.
const FILES: usize = 50;

/// The page of an image.
pub(super) fn audit_page<'a>(audit: &'a AuditedImage, rules: &'a RulesById) -> ReportPage<'a> {
    let facts = &audit.facts;
    let tone = ReportTone::of_image(audit);
    let about = [image_name(facts), platform_name(facts), layers_words(facts)];
    let digest = facts.image.digest.iter().map(ToString::to_string);
    let mut blocks = vec![
        Block::Answer(tone, format!("{} {}", tone.mark(), audit.verdict())),
        Block::Paragraph("", joined(about.into_iter().chain(digest), " · ")),
        // Comes first: an unchecked part may change everything that follows.
        Block::Gaps(facts),
    ];
    if !facts.assumptions.is_empty() {
        let assumed = facts.assumptions.iter().map(assumption_words).collect();
        blocks.extend([Block::Caption("assumed"), Block::List(assumed)]);
    }
    if let Some(command) = &audit.fixed_by {
        blocks.extend([Block::Caption("to fix it"), Block::Code("sh", command_text(command))]);
    }
    blocks.push(Block::Heading("findings"));
    if audit.findings.is_empty() {
        blocks.push(Block::Line("none".to_owned()));
    }
    for finding in &audit.findings {
        blocks.extend(finding_blocks(finding, facts, rules.get(&finding.rule)));
    }
    if let Some(links) = &audit.links {
        blocks.push(Block::List(asked_words(links)));
    } else {
        blocks.extend(phase_blocks(audit));
        blocks.extend(inventory_blocks(facts));
    }
    ReportPage(blocks)
}

/// The page of an image that could not be audited.
pub(super) fn unread_page(unread: &UnreadImage) -> ReportPage<'static> {
    let image = escape::escape_bytes(unread.image.as_bytes());
    let tone = ReportTone::Bad;
    let answer = format!("{} {image} was not audited", tone.mark());
    ReportPage(vec![
        Block::Answer(tone, answer),
        Block::Paragraph("", unread.why.clone()),
    ])
}

fn finding_blocks<'a>(finding: &'a Finding, facts: &ImageFacts, rule: Option<&'a Rule>) -> Vec<Block<'a>> {
    let label = format!("{}[{}]", finding.severity.name(), finding.rule);
    // A suppressed finding stays visible, so that reviewers see it and the reason.
    let (tone, label) = match &finding.suppressed {
        Some(_) => (ReportTone::Remark, format!("suppressed {label}")),
        None => (ReportTone::of_severity(finding.severity), label),
    };
    let suppressed = finding.suppressed.as_ref();
    let suppressed = suppressed.map(|mark| format!("suppressed because {}", suppression_words(mark)));
    let places = finding.locations.iter().map(|location| match location.layer {
        Some(layer) => format!("at {}, {}", location.path, layer_words(facts, layer)),
        None => format!("at {}", location.path),
    });
    let fix = format!("fix: {}", finding.fix);
    let mut blocks = vec![
        Block::Problem(tone, label, finding.message.clone()),
        Block::List(suppressed.into_iter().chain(places).chain([fix]).collect()),
    ];
    for (language, lines) in [("dockerfile", &finding.instructions), ("sh", &finding.commands)] {
        if !lines.is_empty() {
            blocks.push(Block::Code(language, lines.join("\n")));
        }
    }
    if !finding.evidence.is_empty() {
        let evidence = joined(finding.evidence.iter().map(Evidence::text), "\n");
        blocks.push(Block::Details(
            "evidence".to_owned(),
            vec![Block::Code("text", evidence)],
        ));
    }
    blocks.extend(rule.map(|rule| {
        let why = vec![Block::Line(rule.why.clone()), Block::Links(&rule.references)];
        Block::HtmlOnly(vec![Block::Details("why it matters".to_owned(), why)])
    }));
    blocks
}

fn phase_blocks(audit: &AuditedImage) -> Vec<Block<'static>> {
    let row = |plan: &Plan| {
        let asked = if audit.phases.contains(&plan.phase) {
            " (asked for)"
        } else {
            ""
        };
        let drop = match plan.drop_bytes() {
            0 => String::new(),
            bytes => format!("{} in {}", format_size(bytes), count_words(plan.drop.len(), "file")),
        };
        vec![
            format!("{}{asked}", plan.phase),
            plan.verdict.name().to_owned(),
            plan.because.join(", "),
            drop,
        ]
    };
    let mut blocks = headed_table(
        "phases",
        &["phase", "verdict", "because of", "may go"],
        plain_rows(audit.plans.iter().map(row)),
    );
    for plan in &audit.plans {
        let files = [("stays", &plan.keep), ("may go", &plan.drop)];
        let files = files.into_iter().filter(|(_, items)| !items.is_empty());
        let details = files.map(|(words, items)| file_details(&plan.phase, words, items));
        blocks.push(Block::HtmlOnly(details.collect()));
    }
    blocks
}

/// The largest files; a toolkit has thousands.
fn file_details(phase: &str, words: &str, items: &[PlanItem]) -> Block<'static> {
    let bytes = format_size(items.iter().map(|item| item.bytes).sum());
    let mut largest: Vec<&PlanItem> = items.iter().collect();
    // The path breaks ties, so that the page is deterministic.
    largest.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.path.cmp(&b.path)));
    let row = |item: &&PlanItem| vec![item.path.to_string(), format_size(item.bytes), item.because.clone()];
    let rows = plain_rows(largest.iter().take(FILES).map(row));
    let mut blocks = vec![Block::Table(vec!["file", "size", "because"], rows)];
    if let Some(more @ 1..) = items.len().checked_sub(FILES) {
        let more = count_words(more, "smaller file");
        blocks.push(Block::Line(format!("and {more}; the JSON report names them all")));
    }
    let files = count_words(items.len(), "file");
    Block::Details(format!("{phase}: {bytes} {words}, {files}"), blocks)
}

/// The programs, the copies and the layers.
fn inventory_blocks(facts: &ImageFacts) -> Vec<Block<'static>> {
    let programs = ["program", "object", "asks for", "outcome"];
    let mut blocks = headed_table(
        "programs",
        &programs,
        plain_rows(facts.consumers.iter().map(consumer_cells)),
    );
    let copies = [
        "version",
        "path",
        "size",
        "processor",
        "package",
        "layer",
        "who gets it",
    ];
    let rows = facts.copies.iter().map(|copy| copy_cells(copy, facts));
    let mut more = headed_table("copies", &copies, plain_rows(rows));
    let layers = facts.layers.iter().enumerate();
    let layers = layers.map(|(number, layer)| vec![layer_words(facts, number), format_size(layer.bytes)]);
    more.extend(headed_table("layers", &["layer", "size"], plain_rows(layers)));
    blocks.push(Block::HtmlOnly(more));
    blocks
}

fn plain_rows(rows: impl Iterator<Item = Vec<String>>) -> Vec<TableRow> {
    rows.map(|cells| TableRow::new(cells, String::new())).collect()
}

fn copy_cells(copy: &CuptiCopy, facts: &ImageFacts) -> Vec<String> {
    let mut reach = vec![copy_reach(copy, facts).plain()];
    reach.extend(copy.problems.iter().cloned());
    reach.extend(copy.denial.iter().map(|denial| format!("permission denied: {denial}")));
    vec![
        version_words(copy).to_owned(),
        copy.real_path.to_string(),
        format_size(copy.bytes),
        copy.machine.clone().unwrap_or_default(),
        owner_words(copy),
        (copy.layer + 1).to_string(),
        reach.join("; "),
    ]
}

fn consumer_cells(consumer: &CuptiConsumer) -> Vec<String> {
    vec![
        consumer.name.clone(),
        consumer.object.to_string(),
        request_words(consumer),
        consumer_outcome(consumer).plain(),
    ]
}
