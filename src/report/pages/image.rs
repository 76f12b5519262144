//! The page of an audited image, for Markdown and HTML: verdict, gaps, findings, phases, programs, copies, layers.

use std::collections::BTreeMap;

use crate::facts::{CuptiConsumer, CuptiCopy, ImageFacts};
use crate::judge::outcome::{AskedTool, AuditedImage, UnreadImage};
use crate::judge::plan::{Plan, PlanItem};
use crate::judge::rule::{Evidence, Finding, Rule};
use crate::report::command::assumption_words;
use crate::report::links::asked_words;
use crate::report::page::{Block, Entry, Page, gap_entries};
use crate::report::words::{
    ReportTone, consumer_outcome, copy_reach, finding_name, image_name, layer_words, layers_words, owner_words,
    platform_name, request_words, suppression_words, version_words,
};
use crate::size::{count_words, format_size};
use image_linkage::escape;

/// The rules of a run, by their id.
pub(crate) type RulesById = BTreeMap<String, Rule>;

/// The maximum number of files of a phase on the page; the JSON report has all.
const FILES: usize = 50;

/// The page of an image; with the `rules`, it has all that is for a browser only.
pub(crate) fn image_page(audit: &AuditedImage, rules: Option<&RulesById>) -> Page {
    let facts = &audit.facts;
    let (tone, verdict, subject) = head(audit);
    let mut blocks = vec![Block::Verdict(tone, verdict), subject];
    // Comes first: an unchecked part may change everything that follows.
    blocks.extend(gap_entries(facts));
    if !facts.answers.assumptions.is_empty() {
        let assumed = facts.answers.assumptions.iter().map(assumption_words).collect();
        blocks.push(Block::section("assumed", vec![Block::List(assumed)]));
    }
    if let Some(command) = &audit.fixed_by {
        blocks.push(Block::Command("to fix it", escape::escape_controls(command)));
    }
    let mut findings: Vec<Block> = Vec::new();
    for finding in &audit.findings {
        findings.push(finding_entry(
            finding,
            facts,
            rules.and_then(|rules| rules.get(&finding.rule)),
        ));
    }
    if findings.is_empty() {
        findings.push(Block::text("none".to_owned()));
    }
    blocks.push(Block::section("findings", findings));
    if let Some(links) = &audit.links {
        blocks.push(Block::List(asked_words(links)));
    } else {
        let (phases, files) = phase_tables(audit);
        let phase_columns = ["phase", "verdict", "because of", "may go"];
        blocks.extend(Block::titled_table("phases", &phase_columns, phases));
        blocks.extend(rules.map(|_| files).unwrap_or_default());
        let tools = audit.tools.iter().map(tool_cells).collect();
        blocks.extend(Block::titled_table("tools", &["tool", "state", "because"], tools));
        let columns = ["program", "object", "asks for", "outcome"];
        let programs = facts.answers.consumers.iter().map(consumer_cells).collect();
        blocks.extend(Block::titled_table("programs", &columns, programs));
        if rules.is_some() {
            blocks.extend(copy_and_layer_tables(facts));
        }
    }
    Page(blocks)
}

/// The verdict, and what the image is.
pub(super) fn head(audit: &AuditedImage) -> (ReportTone, String, Block) {
    let (facts, tone) = (&audit.facts, ReportTone::of_image(audit));
    let about = vec![platform_name(facts), layers_words(facts)];
    let digest = facts.image.digest.as_ref().map(ToString::to_string);
    let verdict = format!("{} {}", tone.mark(), audit.verdict());
    (tone, verdict, Block::Subject(image_name(facts), about, digest))
}

/// The page of an image that could not be audited.
pub(crate) fn unread_page(unread: &UnreadImage) -> Page {
    let image = escape::escape_bytes(unread.image.as_bytes());
    let tone = ReportTone::Bad;
    let answer = format!("{} {image} was not audited", tone.mark());
    Page(vec![Block::Verdict(tone, answer), Block::text(unread.why.clone())])
}

fn finding_entry(finding: &Finding, facts: &ImageFacts, rule: Option<&Rule>) -> Block {
    let mut tone = ReportTone::of_severity(finding.severity);
    let mut label = finding_name(finding);
    let mut about = Vec::new();
    // A suppressed finding stays visible, so that reviewers see it and the reason.
    if let Some(suppressed) = &finding.suppressed {
        tone = ReportTone::Remark;
        label = format!("suppressed {label}");
        about.push(format!("suppressed because {}", suppression_words(suppressed)));
    }
    for location in &finding.locations {
        about.push(match location.layer {
            Some(layer) => format!("at {}, {}", location.path, layer_words(facts, layer)),
            None => format!("at {}", location.path),
        });
    }
    about.push(format!("fix: {}", finding.fix));
    let mut blocks = vec![Block::List(about)];
    for (language, lines) in [("dockerfile", &finding.instructions), ("sh", &finding.commands)] {
        if !lines.is_empty() {
            blocks.push(Block::Code(language, lines.join("\n")));
        }
    }
    if !finding.evidence.is_empty() {
        let lines: Vec<String> = finding.evidence.iter().map(Evidence::text).collect();
        let code = vec![Block::Code("text", lines.join("\n"))];
        blocks.push(Block::Folded("evidence".to_owned(), code));
    }
    if let Some(rule) = rule {
        let why = vec![Block::text(rule.why.clone()), Block::Links(rule.references.clone())];
        blocks.push(Block::Folded("why it matters".to_owned(), why));
    }
    Block::Entry(Entry {
        label: Some((tone, label)),
        message: (&*finding.message).into(),
        blocks,
    })
}

/// A tool that the user asked about.
fn tool_cells(tool: &AskedTool) -> Vec<String> {
    let readiness = &tool.readiness;
    vec![
        tool.name.clone(),
        readiness.state.name().to_owned(),
        readiness.because.join("; "),
    ]
}

/// The rows of the phases, and for each the largest files that stay and that may go.
fn phase_tables(audit: &AuditedImage) -> (Vec<Vec<String>>, Vec<Block>) {
    let (mut rows, mut files) = (Vec::new(), Vec::new());
    for plan in &audit.plans {
        rows.push(phase_row(plan, audit.phases.contains(&plan.phase)));
        for (words, items) in [("stays", &plan.keep), ("may go", &plan.drop)] {
            if !items.is_empty() {
                files.push(folded_files(&plan.phase, words, items));
            }
        }
    }
    (rows, files)
}

fn phase_row(plan: &Plan, is_requested: bool) -> Vec<String> {
    let requested = if is_requested { " (asked for)" } else { "" };
    let drop = match plan.drop_bytes() {
        0 => String::new(),
        bytes => format!("{} in {}", format_size(bytes), count_words(plan.drop.len(), "file")),
    };
    vec![
        format!("{}{requested}", plan.phase),
        plan.verdict.name().to_owned(),
        plan.because.join(", "),
        drop,
    ]
}

/// The largest files; a toolkit has thousands.
fn folded_files(phase: &str, words: &str, items: &[PlanItem]) -> Block {
    let mut largest: Vec<&PlanItem> = items.iter().collect();
    // The path breaks ties, so that the page is deterministic.
    largest.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.path.cmp(&b.path)));
    let mut rows = Vec::new();
    for item in largest.into_iter().take(FILES) {
        rows.push(vec![
            item.path.to_string(),
            format_size(item.bytes),
            item.because.clone(),
        ]);
    }
    let mut blocks = vec![Block::table(&["file", "size", "because"], rows)];
    if let Some(more @ 1..) = items.len().checked_sub(FILES) {
        let more = count_words(more, "smaller file");
        blocks.push(Block::text(format!("and {more}; the JSON report names them all")));
    }
    let bytes = format_size(items.iter().map(|item| item.bytes).sum());
    let files = count_words(items.len(), "file");
    Block::Folded(format!("{phase}: {bytes} {words}, {files}"), blocks)
}

fn copy_and_layer_tables(facts: &ImageFacts) -> impl Iterator<Item = Block> {
    let columns = [
        "version",
        "path",
        "size",
        "processor",
        "package",
        "layer",
        "who gets it",
    ];
    let mut rows = Vec::new();
    for copy in &facts.answers.copies {
        rows.push(copy_cells(copy, facts));
    }
    let mut layers = Vec::new();
    for (number, layer) in facts.layers.sizes.iter().enumerate() {
        layers.push(vec![layer_words(facts, number), format_size(layer.bytes)]);
    }
    let copies = Block::titled_table("copies", &columns, rows);
    copies
        .into_iter()
        .chain(Block::titled_table("layers", &["layer", "size"], layers))
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
