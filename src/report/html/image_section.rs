//! The section of one image: verdict, gaps, phases, findings, copies, programs, layers.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::super::blocks::TableRow;
use super::super::links::asked_words;
use super::super::text_layout::count_words;
use super::super::words::{
    ReportTone, command_text, consumer_outcome, copy_reach, fix_lines, layer_words, layers_words, owner_words,
    request_words, split_evidence, suppression_words, version_words,
};
use super::table::table;
use crate::facts::{CuptiConsumer, CuptiCopy, ImageFacts};
use crate::judge::outcome::AuditedImage;
use crate::judge::plan::{Plan, PlanItem};
use crate::judge::rule::{Finding, Rule};
use crate::report::command;
use crate::size::format_size;
use image_linkage::loader::TraceLine;

/// An image in its heading and in the list at the top of the page.
pub(super) struct ImageEntry {
    pub tone: ReportTone,
    pub image: String,
    pub platform: String,
    pub verdict: String,
}

/// The section of the image with this number.
pub(super) fn image_section(
    audit: &AuditedImage,
    rules: &BTreeMap<String, Rule>,
    entry: &ImageEntry,
    number: usize,
) -> Markup {
    let facts = &audit.facts;
    html! {
        section id={ "image-" (number) } {
            h2 { (entry.image) }
            p.verdict.(entry.tone.class()) { (entry.tone.mark()) " " (entry.verdict) }
            p.about {
                (entry.platform) " · " (layers_words(facts))
                @if let Some(digest) = &facts.image.digest { br; code { (digest) } }
            }
            // Comes first: an unchecked part may change everything that follows.
            (gaps(facts))
            (assumptions(audit))
            @if let Some(command) = &audit.fixed_by {
                p { b { "To fix it: " } code { (command_text(command)) } }
            }
            // Phases exist for CUPTI only.
            @if !audit.plans.is_empty() {
                h3 { "Phases" }
                div.cards { @for plan in &audit.plans { (phase(plan, audit)) } }
            }
            h3 { "Findings" }
            @if audit.findings.is_empty() { p { "None." } }
            @for finding in &audit.findings { (self::finding(finding, facts, rules)) }
            @if let Some(links) = &audit.links {
                ul { @for line in asked_words(links) { li { (line) } } }
            } @else {
                (inventory(facts))
            }
        }
    }
}

fn assumptions(audit: &AuditedImage) -> Markup {
    let assumptions = &audit.facts.assumptions;
    html! {
        @if !assumptions.is_empty() && audit.links.is_none() {
            h3 { "Assumed" }
            ul.gaps {
                @for assumption in assumptions {
                    li { (command::assumption_words(assumption)) }
                }
            }
        }
    }
}

pub(super) fn gaps(facts: &ImageFacts) -> Markup {
    html! {
        @if !facts.gaps.is_empty() {
            h3 { "Not checked" }
            ul.gaps { @for gap in &facts.gaps { li { (gap.what) ": " (gap.why) } } }
        }
    }
}

fn phase(plan: &Plan, audit: &AuditedImage) -> Markup {
    let tone = ReportTone::of_phase(plan.verdict);
    let class = tone.class();
    let mark = tone.mark();
    html! {
        div.card.(class) {
            h4 {
                (plan.phase)
                @if audit.phases.contains(&plan.phase) { span.asked { " asked for" } }
            }
            p.verdict.(class) { (mark) " " (plan.verdict.name()) }
            @if !plan.because.is_empty() {
                p { "because of " @for (at, rule) in plan.because.iter().enumerate() {
                    @if at > 0 { ", " } code { (rule) }
                } }
            }
            (items("stays", &plan.keep, plan.keep_bytes()))
            (items("may go", &plan.drop, plan.drop_bytes()))
        }
    }
}

/// The largest files; a toolkit has thousands.
fn items(words: &str, items: &[PlanItem], bytes: u64) -> Markup {
    const SHOWN: usize = 50;
    let mut largest: Vec<&PlanItem> = items.iter().collect();
    // The path breaks ties, so that the page is deterministic.
    largest.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.path.cmp(&b.path)));
    html! {
        @if !items.is_empty() {
            details {
                summary { (format_size(bytes)) " " (words) ", " (count_words(items.len(), "file")) }
                ul { @for item in largest.iter().take(SHOWN) {
                    li { code { (item.path) } " " (format_size(item.bytes)) ": " (item.because) }
                } }
                @if items.len() > SHOWN {
                    p { "and " (count_words(items.len() - SHOWN, "smaller file")) "; the JSON report names them all" }
                }
            }
        }
    }
}

fn finding(finding: &Finding, facts: &ImageFacts, rules: &BTreeMap<String, Rule>) -> Markup {
    // A suppressed finding gets no warning colour.
    let class = match &finding.suppressed {
        Some(_) => ReportTone::Remark.class(),
        None => ReportTone::of_severity(finding.severity).class(),
    };
    let (said, searched) = split_evidence(finding);
    html! {
        article.finding.(class) {
            h4 { (finding.message) }
            p.label {
                span.badge.(class) {
                    @if finding.suppressed.is_some() { "suppressed " }
                    (finding.severity.name())
                }
                " " code { (finding.rule) }
            }
            @if let Some(suppressed) = &finding.suppressed { p { b { "Suppressed: " } (suppression_words(suppressed)) } }
            @for location in &finding.locations {
                p { "at " code { (location.path) }
                    @if let Some(layer) = location.layer { br; span.layer { (layer_words(facts, layer)) } }
                }
            }
            @for words in said { p { "says " code { (words) } } }
            p { b { "Fix: " } (finding.fix) }
            @let lines: Vec<String> = fix_lines(finding).collect();
            @if !lines.is_empty() { pre { code { (lines.join("\n")) } } }
            (search(&searched))
            @if let Some(rule) = rules.get(&finding.rule) { (why(rule)) }
        }
    }
}

/// The search, folded because it has a line per directory.
fn search(lines: &[&TraceLine]) -> Markup {
    html! {
        @if !lines.is_empty() {
            details {
                summary { "Where the loader searched, in its order" }
                ol.search { @for line in lines {
                    li {
                        span.part { (line.part) }
                        @if !line.path.is_empty() { code { (line.path) } }
                        span.result { (line.result) }
                    }
                } }
            }
        }
    }
}

fn why(rule: &Rule) -> Markup {
    // A user's rule may contain any reference. Only web pages become links, which excludes `javascript:`.
    let is_page = |reference: &&String| reference.starts_with("https://") || reference.starts_with("http://");
    html! {
        details {
            summary { "Why it matters" }
            p { (rule.why) }
            ul { @for page in rule.references.iter().filter(is_page) {
                // The report may be on an internal server, whose address must not leak.
                li { a href=(page) rel="noreferrer" { (page) } }
            } }
        }
    }
}

/// The copies, their requesters and the layers.
fn inventory(facts: &ImageFacts) -> Markup {
    let copies = [
        "version",
        "path",
        "size",
        "processor",
        "package",
        "layer",
        "who gets it",
    ];
    let programs = ["program", "object", "asks for", "outcome"];
    let layers = facts.layers.iter().enumerate();
    let layers = layers.map(|(number, layer)| vec![layer_words(facts, number), format_size(layer.bytes)]);
    html! {
        (headed_table(
            &format!("Copies of {}", facts.library.file_stem()),
            &copies,
            facts.copies.iter().map(|copy| copy_cells(copy, facts)),
        ))
        (headed_table(
            &format!("Programs that ask for {}", facts.library.name),
            &programs,
            facts.consumers.iter().map(consumer_cells),
        ))
        (headed_table("Layers", &["layer", "size"], layers))
    }
}

/// A table below its heading; nothing without rows.
fn headed_table(heading: &str, columns: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Markup {
    let rows: Vec<TableRow> = rows.map(|cells| TableRow::new(cells, String::new())).collect();
    html! {
        @if !rows.is_empty() {
            h3 { (heading) }
            (table(columns, &rows))
        }
    }
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
