//! The rules themselves, listed and explained.

use std::fmt::Write as _;

use super::style::{BOLD, paragraph, styled};
use crate::rule::Rule;

/// The rules, one a line.
pub fn list(rules: &[Rule]) -> String {
    let width = rules.iter().map(|rule| rule.id.len()).max().unwrap_or(0);
    let mut out = String::new();
    for rule in rules {
        let _ = writeln!(
            out,
            "{:width$}  {:7}  {}",
            rule.id,
            rule.severity.name(),
            rule.summary
        );
    }
    out
}

/// What a rule finds, why it matters and what to do.
pub fn explain(rule: &Rule, width: usize) -> String {
    let mut out = format!("{}: {}\n\n", styled(BOLD, &rule.id), rule.summary);
    let phases: Vec<String> = rule
        .phases
        .iter()
        .map(|(phase, severity)| format!("{} for {phase}", severity.name()))
        .collect();
    let severity = format!("{}; {}", rule.severity.name(), phases.join(", "));
    for (label, text) in [
        ("severity  ", severity),
        ("why       ", rule.why.clone()),
        ("fix       ", rule.fix.plain()),
    ] {
        out.push_str(&paragraph(label, &text, width));
    }
    for reference in &rule.references {
        let _ = writeln!(out, "see       {reference}");
    }
    out
}
