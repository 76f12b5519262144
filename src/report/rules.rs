//! Lists and explains the rules.

use std::fmt::Write as _;

use super::markdown_text::markdown_table;
use super::text_layout::{BOLD, capital, joined, styled, wrap_paragraph};
use crate::judge::rule::{Rule, RuleCure, Severity};
use crate::knowledge::Phase;
use image_linkage::escape;

/// The rules, each with its severity without a phase and its summary.
pub(crate) fn list_rules(rules: &[Rule]) -> String {
    // Lines are not wrapped, so that the list works with grep.
    let width = rules.iter().map(|rule| rule.id.len()).max().unwrap_or(0);
    let mut out = String::new();
    for rule in rules {
        let _ = writeln!(
            out,
            "{:width$}  {:7}  {}",
            rule.id,
            unasked(rule),
            in_line(&rule.summary)
        );
    }
    out
}

/// Explains a rule: what it finds, its severity in each of `phases`, why, and what to do.
pub(crate) fn explain_rule(rule: &Rule, phases: &[Phase], width: usize) -> String {
    let mut out = format!("{}: {}\n\n", styled(BOLD, &rule.id), in_line(&rule.summary));
    let phases = phases.iter();
    let phases = phases.map(|phase| format!("{} for {}", of_phase(rule, phase), phase.name));
    let severity = format!("{}; {}", unasked(rule), joined(phases, ", "));
    for (label, text) in [
        ("severity  ", severity),
        ("why       ", rule.why.clone()),
        ("fix       ", rule.fix.with_field_names()),
    ] {
        out.push_str(&wrap_paragraph(label, &text, width));
    }
    if let Some(cure) = rule.cured_by {
        out.push_str(&wrap_paragraph("cure      ", cure.words(), width));
    }
    for reference in &rule.references {
        let _ = writeln!(out, "see       {reference}");
    }
    out
}

/// A summary on one line; the user's rules may contain line breaks.
fn in_line(summary: &str) -> String {
    escape::escape_bytes(summary.trim_end().as_bytes())
}

/// The severity without a requested phase.
pub(super) fn unasked(rule: &Rule) -> &'static str {
    if rule.off.unasked { "off" } else { rule.severity.name() }
}

pub(super) fn of_phase(rule: &Rule, phase: &Phase) -> &'static str {
    phase_severity(rule, phase).map_or("off", Severity::name)
}

fn phase_severity(rule: &Rule, phase: &Phase) -> Option<Severity> {
    let column = rule.severity_phase(phase);
    // `phases` does not list a phase for which the rule is off.
    let is_on = !rule.off.phases.contains(column);
    is_on.then(|| rule.phases.get(column).copied().unwrap_or(rule.severity))
}

/// A cell of the table: the usual severity, and the highest one if conditions can raise it.
fn severity_cell(usual: Option<Severity>, raises: impl Iterator<Item = Severity>) -> String {
    let Some(usual) = usual else { return "off".to_owned() };
    match raises.max() {
        Some(highest) if highest > usual => format!("{} to {}", usual.name(), highest.name()),
        _ => usual.name().to_owned(),
    }
}

fn unasked_cell(rule: &Rule) -> String {
    let raises = rule.raised().map(|(_, severity, _)| severity);
    severity_cell((!rule.off.unasked).then_some(rule.severity), raises)
}

fn phase_cell(rule: &Rule, phase: &Phase) -> String {
    let usual = phase_severity(rule, phase);
    let column = rule.severity_phase(phase);
    let raises = rule
        .raised()
        .filter(|(_, _, phases)| phases.is_empty() || phases.iter().any(|name| name == column))
        .map(|(_, severity, _)| severity);
    // `plan::add_unmet_needs` raises the finding that explains why the phase fails.
    let is_cause = rule.cured_by == Some(RuleCure::InstallCupti)
        && !phase.apis.needs.is_empty()
        && usual.is_some_and(|usual| usual >= Severity::Warning);
    severity_cell(usual, raises.chain(is_cause.then_some(Severity::Error)))
}

/// The start of the rules page.
const HEAD: &str = "\
<!-- Generated from rules/*.yaml by `cargo xtask docs`; `cargo xtask docs --check` compares. Edit the rules. -->
# Rules

Each rule finds one problem. `cupti-audit rules` lists them, `cupti-audit explain ID` explains one.

The table shows the severity for each phase. *unasked* is the severity of a run without `--phase`. With several phases,
the highest severity counts. *off* means that the rule does not report anything.

A range such as *warning to error* shows the usual and the highest severity. The highest one applies if a condition
that is listed at the rule is met. A finding is also an error if it is the reason why the phase fails.

";

/// The rules as a documentation page in Markdown.
pub fn rules_page(rules: &[Rule], phases: &[Phase]) -> String {
    let names = phases.iter().map(|phase| phase.name.as_str());
    let columns: Vec<&str> = ["rule", "unasked"].into_iter().chain(names).collect();
    let rows = rules.iter().map(|rule| {
        let of = phases.iter().map(|phase| phase_cell(rule, phase));
        let fixed = [format!("[{0}](#{0})", rule.id), unasked_cell(rule)];
        fixed.into_iter().chain(of)
    });
    let mut out = HEAD.to_owned() + &markdown_table(&columns, rows);
    for rule in rules {
        section(&mut out, rule);
    }
    out
}

fn section(out: &mut String, rule: &Rule) {
    let _ = writeln!(out, "\n## {}\n\n{}.\n", rule.id, capital(&rule.summary));
    for (conditions, severity, phases) in rule.raised() {
        let for_phases = if phases.is_empty() {
            String::new()
        } else {
            format!(" for {}", phases.join(" and "))
        };
        let _ = writeln!(out, "- {}{for_phases} if {conditions}", severity.name());
    }
    if rule.raised().next().is_some() {
        out.push('\n');
    }
    let message = in_code(&rule.message_with_fields());
    let _ = writeln!(out, "**Says:** {message}\n");
    let _ = writeln!(out, "**Why:** {}\n", in_code(&rule.why));
    let _ = writeln!(out, "**Fix:** {}\n", in_code(&rule.fix.with_field_names()));
    if let Some(cure) = rule.cured_by {
        let _ = writeln!(out, "**Cure:** {}.\n", cure.words());
    }
    for reference in &rule.references {
        let _ = writeln!(out, "- <{reference}>");
    }
}

/// Marks text in angle brackets as code, so that Markdown readers do not treat it as a tag.
fn in_code(text: &str) -> String {
    // An unmatched bracket is a comparison, as in `cuda>=12`.
    let mut pieces = text.split('<');
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |out, piece| match piece.split_once('>') {
        Some((field, rest)) => format!("{out}`<{field}>`{rest}"),
        None => format!("{out}<{piece}"),
    })
}
