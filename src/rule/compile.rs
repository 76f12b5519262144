//! Reads a rule's file and checks it whole: every mistake is reported, not only the first.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::template::Template;
use super::{Condition, Kind, Raise, Rule, Severity, Value};

/// The phases that a rule may name.
pub const PHASES: [&str; 3] = ["inference", "training", "profiling"];

/// A rule's file as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    summary: String,
    subject: Kind,
    #[serde(rename = "where")]
    conditions: BTreeMap<String, Value>,
    severity: Severity,
    #[serde(default)]
    phases: BTreeMap<String, Severity>,
    #[serde(default)]
    raise: Vec<RaiseSource>,
    message: String,
    why: String,
    fix: String,
    #[serde(default)]
    references: Vec<String>,
}

/// A severity for the subjects that meet more conditions.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RaiseSource {
    #[serde(rename = "where")]
    conditions: BTreeMap<String, Value>,
    severity: Severity,
    #[serde(default)]
    phases: Vec<String>,
}

/// The mistakes in a rule's file.
#[derive(Debug, thiserror::Error)]
#[error("rule {id}: {}", mistakes.join("; "))]
pub struct RuleError {
    /// The rule.
    pub id: String,
    /// What is wrong, one sentence each.
    pub mistakes: Vec<String>,
}

/// Reads the rule `id` from the text of its file.
///
/// # Errors
/// All mistakes in the file: a key that no rule has, a field that the subject has not, a phase nobody knows.
pub fn compile(id: &str, text: &str) -> Result<Rule, RuleError> {
    let source: Source = serde_saphyr::from_str(text).map_err(|error| RuleError {
        id: id.to_owned(),
        mistakes: vec![error.to_string()],
    })?;
    let rule = Rule {
        id: id.to_owned(),
        summary: source.summary,
        why: source.why,
        fix: Template::new(&source.fix),
        references: source.references,
        severity: source.severity,
        phases: source.phases,
        kind: source.subject,
        conditions: conditions(source.conditions),
        raise: source.raise.into_iter().map(raise).collect(),
        message: Template::new(&source.message),
    };
    match mistakes(&rule) {
        mistakes if mistakes.is_empty() => Ok(rule),
        mistakes => Err(RuleError {
            id: id.to_owned(),
            mistakes,
        }),
    }
}

fn conditions(source: BTreeMap<String, Value>) -> Vec<Condition> {
    source
        .into_iter()
        .map(|(field, value)| Condition { field, value })
        .collect()
}

fn raise(source: RaiseSource) -> Raise {
    Raise {
        conditions: conditions(source.conditions),
        severity: source.severity,
        phases: source.phases,
    }
}

fn mistakes(rule: &Rule) -> Vec<String> {
    let known = rule.kind.fields();
    let conditions = rule
        .conditions
        .iter()
        .chain(rule.raise.iter().flat_map(|raise| &raise.conditions));
    let asked = conditions.map(|condition| condition.field.as_str());
    let named = rule.message.fields().chain(rule.fix.fields());
    let mut mistakes: Vec<String> = asked
        .chain(named)
        .filter(|field| !known.contains(field))
        .map(|field| {
            format!(
                "{:?} has no field {field:?}; it has {}",
                rule.kind.name(),
                known.join(", ")
            )
        })
        .collect();
    let raised = rule.raise.iter().flat_map(|raise| &raise.phases);
    let phases = rule
        .phases
        .keys()
        .chain(raised)
        .filter(|phase| !PHASES.contains(&phase.as_str()));
    mistakes.extend(phases.map(|phase| {
        format!(
            "there is no phase {phase:?}; there are {}",
            PHASES.join(", ")
        )
    }));
    mistakes
}

#[cfg(test)]
mod tests {
    use super::compile;
    use crate::rule::{Severity, built_in};

    #[test]
    fn the_rules_of_the_program_compile_and_say_what_to_do() {
        let rules = built_in();
        let ids: Vec<&str> = rules.iter().map(|rule| rule.id.as_str()).collect();
        assert_eq!(
            ids,
            [
                "consumer-without-cupti",
                "cupti-absent",
                "cupti-not-on-search-path",
                "damaged-cupti",
                "dangling-cupti-link",
                "headers-only-cupti",
                "missing-dependency",
                "phase-need-unmet"
            ]
        );
        for rule in rules {
            assert!(
                !rule.summary.ends_with('.') && !rule.why.is_empty() && !rule.references.is_empty(),
                "{}",
                rule.id
            );
            assert!(rule.phases.contains_key("profiling"), "{}", rule.id);
        }
    }

    #[test]
    fn all_mistakes_are_reported_at_once() {
        let text = "summary: s\nsubject: image\nwhere: {colour: red}\nseverity: note\nphases: {lunch: note}\n\
                    message: \"{shape}\"\nwhy: w\nfix: f\n";
        assert_eq!(compile("x", text).unwrap_err().mistakes.len(), 3);
        let unknown = compile("x", &text.replace("why:", "wherefore:"))
            .unwrap_err()
            .to_string();
        assert!(unknown.contains("wherefore"), "{unknown}");
        let right = "summary: s\nsubject: image\nwhere: {status: absent}\nseverity: note\nmessage: m\nwhy: w\nfix: f\n";
        assert_eq!(compile("x", right).unwrap().severity, Severity::Note);
    }
}
