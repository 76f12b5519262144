//! Explains errors as text; rules and errors as JSON, `cupti-audit/explain/v1`, which only gains fields.

use serde_json::{Value, json};

use super::rules::{of_phase, raise_words, unasked};
use super::text_layout::{BOLD, joined, styled, wrap_line, wrap_paragraph};
use crate::judge::log_errors::FoundError;
use crate::judge::rule::{Rule, RuleCure};
use crate::knowledge::Phase;
use crate::knowledge::known_errors::{ErrorMatter, KnownError};
use image_linkage::escape::escape_bytes;

const SCHEMA: &str = "cupti-audit/explain/v1";

/// The errors, separated by empty lines. What follows from others is only listed.
pub(crate) fn errors_text(found: &[FoundError<'_>], rules: &[Rule], width: usize) -> String {
    let causes = found.iter().filter(|one| !one.error.follows).count();
    let (told, listed) = found.split_at(if causes == 0 { found.len() } else { causes });
    let mut text = joined(told.iter().map(|one| error_text(one, rules, width)), "\n");
    if !listed.is_empty() {
        text += "\nprobably follows from it\n";
    }
    text + &listed.iter().map(|one| line_words(one, width)).collect::<String>()
}

/// The lines of an error in a log.
fn line_words(found: &FoundError<'_>, width: usize) -> String {
    let Some(lines) = &found.lines else {
        return String::new();
    };
    let count = match lines.count {
        1 => String::new(),
        count => format!("{count} lines, first "),
    };
    let line = format!("{count}line {}: {}", lines.first, escape_bytes(&lines.text));
    wrap_line(&line, width)
}

fn error_text(found: &FoundError<'_>, rules: &[Rule], width: usize) -> String {
    let error = found.error;
    let number = error.number.map(|number| format!(" ({number})")).unwrap_or_default();
    let mut out = format!("{}{number}\n", styled(BOLD, plain(&error.error)));
    out.push_str(&line_words(found, width));
    out.push('\n');
    let matter = error.matter_of.iter().map(|matter| match matter {
        ErrorMatter::Image => "the image",
        ErrorMatter::Host => "the host",
        ErrorMatter::Program => "the profiler itself",
    });
    for (label, text) in [
        ("means     ", error.means.as_str()),
        ("matter of ", &joined(matter, ", or of ")),
        ("shown by  ", error.shown_by.as_deref().unwrap_or_default()),
        ("fix       ", &fix_words(error, rules)),
    ] {
        if !text.is_empty() {
            out.push_str(&wrap_paragraph(label, &plain(text), width));
        }
    }
    for id in &error.rules {
        let rule = rules.iter().find(|rule| rule.id == *id);
        let summary = rule.map(|rule| format!(": {}", rule.summary)).unwrap_or_default();
        out.push_str(&wrap_paragraph("rule      ", &plain(&format!("{id}{summary}")), width));
    }
    let source = format!("{} ({})", error.source, error.certainty.name());
    out + &wrap_paragraph("source    ", &plain(&source), width)
}

/// Text from a file, possibly the user's, on one line.
fn plain(words: &str) -> String {
    escape_bytes(words.trim_end().as_bytes())
}

/// The fix: the error's own, or a reference to its rules, whose fix needs an audit of the image.
fn fix_words(error: &KnownError, rules: &[Rule]) -> String {
    let of_rule = || {
        error
            .rules
            .iter()
            .find_map(|id| rules.iter().find(|rule| rule.id == *id))
    };
    match (&error.fix, error.matter_of.first(), &error.shown_by) {
        (Some(fix), ..) => fix.clone(),
        (None, Some(ErrorMatter::Image), Some(command)) => {
            format!("it depends on the image: {command} prints it")
        }
        _ => of_rule().map(|rule| rule.fix.with_field_names()).unwrap_or_default(),
    }
}

/// A rule as JSON.
pub(crate) fn rule_json(rule: &Rule, phases: &[Phase]) -> Value {
    let severities = phases
        .iter()
        .map(|phase| (phase.name.clone(), json!(of_phase(rule, phase))));
    let rule = json!({
        "id": rule.id,
        "summary": rule.summary,
        "severity": unasked(rule),
        "phases": severities.collect::<serde_json::Map<_, _>>(),
        "raised": raise_words(rule, phases),
        "why": rule.why,
        "fix": rule.fix.with_field_names(),
        "cure": rule.cured_by.map(RuleCure::words),
        "references": rule.references,
    });
    json!({"schema": SCHEMA, "rule": rule, "errors": []})
}

/// Errors as JSON.
pub(crate) fn errors_json(found: &[FoundError<'_>], rules: &[Rule]) -> Value {
    let errors = found.iter().map(|FoundError { error, lines }| {
        json!({
            "error": error.error,
            "number": error.number,
            "follows": error.follows,
            "means": error.means,
            "matter_of": error.matter_of.iter().map(|matter| matter.name()).collect::<Value>(),
            "shown_by": error.shown_by,
            "fix": fix_words(error, rules),
            "rules": error.rules,
            "certainty": error.certainty.name(),
            "source": error.source,
            "lines": lines.as_ref().map(|lines| json!({
                "count": lines.count,
                "first": lines.first,
                "text": escape_bytes(&lines.text),
            })),
        })
    });
    json!({"schema": SCHEMA, "rule": null, "errors": errors.collect::<Value>()})
}
