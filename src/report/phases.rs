//! The phases as text: the verdict, the reason, and which files stay or may go.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::text_layout::{BOLD, DIM, TextDetail, TextLayout, joined, styled, wrap_line, wrap_paragraph};
use super::words::ReportTone;
use crate::judge::outcome::AuditedImage;
use crate::judge::plan::{Plan, PlanItem};
use crate::knowledge::KnowledgeTables;
use crate::size::{count_words, format_size};

/// A section per requested phase; without a request, one table of all.
pub(super) fn write_phases(out: &mut String, audit: &AuditedImage, layout: TextLayout) {
    // A user who names a phase wants to know what to change for it; otherwise the verdicts are enough.
    if audit.phases.is_empty() {
        table(out, &audit.plans, layout.width);
        return;
    }
    let asked = |plan: &&Plan| audit.phases.contains(&plan.phase);
    for plan in audit.plans.iter().filter(asked) {
        section(out, plan, audit.facts.tables, layout);
    }
}

fn table(out: &mut String, plans: &[Plan], width: usize) {
    if plans.is_empty() {
        return;
    }
    let name = plans.iter().map(|plan| plan.phase.len()).max().unwrap_or(0);
    let _ = writeln!(out, "{}", styled(BOLD, "phases"));
    for plan in plans {
        let mut words = vec![bytes(plan)];
        words.extend((!plan.because.is_empty()).then(|| plan.because.join(", ")));
        words.retain(|words| !words.is_empty());
        let verdict = verdict(plan);
        // The longest verdict, `unknown`, and two spaces. Padded here, because `format!` would count the style's
        // sequences.
        let room = 9_usize.saturating_sub(plan.verdict.name().len());
        let line = format!(
            "  {:name$}  {verdict}{:room$}{}",
            plan.phase,
            "",
            styled(DIM, words.join("; "))
        );
        out.push_str(&wrap_line(&line, width));
    }
    out.push('\n');
}

fn section(out: &mut String, plan: &Plan, tables: &KnowledgeTables, layout: TextLayout) {
    let name = styled(BOLD, format!("phase {}:", plan.phase));
    let _ = writeln!(out, "{name} {}", verdict(plan));
    out.push_str(&wrap_paragraph("  ", &styled(DIM, &plan.summary), layout.width));
    if !plan.because.is_empty() {
        let because = plan.because.join(", ");
        out.push_str(&wrap_paragraph("  because of ", &because, layout.width));
    }
    let bytes = bytes(plan);
    if !bytes.is_empty() {
        let _ = writeln!(out, "  {bytes}");
    }
    for (word, items) in [("stays", &plan.keep), ("may go", &plan.drop)] {
        if layout.detail == TextDetail::All {
            for item in items {
                one(out, word, item);
            }
        } else {
            kinds(out, tables, word, items);
        }
    }
    out.push('\n');
}

/// The files grouped by kind, largest kind first.
fn kinds(out: &mut String, tables: &KnowledgeTables, word: &str, items: &[PlanItem]) {
    let mut kinds: BTreeMap<&str, Vec<&PlanItem>> = BTreeMap::new();
    for item in items {
        kinds.entry(item.kind).or_default().push(item);
    }
    let weight = |items: &[&PlanItem]| items.iter().map(|item| item.bytes).sum::<u64>();
    let mut kinds: Vec<(&str, Vec<&PlanItem>)> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, items)| std::cmp::Reverse(weight(items)));
    for (kind, items) in kinds {
        // The largest file represents its kind: a toolkit has thousands, and -v shows them.
        let what = tables.dead_weight.find_kind(kind).map_or(kind, |kind| &kind.what);
        let (size, files) = (format_size(weight(&items)), count_words(items.len(), "file"));
        let _ = writeln!(out, "  {word:6}  {size:>8}  {what}, {files}");
        if let Some(heaviest) = items.iter().max_by_key(|item| item.bytes) {
            let more = if items.len() > 1 { "such as " } else { "" };
            let detail = format!("{more}{}: {}", heaviest.path, heaviest.because);
            below(out, &detail);
        }
    }
}

fn one(out: &mut String, word: &str, item: &PlanItem) {
    let size = format_size(item.bytes);
    let _ = writeln!(out, "  {word:6}  {size:>8}  {}", item.path);
    for link in &item.links {
        below(out, &format!("and the link {link}"));
    }
    below(out, &item.because);
}

/// A line below a file's path.
fn below(out: &mut String, words: &str) {
    // Aligned with the path: two spaces, 6 for the word, 8 for the size, and two between each.
    let _ = writeln!(out, "                    {}", styled(DIM, words));
}

fn verdict(plan: &Plan) -> String {
    let tone = ReportTone::of_phase(plan.verdict);
    styled(tone.style(), plan.verdict.name())
}

fn bytes(plan: &Plan) -> String {
    let keep = ("keeps", plan.keep_bytes());
    let drop = ("could drop", plan.drop_bytes());
    let words = [keep, drop].into_iter().filter(|(_, bytes)| *bytes > 0);
    let words = words.map(|(word, bytes)| format!("{word} {}", format_size(bytes)));
    joined(words, ", ")
}
