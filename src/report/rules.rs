//! Lists and explains the rules.

use std::fmt::Write as _;

use super::text_layout::{BOLD, joined, styled, wrap_paragraph};
use crate::judge::plan::may_fail_phase;
use crate::judge::rule::{Rule, RuleCure, Severity};
use crate::knowledge::Phase;
use image_linkage::escape;

/// The rules, each with its severity without a phase and its summary, below a line with headings.
pub(crate) fn list_rules(rules: &[Rule]) -> String {
    // Lines are not wrapped, so that the list works with grep.
    let width = rules.iter().map(|rule| rule.id.len()).max().unwrap_or(0);
    let heading = styled(BOLD, format!("{:width$}  {UNASKED}  finds", "rule"));
    let mut out = format!("{heading}\n");
    for rule in rules {
        let _ = writeln!(
            out,
            "{:width$}  {:column$}  {}",
            rule.id,
            unasked(rule),
            in_line(&rule.summary),
            column = UNASKED.len(),
        );
    }
    out
}

/// Explains a rule: what it finds, its severity in each of `phases`, why, and what to do.
pub(crate) fn explain_rule(rule: &Rule, phases: &[Phase], width: usize) -> String {
    let mut out = format!("{}: {}\n\n", styled(BOLD, &rule.id), in_line(&rule.summary));
    out.push_str(&wrap_paragraph("severity  ", &severity_words(rule, phases), width));
    for raise in raise_words(rule, phases) {
        out.push_str(&wrap_paragraph("          ", &raise, width));
    }
    for (label, text) in [("why       ", &rule.why), ("fix       ", &rule.fix.with_field_names())] {
        out.push_str(&wrap_paragraph(label, text, width));
    }
    if let Some(cure) = rule.cured_by {
        out.push_str(&wrap_paragraph("or run    ", &cure_words(cure), width));
    }
    for reference in &rule.references {
        let _ = writeln!(out, "see       {reference}");
    }
    out
}

/// The usual severity without a phase and for each of `phases`.
fn severity_words(rule: &Rule, phases: &[Phase]) -> String {
    let usual = unasked(rule);
    if phases.iter().all(|phase| of_phase(rule, phase) == usual) {
        return format!("{usual}, with and {UNASKED}");
    }
    let of = phases
        .iter()
        .map(|phase| format!("{}: {}", phase.name, of_phase(rule, phase)));
    format!("{UNASKED}: {usual}; {}", joined(of, "; "))
}

/// When the severity is higher than usual, a sentence for each condition.
pub fn raise_words(rule: &Rule, phases: &[Phase]) -> Vec<String> {
    let mut conditions: Vec<&str> = Vec::new();
    for raise in &rule.raise {
        if !conditions.contains(&&*raise.words) {
            conditions.push(&raise.words);
        }
    }
    let of_rule = conditions.iter().map(|words| raise_sentence(rule, phases, words));
    let mut failing: Vec<&str> = Vec::new();
    for phase in phases {
        let usual = phase_severity(rule, phase);
        if usual < Some(Severity::Error) && may_fail_phase(rule, phase, usual) {
            failing.push(&phase.name);
        }
    }
    let of_plan = (!failing.is_empty()).then(|| {
        let phases = failing.join(" and ");
        format!("if the image is not ready for the phase because of this: error for {phases}")
    });
    of_rule.chain(of_plan).collect()
}

/// The raised severities under one condition, such as `if …: error for profiling, warning for training`.
fn raise_sentence(rule: &Rule, phases: &[Phase], condition: &str) -> String {
    let raises = || rule.raise.iter().filter(|raise| raise.words == condition);
    if let Some(raise) = raises().find(|raise| raise.phases.is_empty()) {
        return format!("if {condition}: {}", raise.severity.name());
    }
    let of_phase = |phase: &Phase| {
        let column = rule.severity_phase(phase);
        let own = raises().filter(|raise| raise.phases.iter().any(|name| name == column));
        own.map(|raise| raise.severity).max()
    };
    let of_severity = |severity: Severity| {
        let asked: Vec<&str> = phases
            .iter()
            .filter(|phase| phase_severity(rule, phase).is_some() && of_phase(phase) == Some(severity))
            .map(|phase| phase.name.as_str())
            .collect();
        // Without a phase, every raise applies.
        let highest = raises().map(|raise| raise.severity).max();
        let is_unasked = rule.severity.is_some_and(|usual| usual < severity) && highest == Some(severity);
        let for_asked = (!asked.is_empty()).then(|| format!("for {}", asked.join(" and ")));
        let places: Vec<&str> = for_asked
            .as_deref()
            .into_iter()
            .chain(is_unasked.then_some(UNASKED))
            .collect();
        (!places.is_empty()).then(|| format!("{} {}", severity.name(), places.join(" and ")))
    };
    let parts = [Severity::Error, Severity::Warning, Severity::Note]
        .into_iter()
        .filter_map(of_severity);
    format!("if {condition}: {}", joined(parts, ", "))
}

/// The command that writes a fix, and what it does.
pub fn cure_words(cure: RuleCure) -> String {
    format!("`cupti-audit dockerfile IMAGE --phase PHASE`, which {}", cure.words())
}

/// A summary on one line; the user's rules may contain line breaks.
fn in_line(summary: &str) -> String {
    escape::escape_bytes(summary.trim_end().as_bytes())
}

/// The severity without a requested phase.
pub(super) fn unasked(rule: &Rule) -> &'static str {
    rule.severity.map_or("off", Severity::name)
}

pub(super) fn of_phase(rule: &Rule, phase: &Phase) -> &'static str {
    phase_severity(rule, phase).map_or("off", Severity::name)
}

fn phase_severity(rule: &Rule, phase: &Phase) -> Option<Severity> {
    rule.severity_for(rule.severity_phase(phase))
}

/// A cell of the table: the usual severity, and the highest one if conditions can raise it.
fn severity_cell(usual: Option<Severity>, raises: impl Iterator<Item = Severity>) -> String {
    let Some(usual) = usual else { return "off".to_owned() };
    match raises.max() {
        Some(highest) if highest > usual => format!("{} to {}", usual.name(), highest.name()),
        _ => usual.name().to_owned(),
    }
}

/// The cell of a rule without a phase: the usual severity, and the highest one if conditions can raise it.
pub fn unasked_cell(rule: &Rule) -> String {
    severity_cell(rule.severity, rule.raise.iter().map(|raise| raise.severity))
}

/// The cell of a rule for a phase.
pub fn phase_cell(rule: &Rule, phase: &Phase) -> String {
    let usual = phase_severity(rule, phase);
    let column = rule.severity_phase(phase);
    let raises = rule
        .raise
        .iter()
        .filter(|raise| raise.phases.is_empty() || raise.phases.iter().any(|name| name == column))
        .map(|raise| raise.severity);
    let is_cause = may_fail_phase(rule, phase, usual);
    severity_cell(usual, raises.chain(is_cause.then_some(Severity::Error)))
}

/// The heading of severities without a phase.
pub const UNASKED: &str = "without --phase";
