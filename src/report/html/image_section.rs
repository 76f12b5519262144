//! The section of one image: verdict, phases, findings, pictures, copies, gaps.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::super::text::layer_words;
use super::super::text_layout::count_words;
use super::super::{consumer_outcome_words, suppression_words};
use super::{ImageEntry, copy_picture, layer_picture};
use crate::judge::facts::{CuptiConsumer, CuptiCopy, ImageFacts, RequestKind};
use crate::judge::outcome::AuditedImage;
use crate::judge::plan::{Plan, PlanItem, Verdict};
use crate::judge::rule::{Evidence, Finding, Rule, Severity};
use crate::size::format_size;
use image_linkage::escape;
use image_linkage::loader::trace_text::TraceLine;

/// The section of the image with this number.
pub(super) fn image_section(
    audit: &AuditedImage,
    rules: &BTreeMap<String, Rule>,
    entry: &ImageEntry,
    number: usize,
) -> Markup {
    let facts = &audit.facts;
    let image = &facts.image;
    let bytes: u64 = facts.layers.iter().map(|layer| layer.bytes).sum();
    html! {
        section id={ "image-" (number) } {
            h2 { (entry.image) }
            p.verdict.(entry.class) { (entry.mark) " " (audit.verdict()) }
            p.about {
                (escape::escape_bytes(image.platform.to_string().as_bytes())) " · "
                (count_words(facts.layers.len(), "layer")) ", " (format_size(bytes))
                @if let Some(digest) = &image.digest { br; code { (digest) } }
            }
            (gaps(facts))
            h3 { "Phases" }
            div.cards { @for plan in &audit.plans { (phase(plan, audit)) } }
            h3 { "Findings" }
            @if audit.findings.is_empty() { p { "None." } }
            @for finding in &audit.findings { (self::finding(finding, facts, rules)) }
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
}

fn gaps(facts: &ImageFacts) -> Markup {
    html! {
        @if !facts.gaps.is_empty() {
            h3 { "Not checked" }
            ul.gaps { @for gap in &facts.gaps { li { (gap.what) ": " (gap.why) } } }
        }
    }
}

fn phase(plan: &Plan, audit: &AuditedImage) -> Markup {
    let (mark, class) = match plan.verdict {
        Verdict::Pass => ("✓", "good"),
        Verdict::Warn => ("!", "doubtful"),
        Verdict::Unknown => ("?", "doubtful"),
        Verdict::Fail => ("✗", "bad"),
    };
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

/// The largest of the files; a toolkit has thousands.
fn items(words: &str, items: &[PlanItem], bytes: u64) -> Markup {
    const SHOWN: usize = 50;
    let mut largest: Vec<&PlanItem> = items.iter().collect();
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
    let class = match finding.severity {
        _ if finding.suppressed.is_some() => "remark",
        Severity::Error => "bad",
        Severity::Warning => "doubtful",
        Severity::Note => "remark",
    };
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
            @for evidence in &finding.evidence {
                @if let Evidence::Words(words) = evidence { p { "says " code { (words) } } }
            }
            p { b { "Fix: " } (finding.fix) }
            (search(finding))
            @if let Some(rule) = rules.get(&finding.rule) { (why(rule)) }
        }
    }
}

fn search(finding: &Finding) -> Markup {
    let lines: Vec<&TraceLine> = finding
        .evidence
        .iter()
        .filter_map(|evidence| match evidence {
            Evidence::Searched(line) => Some(line),
            Evidence::Words(_) => None,
        })
        .collect();
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
    let is_page =
        |reference: &&String| reference.starts_with("https://") || reference.starts_with("http://");
    html! {
        details {
            summary { "Why it matters" }
            p { (rule.why) }
            ul { @for page in rule.references.iter().filter(is_page) {
                li { a href=(page) rel="noreferrer" { (page) } }
            } }
        }
    }
}

fn copies(facts: &ImageFacts) -> Markup {
    html! {
        @if !facts.copies.is_empty() {
            h3 { "Copies of libcupti" }
            div.rows { @for copy in &facts.copies { (self::copy(copy, facts)) } }
        }
    }
}

fn copy(copy: &CuptiCopy, facts: &ImageFacts) -> Markup {
    let version = copy
        .version
        .as_ref()
        .map_or("version unknown", |(version, _)| version);
    let reach = match (copy.loadable.as_is, copy.loadable.nvidia) {
        (true, true) => "loadable by its soname",
        (true, false) => "loadable by its soname until the container runtime runs ldconfig",
        (false, true) => "loadable by its soname once the container runtime has run ldconfig",
        (false, false) if !copy.used_by.is_empty() => "not loadable by its soname alone",
        (false, false) if copy.decoy => "for the tool that brings it",
        (false, false) => "not loadable by its soname",
    };
    let users: Vec<&str> = copy
        .used_by
        .iter()
        .filter_map(|number| Some(facts.consumers.get(*number)?.name.as_str()))
        .collect();
    html! {
        div.row {
            p { b { (version) } " " code { (copy.real_path) } }
            p.about {
                (format_size(copy.bytes)) ", "
                @if let Some(machine) = &copy.machine { (machine) ", " }
                (copy_picture::owner_words(copy)) ", " (layer_words(facts, copy.layer))
            }
            p.about {
                (reach)
                @if !users.is_empty() { "; loaded by " (users.join(", ")) }
                @for problem in &copy.problems { "; " (problem) }
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
                    p.about { (asks_verb(consumer)) " " code { (escape::escape_bytes(&consumer.wants)) } ", gets " (consumer_outcome_words(consumer)) }
                }
            } }
        }
    }
}

/// How a consumer asks, as a verb.
pub(super) fn asks_verb(consumer: &CuptiConsumer) -> &'static str {
    match consumer.asks {
        RequestKind::Needed => "links",
        RequestKind::Dlopen => "opens",
    }
}
