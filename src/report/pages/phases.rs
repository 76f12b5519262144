//! The phases of an image for a terminal: the verdict, the reason, and which files stay or may go.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::judge::outcome::AuditedImage;
use crate::judge::plan::{Plan, PlanItem};
use crate::knowledge::KnowledgeTables;
use crate::report::page::{Block, Line};
use crate::report::text_layout::{DIM, TextDetail};
use crate::report::words::ReportTone;
use crate::size::{count_words, format_size};

/// A section per requested phase; without a request, one table of all.
pub(super) fn phase_sections(audit: &AuditedImage, detail: TextDetail) -> Vec<Block> {
    let mut sections = Vec::new();
    // A user who names a phase wants to know what to change for it; otherwise the verdicts are enough.
    for plan in audit.plans.iter().filter(|plan| audit.phases.contains(&plan.phase)) {
        sections.push(phase_section(plan, audit.facts.tables, detail));
    }
    if audit.phases.is_empty() && !audit.plans.is_empty() {
        let name = audit.plans.iter().map(|plan| plan.phase.len()).max().unwrap_or(0);
        let lines = audit
            .plans
            .iter()
            .map(|plan| Block::entry(phase_line(plan, name), Vec::new()));
        sections.push(Block::section("phases", lines.collect()));
    }
    sections
}

fn phase_line(plan: &Plan, name_width: usize) -> Line {
    let mut words = vec![bytes(plan), plan.because.join(", ")];
    words.retain(|words| !words.is_empty());
    // The longest verdict, `unknown`, and two spaces.
    let space = " ".repeat(9_usize.saturating_sub(plan.verdict.name().len()));
    Line::from(format!("{:name_width$}  ", plan.phase))
        .with(ReportTone::of_phase(plan.verdict).style(), plan.verdict.name())
        .and(space)
        .with(DIM, words.join("; "))
}

fn phase_section(plan: &Plan, tables: &KnowledgeTables, detail: TextDetail) -> Block {
    let mut blocks = vec![Block::text(Line::dim(&*plan.summary))];
    if !plan.because.is_empty() {
        blocks.push(Block::Fact("because of ".to_owned(), plan.because.join(", ").into()));
    }
    let bytes = bytes(plan);
    if !bytes.is_empty() {
        blocks.push(Block::text(bytes));
    }
    for (word, items) in [("stays", &plan.keep), ("may go", &plan.drop)] {
        if detail == TextDetail::All {
            blocks.extend(items.iter().flat_map(|item| file_facts(word, item)));
        } else {
            blocks.extend(kind_facts(word, items, tables));
        }
    }
    let title = Line::bold(format!("phase {}:", plan.phase))
        .and(" ")
        .with(ReportTone::of_phase(plan.verdict).style(), plan.verdict.name());
    Block::Section(title, blocks)
}

/// The files grouped by kind, largest kind first.
fn kind_facts(word: &str, items: &[PlanItem], tables: &KnowledgeTables) -> Vec<Block> {
    let mut by_kind: BTreeMap<&str, (u64, Vec<&PlanItem>)> = BTreeMap::new();
    for item in items {
        let (bytes, items) = by_kind.entry(item.kind).or_default();
        *bytes += item.bytes;
        items.push(item);
    }
    let mut kinds: Vec<_> = by_kind.into_iter().collect();
    kinds.sort_by_key(|(_, (bytes, _))| Reverse(*bytes));
    let mut facts = Vec::new();
    for (kind, (bytes, items)) in kinds {
        // The largest file represents its kind: a toolkit has thousands, and -v shows them.
        let what = tables.dead_weight.find_kind(kind).map_or(kind, |kind| &kind.what);
        facts.push(sized(
            word,
            bytes,
            format!("{what}, {}", count_words(items.len(), "file")),
        ));
        if let Some(heaviest) = items.iter().max_by_key(|item| item.bytes) {
            let more = if items.len() > 1 { "such as " } else { "" };
            facts.push(below(&format!("{more}{}: {}", heaviest.path, heaviest.because)));
        }
    }
    facts
}

fn file_facts(word: &str, item: &PlanItem) -> Vec<Block> {
    let mut facts = vec![sized(word, item.bytes, item.path.to_string())];
    facts.extend(item.links.iter().map(|link| below(&format!("and the link {link}"))));
    facts.push(below(&item.because));
    facts
}

fn sized(word: &str, bytes: u64, what: String) -> Block {
    Block::Fact(format!("{word:6}  {:>8}  ", format_size(bytes)), what.into())
}

/// A line below a file's path: 6 columns for the word, 8 for the size, and two after each.
fn below(words: &str) -> Block {
    Block::Fact(" ".repeat(18), Line::dim(words))
}

fn bytes(plan: &Plan) -> String {
    let mut words = Vec::new();
    for (word, bytes) in [("keeps", plan.keep_bytes()), ("could drop", plan.drop_bytes())] {
        if bytes > 0 {
            words.push(format!("{word} {}", format_size(bytes)));
        }
    }
    words.join(", ")
}
