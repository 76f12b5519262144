//! The section of one image: verdict, phases, findings, pictures, copies, gaps.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::super::links::asked_words;
use super::super::text_layout::count_words;
use super::super::words::{
    ReportTone, command_text, consumer_outcome, copy_reach, fix_lines, layer_words, layers_words, owner_words,
    request_verb, split_evidence, suppression_words, version_words,
};
use super::{copy_picture, layer_picture};
use crate::facts::{CuptiCopy, ImageFacts};
use crate::judge::outcome::AuditedImage;
use crate::judge::plan::{Plan, PlanItem};
use crate::judge::rule::{Finding, Rule};
use crate::report::command;
use crate::size::format_size;
use image_linkage::escape;
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
                (inventory(audit, number))
            }
        }
    }
}

/// The pictures, the copies and their requesters.
fn inventory(audit: &AuditedImage, number: usize) -> Markup {
    let facts = &audit.facts;
    html! {
        div.pictures {
            figure {
                figcaption { h3 { "Who gets " (facts.library.name) } }
                (copy_picture::draw_copies(facts, number))
            }
            figure {
                figcaption { h3 { "Layers" } }
                (layer_picture::draw_layers(audit, number))
            }
        }
        (copies(facts))
        (consumers(facts))
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

fn copies(facts: &ImageFacts) -> Markup {
    html! {
        @if !facts.copies.is_empty() {
            h3 { "Copies of " (facts.library.file_stem()) }
            div.rows { @for copy in &facts.copies { (self::copy(copy, facts)) } }
        }
    }
}

fn copy(copy: &CuptiCopy, facts: &ImageFacts) -> Markup {
    html! {
        div.row {
            p { b { (version_words(copy)) } " " code { (copy.real_path) } }
            p.about {
                (format_size(copy.bytes)) ", "
                @if let Some(machine) = &copy.machine { (machine) ", " }
                (owner_words(copy)) ", " (layer_words(facts, copy.layer))
            }
            p.about {
                (copy_reach(copy, facts).plain())
                @for problem in &copy.problems { "; " (problem) }
                @if let Some(denial) = &copy.denial { "; permission denied: " (denial) }
            }
        }
    }
}

fn consumers(facts: &ImageFacts) -> Markup {
    html! {
        @if !facts.consumers.is_empty() {
            h3 { "Programs that ask for " (facts.library.name) }
            div.rows { @for consumer in &facts.consumers {
                div.row {
                    p { b { (consumer.name) } " " code { (consumer.object) } }
                    p.about { (request_verb(consumer)) " " code { (escape::escape_bytes(&consumer.wants)) } ", " (consumer_outcome(consumer).plain()) }
                }
            } }
        }
    }
}
