//! What each phase may expect of the image, for people: the verdict, why, and what stays or may go.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anstyle::Style;

use super::text::TextLayout;
use super::text_layout::{BAD, BOLD, DIM, DOUBTFUL, GOOD, count_words, styled};
use crate::judge::outcome::AuditedImage;
use crate::judge::plan::{Plan, PlanItem, Verdict};
use crate::knowledge::KnowledgeTables;
use crate::size::format_size;

/// The phases that were asked for, each with its own section; where none was, one table of all.
pub(super) fn write_phases(out: &mut String, audit: &AuditedImage, layout: TextLayout) {
    if audit.phases.is_empty() {
        table(out, &audit.plans);
        return;
    }
    let asked = |plan: &&Plan| audit.phases.contains(&plan.phase);
    for plan in audit.plans.iter().filter(asked) {
        section(out, plan, audit.facts.tables, layout);
    }
}

fn table(out: &mut String, plans: &[Plan]) {
    if plans.is_empty() {
        return;
    }
    let width = |text: fn(&Plan) -> &str| plans.iter().map(|plan| text(plan).len()).max();
    let name = width(|plan| &plan.phase).unwrap_or(0);
    let _ = writeln!(out, "{}", styled(BOLD, "phases"));
    for plan in plans {
        let mut words = vec![bytes(plan)];
        words.extend((!plan.because.is_empty()).then(|| plan.because.join(", ")));
        words.retain(|words| !words.is_empty());
        let verdict = styled(style(plan.verdict), plan.verdict.name());
        let _ = write!(out, "  {:name$}  {verdict}", plan.phase);
        if !words.is_empty() {
            let room = 9_usize.saturating_sub(plan.verdict.name().len());
            let _ = write!(out, "{:room$}{}", "", styled(DIM, words.join("; ")));
        }
        out.push('\n');
    }
    out.push('\n');
}

fn section(out: &mut String, plan: &Plan, tables: &KnowledgeTables, layout: TextLayout) {
    let verdict = styled(style(plan.verdict), plan.verdict.name());
    let _ = writeln!(
        out,
        "{} {verdict}",
        styled(BOLD, format!("phase {}:", plan.phase))
    );
    let _ = writeln!(out, "  {}", styled(DIM, &plan.summary));
    if !plan.because.is_empty() {
        let _ = writeln!(out, "  because of {}", plan.because.join(", "));
    }
    let bytes = bytes(plan);
    if !bytes.is_empty() {
        let _ = writeln!(out, "  {bytes}");
    }
    for (word, items) in [("stays", &plan.keep), ("may go", &plan.drop)] {
        if layout.verbose {
            for item in items {
                one(out, word, item);
            }
        } else {
            kinds(out, tables, word, items);
        }
    }
    out.push('\n');
}

/// The files of each kind together, the heaviest kind first.
fn kinds(out: &mut String, tables: &KnowledgeTables, word: &str, items: &[PlanItem]) {
    let mut kinds: BTreeMap<&str, Vec<&PlanItem>> = BTreeMap::new();
    for item in items {
        kinds.entry(item.kind).or_default().push(item);
    }
    let weight = |items: &[&PlanItem]| items.iter().map(|item| item.bytes).sum::<u64>();
    let mut kinds: Vec<(&str, Vec<&PlanItem>)> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, items)| std::cmp::Reverse(weight(items)));
    for (kind, items) in kinds {
        let what = tables
            .dead_weight
            .find_kind(kind)
            .map_or(kind, |kind| &kind.what);
        let _ = writeln!(
            out,
            "  {word:6}  {:>8}  {what}, {}",
            format_size(weight(&items)),
            count_words(items.len(), "file")
        );
        if let Some(heaviest) = items.iter().max_by_key(|item| item.bytes) {
            let more = if items.len() > 1 { "such as " } else { "" };
            let detail = format!("{more}{}: {}", heaviest.path, heaviest.because);
            let _ = writeln!(out, "                    {}", styled(DIM, detail));
        }
    }
}

fn one(out: &mut String, word: &str, item: &PlanItem) {
    let _ = writeln!(
        out,
        "  {word:6}  {:>8}  {}",
        format_size(item.bytes),
        item.path
    );
    for link in &item.links {
        let _ = writeln!(
            out,
            "                    {}",
            styled(DIM, format!("and the link {link}"))
        );
    }
    let _ = writeln!(out, "                    {}", styled(DIM, &item.because));
}

fn bytes(plan: &Plan) -> String {
    match (plan.keep_bytes(), plan.drop_bytes()) {
        (0, 0) => String::new(),
        (keep, 0) => format!("keeps {}", format_size(keep)),
        (0, drop) => format!("could drop {}", format_size(drop)),
        (keep, drop) => format!(
            "keeps {}, could drop {}",
            format_size(keep),
            format_size(drop)
        ),
    }
}

fn style(verdict: Verdict) -> Style {
    match verdict {
        Verdict::Pass => GOOD,
        Verdict::Warn | Verdict::Unknown => DOUBTFUL,
        Verdict::Fail => BAD,
    }
}
