//! The numbers of a fleet in Prometheus text format (exposition format 0.0.4), for its textfile collector.

use std::fmt::Write as _;

use crate::fleet::FleetSummary;
use crate::report::text_layout::joined;

/// Label names and values.
type Labels<'a> = Vec<(&'static str, &'a str)>;

/// All numbers, as gauges.
pub(crate) fn prometheus_text(summary: &FleetSummary) -> String {
    let counts = summary.outcomes;
    let outcomes = [
        ("clean", counts.clean),
        ("findings", counts.findings),
        ("open", counts.open),
        ("failed", counts.failed),
        ("missing", counts.missing),
    ];
    let mut out = String::new();
    let images = outcomes.map(|(outcome, count)| (vec![("outcome", outcome)], number(count)));
    gauge(&mut out, "images", "Images by what their audit came to.", images);
    let phases = summary.phases.iter().flat_map(|(phase, verdicts)| {
        let labels = |verdict| vec![("phase", phase.as_str()), ("verdict", verdict)];
        verdicts
            .iter()
            .map(move |(verdict, count)| (labels(verdict.as_str()), number(*count)))
    });
    gauge(&mut out, "phase_images", "Images by phase and verdict.", phases);
    let tools = summary.tools.iter().flat_map(|(tool, states)| {
        let labels = |state| vec![("tool", tool.as_str()), ("state", state)];
        states
            .iter()
            .map(move |(state, count)| (labels(state.as_str()), number(*count)))
    });
    gauge(&mut out, "tool_images", "Images by tool and state.", tools);
    let rules = summary.rules.iter().map(|(id, rule)| {
        let labels = vec![("rule", id.as_str()), ("severity", rule.severity.as_str())];
        (labels, number(rule.images))
    });
    gauge(
        &mut out,
        "rule_images",
        "Images in which a rule finds something.",
        rules,
    );
    let bases = summary.bases.iter().map(|((base, rule), images)| {
        let labels = vec![("base", base.as_str()), ("rule", rule.as_str())];
        (labels, number(*images))
    });
    gauge(
        &mut out,
        "base_images",
        "Images that have a finding from their base.",
        bases,
    );
    // Only repositories with dead weight: a registry has thousands, and each is a time series.
    let heavy = summary.repositories.iter().filter(|(_, one)| one.dead_bytes > 0);
    let repositories = heavy.map(|(name, one)| (vec![("repository", name.as_str())], one.dead_bytes));
    gauge(
        &mut out,
        "dead_bytes",
        "Bytes that no phase needs, by repository.",
        repositories,
    );
    out
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

fn gauge<'a>(out: &mut String, name: &str, help: &str, values: impl IntoIterator<Item = (Labels<'a>, u64)>) {
    let _ = write!(
        out,
        "# HELP cupti_audit_fleet_{name} {help}\n# TYPE cupti_audit_fleet_{name} gauge\n"
    );
    for (labels, value) in values {
        let labels = labels.iter();
        let labels = labels.map(|(label, value)| format!("{label}=\"{}\"", escaped(value)));
        let _ = writeln!(out, "cupti_audit_fleet_{name}{{{}}} {value}", joined(labels, ","));
    }
}

/// Escapes a label value: backslash, quote and line feed.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
