//! Reads a rule's file and checks it whole: every mistake is reported, not only the first.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::compiled_rule::{DisabledPhases, FieldCondition, Rule, RuleCure, Severity, SeverityRaise};
use super::subject_kind::{FieldValue, SubjectKind};
use super::template::MessageTemplate;
use yaml_mistakes::{YamlDocument, YamlMistake, unknown_name};

/// A rule's file as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleSource {
    summary: String,
    subject: SubjectKind,
    #[serde(rename = "where")]
    conditions: BTreeMap<String, FieldValue>,
    severity: SeverityLevel,
    #[serde(default)]
    phases: BTreeMap<String, SeverityLevel>,
    #[serde(default)]
    raise: Vec<RaiseSource>,
    message: String,
    why: String,
    fix: String,
    #[serde(default, rename = "cured-by")]
    cured_by: Option<RuleCure>,
    #[serde(default)]
    references: Vec<String>,
}

/// A severity, or that the rule says nothing.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SeverityLevel {
    Off,
    Note,
    Warning,
    Error,
}

impl SeverityLevel {
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
    conditions: BTreeMap<String, FieldValue>,
    severity: Severity,
    #[serde(default)]
    phases: Vec<String>,
}

/// Reads the rule `id` from its file; `phases` are those that there are.
///
/// Errors: All mistakes in the file: a key that no rule has, a field that the subject has not, a phase nobody knows.
pub fn compile_rule(id: &str, document: &YamlDocument, phases: &[String]) -> Result<Rule, Vec<YamlMistake>> {
    document.read_and(|source: RuleSource| {
        let mistakes = mistakes(document, &source, phases);
        (rule(id, source), mistakes)
    })
}

fn rule(id: &str, source: RuleSource) -> Rule {
    let phases = severities(&source.phases);
    // A rule that is off unless a phase asks for it is listed with the gravest severity that it can have.
    let gravest = phases.values().copied().max();
    Rule {
        id: id.to_owned(),
        summary: source.summary,
        why: source.why,
        fix: MessageTemplate::new(&source.fix),
        references: source.references,
        cured_by: source.cured_by,
        severity: source.severity.severity().or(gravest).unwrap_or(Severity::Note),
        off: DisabledPhases {
            unasked: source.severity.severity().is_none(),
            phases: without_severity(&source.phases),
        },
        phases,
        kind: source.subject,
        conditions: conditions(source.conditions),
        raise: source.raise.into_iter().map(raise).collect(),
        message: MessageTemplate::new(&source.message),
    }
}

fn severities(phases: &BTreeMap<String, SeverityLevel>) -> BTreeMap<String, Severity> {
    let of = |(phase, level): (&String, &SeverityLevel)| Some((phase.clone(), level.severity()?));
    phases.iter().filter_map(of).collect()
}

fn without_severity(phases: &BTreeMap<String, SeverityLevel>) -> BTreeSet<String> {
    let off = phases.iter().filter(|(_, level)| level.severity().is_none());
    off.map(|(phase, _)| phase.clone()).collect()
}

fn conditions(source: BTreeMap<String, FieldValue>) -> Vec<FieldCondition> {
    source
        .into_iter()
        .map(|(field, value)| FieldCondition { field, value })
        .collect()
}

fn raise(source: RaiseSource) -> SeverityRaise {
    SeverityRaise {
        conditions: conditions(source.conditions),
        severity: source.severity,
        phases: source.phases,
    }
}

/// What a type cannot say: fields that the subject has not, and phases that there are not.
fn mistakes(document: &YamlDocument, source: &RuleSource, phases: &[String]) -> Vec<YamlMistake> {
    let fields = source.subject.fields();
    let kind = source.subject.name();
    let known: Vec<&str> = phases.iter().map(String::as_str).collect();
    let raises: Vec<(String, &RaiseSource)> = source
        .raise
        .iter()
        .enumerate()
        .map(|(number, raise)| (number.to_string(), raise))
        .collect();
    let strange = |field: &str| {
        let what = || format!("of subject {kind}: {}", unknown_name("field", field, fields));
        (!fields.contains(&field)).then(what)
    };
    let mut mistakes = Vec::new();
    let mut in_key = |path: &[&str], name: &str| {
        mistakes.extend(strange(name).map(|what| document.mistake_in_key(path, what)));
    };
    for name in source.conditions.keys() {
        in_key(&["where", name], name);
    }
    for (number, raise) in &raises {
        for name in raise.conditions.keys() {
            in_key(&["raise", number, "where", name], name);
        }
    }
    for (key, text) in [("message", &source.message), ("fix", &source.fix)] {
        let template = MessageTemplate::new(text);
        let strange = template.fields().filter_map(strange);
        mistakes.extend(strange.map(|what| document.mistake(&[key], what)));
    }
    let strange = |name: &String| !known.contains(&name.as_str());
    for name in source.phases.keys().filter(|name| strange(name)) {
        let what = unknown_name("phase", name, &known);
        mistakes.push(document.mistake_in_key(&["phases", name], what));
    }
    for (number, raise) in &raises {
        let named = raise.phases.iter().enumerate();
        for (at, name) in named.filter(|(_, name)| strange(name)) {
            let path = ["raise", number, "phases", &at.to_string()];
            mistakes.push(document.mistake(&path, unknown_name("phase", name, &known)));
        }
    }
    mistakes
}

#[cfg(test)]
mod tests {
    use crate::knowledge::rule::{Severity, SubjectKind};
    use yaml_mistakes::YamlDocument;

    #[test]
    fn a_rule_can_be_off_for_a_phase_and_where_none_was_asked_for() {
        let text = "summary: s\nsubject: image\nwhere: {}\nseverity: off\nmessage: m\nwhy: w\nfix: f\n\
                    phases: {inference: off, training: note, profiling: warning}\n";
        let phases = ["inference", "training", "profiling"].map(str::to_owned);
        let rule = super::compile_rule("x", &YamlDocument::parse(text).unwrap(), &phases).unwrap();
        assert!(rule.off.unasked);
        assert_eq!(rule.off.phases, ["inference".to_owned()].into());
        assert_eq!(rule.severity, Severity::Warning, "the gravest one stands for it");
        assert_eq!(rule.phases.len(), 2);
    }

    #[test]
    fn all_mistakes_are_reported_at_once_each_at_its_place() {
        let text = "summary: s\nsubject: image\nwhere: {colour: red}\nseverity: note\n\
            phases: {lunch: note, training: note}\nraise:\n  - {where: {stats: absent}, severity: error, phases: [inference, trainin]}\n\
            message: \"{shape}\"\nwhy: w\nfix: f\n";
        let phases = ["inference".to_owned(), "training".to_owned()];
        let compile = |text: &str| {
            let compiled = super::compile_rule("x", &YamlDocument::parse(text).unwrap(), &phases);
            let mistakes = compiled.err().unwrap_or_default();
            let mistakes = mistakes.iter().map(ToString::to_string);
            mistakes.collect::<Vec<String>>()
        };
        let has = format!("there is {}", SubjectKind::Image.fields().join(", "));
        assert_eq!(
            compile(text),
            [
                format!("3:9: of subject image: there is no field \"colour\"; {has}"),
                "5:10: there is no phase \"lunch\"; there is inference, training".to_owned(),
                format!("7:14: of subject image: there is no field \"stats\"; did you mean \"status\"?; {has}"),
                "7:67: there is no phase \"trainin\"; did you mean \"training\"?; there is inference, training"
                    .to_owned(),
                format!("8:10: of subject image: there is no field \"shape\"; {has}"),
            ]
        );
        assert_eq!(
            compile(&text.replace("why:", "wherefore:")).len(),
            7,
            "a key that is missing and one that is not known are told beside the rest"
        );
        let right = "summary: s\nsubject: image\nwhere: {status: absent}\nseverity: note\nmessage: m\nwhy: w\nfix: f\n";
        assert_eq!(compile(right), [""; 0]);
    }
}
