//! Parses and validates a rule's file.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::compiled_rule::{DisabledPhases, LibraryWords, Rule, RuleCure, Severity, SeverityRaise};
use super::field_value::FieldCondition;
use super::subject_field::SubjectField;
use super::subject_kind::SubjectKind;
use super::template::{LIBRARY_FIELDS, MessageTemplate};
use crate::knowledge::catalog::ReplaceKey;
use crate::knowledge::mistake::{TextMistake, unknown_name};
use crate::knowledge::yaml_text::YamlText;

/// A rule's file, as written.
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
    #[serde(default)]
    verdict: Option<String>,
    why: String,
    fix: String,
    #[serde(default, rename = "cured-by")]
    cured_by: Option<RuleCure>,
    #[serde(default, rename = "first-cause")]
    first_cause: bool,
    #[serde(default, rename = "known-of")]
    known_of: BTreeMap<String, LibraryWords>,
    #[serde(default)]
    references: Vec<String>,
    /// Read by the catalog.
    #[serde(default, rename = "replace")]
    _replace: ReplaceKey,
}

/// A severity, or `off`.
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

/// A severity for subjects that meet additional conditions.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RaiseSource {
    #[serde(rename = "where")]
    conditions: BTreeMap<String, String>,
    severity: Severity,
    #[serde(default)]
    phases: Vec<String>,
    #[serde(default)]
    words: Option<String>,
}

/// Reads the rule `id` from its file; `phases` and `libraries` are the known names.
///
/// Errors: The first mistake in the file: an unknown key, a field that the subject lacks, an impossible value, or an
/// unknown phase or library.
pub fn compile_rule(id: &str, text: YamlText<'_>, phases: &[&str], libraries: &[&str]) -> Result<Rule, TextMistake> {
    let source: RuleSource = text.read()?;
    let kind = source.subject;
    let compiler = RuleCompiler { text, kind, phases };
    compiler.check_libraries(&source, libraries)?;
    compiler.rule(id, source)
}

/// A rule's file during compilation, with the context for its mistakes.
struct RuleCompiler<'d> {
    text: YamlText<'d>,
    kind: SubjectKind,
    phases: &'d [&'d str],
}

impl RuleCompiler<'_> {
    fn rule(&self, id: &str, source: RuleSource) -> Result<Rule, TextMistake> {
        let mut named = source.phases.keys();
        if let Some(name) = named.find(|name| !self.phases.contains(&name.as_str())) {
            let what = unknown_name("phase", name, self.phases);
            return Err(self.text.mistake(&["phases", name], what));
        }
        let phases = severities(&source.phases);
        // A rule that is off unless a phase enables it is listed with its highest possible severity.
        let worst = phases.values().copied().max();
        let raises = source.raise.into_iter().enumerate();
        Ok(Rule {
            id: id.to_owned(),
            summary: source.summary,
            why: source.why,
            fix: self.template("fix", &source.fix)?,
            references: source.references,
            library: source.library,
            known_of: source.known_of,
            cured_by: source.cured_by,
            first_cause: source.first_cause,
            severity: source.severity.severity().or(worst).unwrap_or(Severity::Note),
            off: DisabledPhases {
                unasked: source.severity.severity().is_none(),
                phases: without_severity(&source.phases),
            },
            phases,
            kind: source.subject,
            conditions: self.conditions(&["where"], source.conditions)?,
            raise: raises
                .map(|(number, raise)| self.raise(&number.to_string(), raise))
                .collect::<Result<_, _>>()?,
            message: self.template("message", &source.message)?,
            verdict: source.verdict.map(|text| self.template("verdict", &text)).transpose()?,
        })
    }

    fn check_libraries(&self, source: &RuleSource, known: &[&str]) -> Result<(), TextMistake> {
        let library = source.library.as_slice();
        self.text.check_names(&["library"], library, "library", known)?;
        for (name, words) in &source.known_of {
            if !known.contains(&name.as_str()) {
                let what = unknown_name("library", name, known);
                return Err(self.text.mistake(&["known-of", name], what));
            }
            self.check_fields(&["known-of", name, "fix"], &words.fix)?;
        }
        Ok(())
    }

    fn raise(&self, number: &str, source: RaiseSource) -> Result<SeverityRaise, TextMistake> {
        let path = ["raise", number, "phases"];
        self.text.check_names(&path, &source.phases, "phase", self.phases)?;
        Ok(SeverityRaise {
            conditions: self.conditions(&["raise", number, "where"], source.conditions)?,
            severity: source.severity,
            phases: source.phases,
            words: source.words,
        })
    }

    fn conditions(&self, path: &[&str], source: BTreeMap<String, String>) -> Result<Vec<FieldCondition>, TextMistake> {
        let condition = |(field, written): (String, String)| {
            let path = [path, &[&*field]].concat();
            let known = self.field(&field).map_err(|what| self.text.mistake(&path, what))?;
            let read = known.read(&written, self.phases);
            read.map_err(|what| self.text.mistake(&path, self.of_subject(&what)))
        };
        source.into_iter().map(condition).collect()
    }

    fn template(&self, key: &str, text: &str) -> Result<MessageTemplate, TextMistake> {
        let template = MessageTemplate::new(text);
        self.check_fields(&[key], &template)?;
        Ok(template)
    }

    fn check_fields(&self, path: &[&str], template: &MessageTemplate) -> Result<(), TextMistake> {
        let mut of_subject = template.fields().filter(|field| !LIBRARY_FIELDS.contains(field));
        of_subject.try_for_each(|field| {
            let found = self.field(field).map(|_known| ());
            found.map_err(|what| self.text.mistake(path, what))
        })
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
    use crate::knowledge::rule::{Rule, Severity, SubjectKind};
    use crate::knowledge::yaml_text::YamlText;

    #[test]
    fn a_rule_can_be_off_for_a_phase_and_where_none_was_asked_for() {
        let text = "summary: s\nsubject: image\nwhere: {}\nseverity: off\nmessage: m\nwhy: w\nfix: f\n\
                    phases: {inference: off, training: note, profiling: warning}\n";
        let phases = ["inference", "training", "profiling"];
        let rule = super::compile_rule("x", YamlText::of(text), &phases, &[]).unwrap();
        assert!(rule.off.unasked);
        assert_eq!(rule.off.phases, ["inference".to_owned()].into());
        assert_eq!(rule.severity, Severity::Warning, "the worst one stands for it");
        assert_eq!(rule.phases.len(), 2);
    }

    const PHASES: [&str; 2] = ["inference", "training"];

    /// The first mistake in a rule's file, or an empty text.
    fn mistake(text: &str) -> String {
        let compiled = super::compile_rule("x", YamlText::of(text), &PHASES, &["cupti"]);
        compiled.map_or_else(|mistake| mistake.to_string(), |_rule| String::new())
    }

    const RIGHT: &str = "summary: s\nsubject: image\nwhere: {status: absent}\nseverity: note\n\
        phases: {training: note}\nraise:\n  - {where: {status: absent}, severity: error, phases: [inference, training]}\n\
        message: \"{status}\"\nwhy: w\nfix: f\n";

    #[test]
    fn what_the_types_of_a_rule_cannot_see_is_told_at_its_place() {
        assert_eq!(mistake(RIGHT), "");
        let fields = SubjectKind::Image.fields().iter().map(|field| field.name);
        let has = format!("there is {}", fields.collect::<Vec<_>>().join(", "));
        for (right, wrong, said) in [
            (
                "where: {status: absent}\n",
                "where: {colour: red}\n",
                format!("3:17: of subject image: there is no field \"colour\"; {has}"),
            ),
            (
                "phases: {training",
                "phases: {lunch",
                "5:17: there is no phase \"lunch\"; there is inference, training".to_owned(),
            ),
            (
                "- {where: {status",
                "- {where: {stats",
                format!("7:21: of subject image: there is no field \"stats\"; did you mean \"status\"?; {has}"),
            ),
            (
                "[inference, training]",
                "[inference, trainin]",
                "7:68: there is no phase \"trainin\"; did you mean \"training\"?; there is inference, training"
                    .to_owned(),
            ),
            (
                "\"{status}\"",
                "\"{shape}\"",
                format!("8:10: of subject image: there is no field \"shape\"; {has}"),
            ),
        ] {
            assert_eq!(mistake(&RIGHT.replace(right, wrong)), said, "{wrong}");
        }
        assert!(mistake(&RIGHT.replace("why:", "wherefore:")).starts_with("9:1: there is no key \"wherefore\""));
    }

    #[test]
    fn a_value_that_a_field_never_has_is_told() {
        let told = |subject: &str, conditions: &str| {
            let text = format!(
                "summary: s\nsubject: {subject}\nwhere: {{{conditions}}}\nseverity: note\nmessage: m\nwhy: w\nfix: f\n"
            );
            mistake(&text)
        };
        for (subject, conditions, said) in [
            (
                "image",
                "status: loadabel",
                "3:17: of subject image: field status: there is no value \"loadabel\"; did you mean \"loadable\"?; \
                 there is loadable, unloadable, headers-only, absent",
            ),
            (
                "image",
                "libc: 1",
                "3:15: of subject image: field libc: there is no value \"1\"; there is glibc, musl, none",
            ),
            (
                "copy",
                "private: yes, version: 12.4",
                "3:18: of subject copy: field private: there is no value \"yes\"; there is true, false",
            ),
            (
                "need",
                "phase: lunch",
                "3:16: of subject need: field phase: there is no value \"lunch\"; there is inference, training",
            ),
            (
                "need",
                "level: [needs]",
                "3:16: expected one value, found a list or a map",
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
            ("copy", "private: True, used: false, soname: libcupti.so.12", ""),
        ] {
            assert_eq!(told(subject, conditions), said, "{conditions}");
        }
    }

    #[test]
    fn a_description_says_fields_and_conditions_in_words_if_the_rule_has_them() {
        let text = RIGHT.replace("fix: f", "fix: \"{libc|the C library} of {status}\"");
        let rule = super::compile_rule("x", YamlText::of(&text), &PHASES, &["cupti"]).unwrap();
        assert_eq!(rule.fix.with_field_names(), "the C library of <status>");
        let raised = |rule: &Rule| rule.raised().map(|(words, ..)| words).collect::<Vec<_>>();
        assert_eq!(raised(&rule), ["status is absent"]);
        let text = RIGHT.replace("severity: error,", "severity: error, words: nothing is there,");
        let rule = super::compile_rule("x", YamlText::of(&text), &PHASES, &["cupti"]).unwrap();
        assert_eq!(raised(&rule), ["nothing is there"]);
    }

    #[test]
    fn a_rule_speaks_of_libraries_that_are_known() {
        let text = "summary: s\nsubject: image\nlibrary: nccl\nwhere: {}\nseverity: note\nmessage: m\nwhy: w\nfix: f\n\
                    known-of:\n  cudnn: {why: w}\n  cupti: {fix: '{library_name} {shape}'}\n";
        assert_eq!(mistake(text), "3:10: there is no library \"nccl\"; there is cupti");
        let text = text.replace("library: nccl", "library: cupti");
        assert_eq!(mistake(&text), "10:10: there is no library \"cudnn\"; there is cupti");
        let told = mistake(&text.replace("  cudnn: {why: w}\n", ""));
        let field = "10:16: of subject image: there is no field \"shape\"";
        assert!(told.starts_with(field), "{told}");
    }
}
