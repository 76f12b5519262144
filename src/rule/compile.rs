//! Reads a rule's file and checks it whole: every mistake is reported, not only the first.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::template::Template;
use super::{Condition, Kind, Off, Raise, Rule, Severity, Value};

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
    severity: Level,
    #[serde(default)]
    phases: BTreeMap<String, Level>,
    #[serde(default)]
    raise: Vec<RaiseSource>,
    message: String,
    why: String,
    fix: String,
    #[serde(default)]
    references: Vec<String>,
}

/// A severity, or that the rule says nothing.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Off,
    Note,
    Warning,
    Error,
}

impl Level {
    fn severity(self) -> Option<Severity> {
        match self {
            Self::Off => None,
            Self::Note => Some(Severity::Note),
            Self::Warning => Some(Severity::Warning),
            Self::Error => Some(Severity::Error),
        }
    }
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
    let phases = severities(&source.phases);
    let gravest = phases.values().copied().max();
    let rule = Rule {
        id: id.to_owned(),
        summary: source.summary,
        why: source.why,
        fix: Template::new(&source.fix),
        references: source.references,
        severity: source
            .severity
            .severity()
            .or(gravest)
            .unwrap_or(Severity::Note),
        off: Off {
            unasked: source.severity.severity().is_none(),
            phases: without_severity(&source.phases),
        },
        phases,
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

fn severities(phases: &BTreeMap<String, Level>) -> BTreeMap<String, Severity> {
    let of = |(phase, level): (&String, &Level)| Some((phase.clone(), level.severity()?));
    phases.iter().filter_map(of).collect()
}

fn without_severity(phases: &BTreeMap<String, Level>) -> BTreeSet<String> {
    let off = phases
        .iter()
        .filter(|(_, level)| level.severity().is_none());
    off.map(|(phase, _)| phase.clone()).collect()
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
        .chain(&rule.off.phases)
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
    use crate::rule::Severity;

    #[test]
    fn a_rule_can_be_off_for_a_phase_and_where_none_was_asked_for() {
        let text = "summary: s\nsubject: image\nwhere: {}\nseverity: off\nmessage: m\nwhy: w\nfix: f\n\
                    phases: {inference: off, training: note, profiling: warning}\n";
        let rule = compile("x", text).unwrap();
        assert!(rule.off.unasked);
        assert_eq!(rule.off.phases, ["inference".to_owned()].into());
        assert_eq!(
            rule.severity,
            Severity::Warning,
            "the gravest one stands for it"
        );
        assert_eq!(rule.phases.len(), 2);
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
