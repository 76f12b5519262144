//! Reads a rule's file and checks it whole: every mistake is reported, not only the first.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::compiled_rule::{DisabledPhases, LibraryWords, Rule, RuleCure, Severity, SeverityRaise};
use super::field_value::FieldCondition;
use super::subject_fields::SubjectField;
use super::subject_kind::SubjectKind;
use super::template::{LIBRARY_FIELDS, MessageTemplate};
use yaml_mistakes::{YamlDocument, YamlMistake, unknown_name};

/// A rule's file as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleSource {
    summary: String,
    subject: SubjectKind,
    #[serde(default)]
    library: Option<String>,
    #[serde(rename = "where")]
    conditions: BTreeMap<String, String>,
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
    #[serde(default, rename = "known-of")]
    known_of: BTreeMap<String, LibraryWords>,
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
    conditions: BTreeMap<String, String>,
    severity: Severity,
    #[serde(default)]
    phases: Vec<String>,
}

/// Reads the rule `id` from its file; `phases` and `libraries` are those that there are.
///
/// Errors: All mistakes in the file: a key that no rule has, a field that the subject has not, a value that the field never
/// has, a phase or library nobody knows.
pub fn compile_rule(
    id: &str,
    document: &YamlDocument,
    phases: &[&str],
    libraries: &[&str],
) -> Result<Rule, Vec<YamlMistake>> {
    document.read_and(|source: RuleSource| {
        let mut compiler = RuleCompiler {
            document,
            kind: source.subject,
            phases,
            mistakes: Vec::new(),
        };
        compiler.check_libraries(&source, libraries);
        let rule = compiler.rule(id, source);
        (rule, compiler.mistakes)
    })
}

/// A rule's file on its way to a rule, with the mistakes that its types cannot see.
struct RuleCompiler<'d> {
    document: &'d YamlDocument,
    kind: SubjectKind,
    phases: &'d [&'d str],
    mistakes: Vec<YamlMistake>,
}

impl RuleCompiler<'_> {
    fn rule(&mut self, id: &str, source: RuleSource) -> Rule {
        for name in source
            .phases
            .keys()
            .filter(|name| !self.phases.contains(&name.as_str()))
        {
            let what = unknown_name("phase", name, self.phases);
            self.mistakes
                .push(self.document.mistake_in_key(&["phases", name], what));
        }
        let phases = severities(&source.phases);
        // A rule that is off unless a phase asks for it is listed with the gravest severity that it can have.
        let gravest = phases.values().copied().max();
        let raises = source.raise.into_iter().enumerate();
        Rule {
            id: id.to_owned(),
            summary: source.summary,
            why: source.why,
            fix: self.template("fix", &source.fix),
            references: source.references,
            library: source.library,
            known_of: source.known_of,
            cured_by: source.cured_by,
            severity: source.severity.severity().or(gravest).unwrap_or(Severity::Note),
            off: DisabledPhases {
                unasked: source.severity.severity().is_none(),
                phases: without_severity(&source.phases),
            },
            phases,
            kind: source.subject,
            conditions: self.conditions(&["where"], source.conditions),
            raise: raises
                .map(|(number, raise)| self.raise(&number.to_string(), raise))
                .collect(),
            message: self.template("message", &source.message),
        }
    }

    fn check_libraries(&mut self, source: &RuleSource, known: &[&str]) {
        let strange = |name: &String| !known.contains(&name.as_str());
        let what = |name: &String| unknown_name("library", name, known);
        for name in source.library.iter().filter(|name| strange(name)) {
            self.mistakes.push(self.document.mistake(&["library"], what(name)));
        }
        for (name, words) in &source.known_of {
            if strange(name) {
                self.mistakes
                    .push(self.document.mistake_in_key(&["known-of", name], what(name)));
            }
            self.check_fields(&["known-of", name, "fix"], &words.fix);
        }
    }

    fn raise(&mut self, number: &str, source: RaiseSource) -> SeverityRaise {
        let path = ["raise", number, "phases"];
        let told = self
            .document
            .unknown_names(&path, &source.phases, ("phase", self.phases));
        self.mistakes.extend(told);
        SeverityRaise {
            conditions: self.conditions(&["raise", number, "where"], source.conditions),
            severity: source.severity,
            phases: source.phases,
        }
    }

    fn conditions(&mut self, path: &[&str], source: BTreeMap<String, String>) -> Vec<FieldCondition> {
        let mut conditions = Vec::new();
        for (field, written) in source {
            let path = [path, &[&*field]].concat();
            let mistake = match self.field(&field) {
                Err(what) => self.document.mistake_in_key(&path, what),
                Ok(known) => match known.read(&written, self.phases) {
                    Err(what) => self.document.mistake(&path, self.of_subject(&what)),
                    Ok(condition) => {
                        conditions.push(condition);
                        continue;
                    }
                },
            };
            self.mistakes.push(mistake);
        }
        conditions
    }

    fn template(&mut self, key: &str, text: &str) -> MessageTemplate {
        let template = MessageTemplate::new(text);
        self.check_fields(&[key], &template);
        template
    }

    fn check_fields(&mut self, path: &[&str], template: &MessageTemplate) {
        let of_subject = template.fields().filter(|field| !LIBRARY_FIELDS.contains(field));
        let strange = of_subject.filter_map(|field| self.field(field).err());
        let told: Vec<YamlMistake> = strange.map(|what| self.document.mistake(path, what)).collect();
        self.mistakes.extend(told);
    }

    fn field(&self, name: &str) -> Result<SubjectField, String> {
        let fields = self.kind.fields();
        let known = || fields.iter().map(|field| field.name).collect::<Vec<_>>();
        let found = fields.iter().find(|field| field.name == name).copied();
        found.ok_or_else(|| self.of_subject(&unknown_name("field", name, &known())))
    }

    fn of_subject(&self, what: &str) -> String {
        format!("of subject {}: {what}", self.kind.name())
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

#[cfg(test)]
mod tests {
    use crate::knowledge::rule::{Severity, SubjectKind};
    use yaml_mistakes::YamlDocument;

    #[test]
    fn a_rule_can_be_off_for_a_phase_and_where_none_was_asked_for() {
        let text = "summary: s\nsubject: image\nwhere: {}\nseverity: off\nmessage: m\nwhy: w\nfix: f\n\
                    phases: {inference: off, training: note, profiling: warning}\n";
        let phases = ["inference", "training", "profiling"];
        let rule = super::compile_rule("x", &YamlDocument::parse(text).unwrap(), &phases, &[]).unwrap();
        assert!(rule.off.unasked);
        assert_eq!(rule.off.phases, ["inference".to_owned()].into());
        assert_eq!(rule.severity, Severity::Warning, "the gravest one stands for it");
        assert_eq!(rule.phases.len(), 2);
    }

    const PHASES: [&str; 2] = ["inference", "training"];

    /// The mistakes of a rule's file.
    fn compile(text: &str) -> Vec<String> {
        let compiled = super::compile_rule("x", &YamlDocument::parse(text).unwrap(), &PHASES, &["cupti"]);
        let mistakes = compiled.err().unwrap_or_default();
        mistakes.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn all_mistakes_are_reported_at_once_each_at_its_place() {
        let text = "summary: s\nsubject: image\nwhere: {colour: red}\nseverity: note\n\
            phases: {lunch: note, training: note}\nraise:\n  - {where: {stats: absent}, severity: error, phases: [inference, trainin]}\n\
            message: \"{shape}\"\nwhy: w\nfix: f\n";
        let fields = SubjectKind::Image.fields().iter().map(|field| field.name);
        let has = format!("there is {}", fields.collect::<Vec<_>>().join(", "));
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
    }

    #[test]
    fn a_value_that_a_field_never_has_is_told() {
        let told = |subject: &str, conditions: &str| {
            let text = format!(
                "summary: s\nsubject: {subject}\nwhere: {{{conditions}}}\nseverity: note\nmessage: m\nwhy: w\nfix: f\n"
            );
            compile(&text).join(" | ")
        };
        for (subject, conditions, said) in [
            (
                "image",
                "status: loadabel, libc: 1",
                "3:17: of subject image: field status: there is no value \"loadabel\"; did you mean \"loadable\"?; \
                 there is loadable, unloadable, headers-only, absent | \
                 3:33: of subject image: field libc: there is no value \"1\"; there is glibc, musl, none",
            ),
            (
                "copy",
                "decoy: yes, version: 12.4",
                "3:16: of subject copy: field decoy: there is no value \"yes\"; there is true, false",
            ),
            (
                "need",
                "phase: lunch, level: [needs]",
                "3:16: of subject need: field phase: there is no value \"lunch\"; there is inference, training | \
                 3:30: expected a string, found a list",
            ),
            (
                "copies",
                "count: lots",
                "3:16: of subject copies: field count: expected a number, such as 3, or a comparison, \">= 3\", \"<= 3\", \
                 \"> 3\", \"< 3\"; found \"lots\"",
            ),
            (
                "dead-weight",
                "bytes: 1 GB, count: \">3\"",
                "3:16: of subject dead-weight: field bytes: expected a number, such as 3, or a comparison, \">= 3\", \
                 \"<= 3\", \"> 3\", \"< 3\"; found \"1 GB\"",
            ),
            ("copies", "count: \">= 3\"", ""),
            ("copies", "count: 3", ""),
            ("copy", "decoy: True, used: false, soname: libcupti.so.12", ""),
        ] {
            assert_eq!(told(subject, conditions), said, "{conditions}");
        }
    }

    #[test]
    fn a_rule_speaks_of_libraries_that_are_known() {
        let text = "summary: s\nsubject: image\nlibrary: nccl\nwhere: {}\nseverity: note\nmessage: m\nwhy: w\nfix: f\n\
                    known-of:\n  cudnn: {why: w}\n  cupti: {fix: '{library_name} {shape}'}\n";
        let told = compile(text);
        assert_eq!(told[0], "3:10: there is no library \"nccl\"; there is cupti");
        assert_eq!(told[1], "10:3: there is no library \"cudnn\"; there is cupti");
        assert!(
            told[2].starts_with("11:16: of subject image: there is no field \"shape\""),
            "{told:?}"
        );
        let right = "summary: s\nsubject: image\nwhere: {status: absent}\nseverity: note\nmessage: m\nwhy: w\nfix: f\n";
        assert_eq!(compile(right), [""; 0]);
    }
}
