//! Rules as data: the words, severities and links of findings.
//!
//! Each file has one rule. A check in `judge` decides when it applies and gives the values for its texts.

mod built_in;
mod template;

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

pub use built_in::OPERATORS;
pub use template::MessageTemplate;

use self::built_in::CheckNames;
use super::catalog::ReplaceKey;
use super::mistake::{TextMistake, unknown_name};
use super::names::names;
use super::phase::Phase;
use super::yaml_text::YamlText;

names! {
    /// The severity of a finding.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
    pub enum Severity {
        /// Information only; nothing fails because of it.
        Note = "note",
        /// Something will be missing.
        Warning = "warning",
        /// It will not work.
        Error = "error",
    }
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

impl From<SeverityLevel> for Option<Severity> {
    fn from(level: SeverityLevel) -> Self {
        match level {
            SeverityLevel::Off => None,
            SeverityLevel::Note => Some(Severity::Note),
            SeverityLevel::Warning => Some(Severity::Warning),
            SeverityLevel::Error => Some(Severity::Error),
        }
    }
}

fn severity_or_off<'de, D: Deserializer<'de>>(yaml: D) -> Result<Option<Severity>, D::Error> {
    SeverityLevel::deserialize(yaml).map(Into::into)
}

fn severities_or_off<'de, D: Deserializer<'de>>(yaml: D) -> Result<BTreeMap<String, Option<Severity>>, D::Error> {
    let levels: BTreeMap<String, SeverityLevel> = Deserialize::deserialize(yaml)?;
    Ok(levels.into_iter().map(|(phase, level)| (phase, level.into())).collect())
}

/// A rule, as in its file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Rule {
    /// The stem of its file.
    #[serde(skip)]
    pub id: String,
    /// A one-line summary of what it finds.
    pub summary: String,
    /// The question that it belongs to.
    #[serde(default)]
    pub about: RuleQuestion,
    /// The built-in rule whose check a rule of the user shares.
    #[serde(default)]
    pub like: Option<String>,
    /// The values that the check of a user's rule must have found, as written.
    #[serde(default, rename = "where")]
    pub conditions: BTreeMap<String, String>,
    /// The severity if no phase was requested; `None` if the rule is off then.
    #[serde(deserialize_with = "severity_or_off")]
    pub severity: Option<Severity>,
    /// The severity for each phase; `None` if the rule is off for it.
    #[serde(default, deserialize_with = "severities_or_off")]
    pub phases: BTreeMap<String, Option<Severity>>,
    /// When the severity is higher.
    #[serde(default)]
    pub raise: Vec<SeverityRaise>,
    /// The problem, with placeholders for the values of its check.
    pub message: MessageTemplate,
    /// The failing program and the reason, for the first line of a report.
    #[serde(default)]
    pub verdict: Option<MessageTemplate>,
    /// Why that matters, for readers who are new to it.
    pub why: String,
    /// The advice, with placeholders as in the message.
    pub fix: MessageTemplate,
    /// Values of the check that no text contains, for the conditions of users' rules.
    #[serde(default)]
    values: Vec<String>,
    /// What its findings explain; `None` if nothing else depends on them.
    #[serde(default)]
    pub explains: Option<Explains>,
    /// How `cupti-audit dockerfile` fixes its findings; `None` if it does not.
    #[serde(default)]
    pub cured_by: Option<RuleCure>,
    /// Whether its findings describe a defect of one file that causes other findings.
    #[serde(default)]
    pub first_cause: bool,
    /// Links to more information.
    #[serde(default)]
    pub references: Vec<String>,
    /// Read by the catalog.
    #[serde(default, rename = "replace")]
    _replace: ReplaceKey,
}

/// A higher severity under a condition.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeverityRaise {
    /// The condition, as the check calls it.
    #[serde(rename = "if")]
    pub when: String,
    /// The severity.
    pub severity: Severity,
    /// The phases that it applies to; empty for all.
    #[serde(default)]
    pub phases: Vec<String>,
    /// The condition, as the end of a sentence.
    pub words: String,
}

/// A question about an image or Dockerfile. Rules for other questions are not applied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleQuestion {
    /// Whether an image serves its phases.
    #[default]
    Image,
    /// Whether each object of an image finds its dependencies.
    Links,
    /// Whether the steps of a Dockerfile, or the packages of a lock, install the library.
    BuildFile,
    /// Whether the entries of the config are of use; it belongs to every other question.
    Config,
}

/// What the findings of a rule explain: why a phase fails, or why another finding is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Explains {
    /// Nothing in the image gets CUPTI.
    Image,
    /// A copy of CUPTI is not found, or does not serve.
    Copy,
    /// A link with a name of CUPTI leads nowhere.
    Link,
    /// A program does not get CUPTI.
    Program,
    /// A program does not start.
    Start,
    /// The container command does not start.
    Command,
    /// A package lacks files.
    Package,
    /// A requested profiling tool does not work.
    Tool,
}

/// A Dockerfile step that fixes a rule's findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleCure {
    /// Installs CUPTI and its dependencies, or adds the existing copy to the search path.
    InstallCupti,
    /// Writes `LD_LIBRARY_PATH` without empty elements.
    CleanLibraryPath,
}

impl RuleCure {
    /// The step, as the end of a sentence about the Dockerfile.
    pub fn words(self) -> &'static str {
        match self {
            Self::InstallCupti => {
                "writes a Dockerfile that installs CUPTI or, if the image already has a good copy, adds its directory to the search path"
            }
            Self::CleanLibraryPath => "writes a Dockerfile that sets LD_LIBRARY_PATH without empty elements",
        }
    }
}

impl Rule {
    /// Reads the rule `id` from its file; `phases` are the known names.
    ///
    /// Errors: The first mistake in the file: an unknown key or phase; in a user's rule also a name that its check does
    /// not have.
    pub fn read(id: &str, text: YamlText<'_>, phases: &[&str]) -> Result<Self, TextMistake> {
        let mut rule: Self = text.read()?;
        id.clone_into(&mut rule.id);
        if let Some(name) = rule.phases.keys().find(|name| !phases.contains(&name.as_str())) {
            return Err(text.mistake(&["phases", name], unknown_name("phase", name, phases)));
        }
        for (number, raise) in rule.raise.iter().enumerate() {
            let path = ["raise", &number.to_string(), "phases"];
            text.check_names(&path, &raise.phases, "phase", phases)?;
        }
        if !text.is_built_in() {
            let check = CheckNames::of_user_rule(&rule, text)?;
            check.check_rule(&rule, text)?;
            (rule.about, rule.explains) = (check.about, check.explains);
        }
        Ok(rule)
    }

    /// The id of the built-in rule with the same check.
    pub fn check(&self) -> &str {
        self.like.as_ref().unwrap_or(&self.id)
    }

    /// Whether it applies to this question.
    pub fn answers(&self, question: RuleQuestion) -> bool {
        self.about == question || self.about == RuleQuestion::Config
    }

    /// The severity for lists: without a phase, or the highest of the phases if the rule is off then.
    pub fn usual_severity(&self) -> Severity {
        let highest = self.phases.values().flatten().max();
        self.severity.or(highest.copied()).unwrap_or(Severity::Note)
    }

    /// The phase name that the rule uses: the phase's own, or the one it is like.
    pub fn severity_phase<'p>(&self, phase: &'p Phase) -> &'p str {
        let name = &phase.name;
        // A user's phase that the rule names has its own entry, although it is like another.
        let raises = self.raise.iter().any(|raise| raise.phases.contains(name));
        if raises || self.phases.contains_key(name) {
            name
        } else {
            &phase.like
        }
    }

    /// The severity for a name of [`Rule::severity_phase`]; `None` if the rule is off for it.
    pub fn severity_for(&self, phase: &str) -> Option<Severity> {
        match self.phases.get(phase) {
            Some(severity) => *severity,
            None => self.severity,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Rule, Severity};
    use crate::knowledge::yaml_text::YamlText;

    const PHASES: [&str; 3] = ["inference", "training", "profiling"];

    const RIGHT: &str = "summary: s\nlike: required-package-missing\nwhere: {breaks-program: true}\nseverity: note\n\
        phases: {training: note}\nraise:\n  - {if: modules, severity: error, phases: [inference, training], words: w}\n\
        message: \"{what}\"\nwhy: w\nfix: \"{what|the packages} of {environment}\"\n";

    /// The first mistake in a rule's file, or an empty text.
    fn mistake(text: &str) -> String {
        let read = Rule::read("x", YamlText::of(text), &PHASES);
        read.map_or_else(|mistake| mistake.to_string(), |_rule| String::new())
    }

    #[test]
    fn a_rule_can_be_off_for_a_phase_and_where_none_was_asked_for() {
        let text = "summary: s\nlike: cupti-absent\nseverity: off\nmessage: m\nwhy: w\nfix: f\n\
                    phases: {inference: off, training: note, profiling: warning}\n";
        let rule = Rule::read("x", YamlText::of(text), &PHASES).unwrap();
        assert_eq!(rule.severity, None);
        assert_eq!(rule.severity_for("inference"), None);
        assert_eq!(rule.severity_for("training"), Some(Severity::Note));
        assert_eq!(rule.usual_severity(), Severity::Warning, "the worst one stands for it");
        let rule = Rule::read("x", YamlText::of(&text.replace("inference: off, ", "")), &PHASES).unwrap();
        assert_eq!(rule.severity_for("inference"), None, "as without a phase");
    }

    #[test]
    fn a_name_that_the_check_does_not_have_is_told_at_its_place() {
        assert_eq!(mistake(RIGHT), "");
        let names = "there is by, environment, what";
        for (right, wrong, said) in [
            (
                "where: {breaks-program",
                "where: {colour",
                "3:17: of required-package-missing: there is no value \"colour\"; there is by, environment, what, modules, \
                 breaks-program"
                    .to_owned(),
            ),
            (
                "breaks-program: true",
                "breaks-program: yes",
                "3:25: of required-package-missing: there is no value \"yes\"; there is true, false".to_owned(),
            ),
            (
                "breaks-program: true",
                "what: \"> lots\"",
                "3:15: expected a number after \">\", such as \"> 3\"; found \"lots\"".to_owned(),
            ),
            (
                "breaks-program: true",
                "what: \"=> 3\"",
                "3:15: expected a value, or one of >=, <=, >, < and a number; found \"=> 3\"".to_owned(),
            ),
            (
                "phases: {training",
                "phases: {lunch",
                "5:17: there is no phase \"lunch\"; there is inference, training, profiling".to_owned(),
            ),
            (
                "if: modules",
                "if: module",
                "7:10: of required-package-missing: there is no condition \"module\"; did you mean \"modules\"?; there is \
                 modules, breaks-program"
                    .to_owned(),
            ),
            (
                "[inference, training]",
                "[inference, trainin]",
                "7:56: there is no phase \"trainin\"; did you mean \"training\"?; there is inference, training, profiling"
                    .to_owned(),
            ),
            (
                "message: \"{what}\"",
                "message: \"{shape}\"",
                format!("8:10: of required-package-missing: there is no value \"shape\"; {names}"),
            ),
            (
                "message: \"{what}\"",
                "message: \"{what\"",
                format!("8:10: of required-package-missing: there is no value \"{{what\"; did you mean \"what\"?; {names}"),
            ),
            (
                "like: required-package-missing",
                "like: required-packages-missing",
                "2:7: there is no built-in rule \"required-packages-missing\"; did you mean \"required-package-missing\"?"
                    .to_owned(),
            ),
            (
                "like: required-package-missing\n",
                "",
                "1:1: add like: and the id of the built-in rule whose check this rule shares".to_owned(),
            ),
        ] {
            let told = mistake(&RIGHT.replace(right, wrong));
            let told = told.split("; there is api-ended").next().unwrap_or_default();
            assert_eq!(told, said, "{wrong}");
        }
        assert!(mistake(&RIGHT.replace("why:", "wherefore:")).starts_with("9:1: there is no key \"wherefore\""));
    }

    #[test]
    fn a_rule_that_replaces_a_built_in_one_keeps_its_check() {
        let replacing = Rule::read("cupti-absent", YamlText::of(RIGHT), &PHASES);
        assert_eq!(
            replacing.unwrap_err().to_string(),
            "2:7: a rule that replaces cupti-absent keeps its check; remove this line, or rename the file"
        );
        let kept = RIGHT.replace("like: required-package-missing\n", "");
        assert!(Rule::read("required-package-missing", YamlText::of(&kept), &PHASES).is_ok());
    }

    #[test]
    fn a_description_says_values_in_words_if_the_rule_has_them() {
        let rule = Rule::read("x", YamlText::of(RIGHT), &PHASES).unwrap();
        assert_eq!(rule.fix.with_field_names(), "the packages of <environment>");
    }
}
