//! A validated rule, and its severities.

use std::collections::{BTreeMap, BTreeSet};

use super::field_value::FieldCondition;
use super::subject_kind::{RuleQuestion, SubjectKind};
use super::template::{LIBRARY_FIELDS, MessageTemplate};
use crate::knowledge::library::LibraryProfile;
use crate::knowledge::patterns::matches_name_pattern;
use crate::knowledge::phase::Phase;

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Information only; nothing fails because of it.
    Note,
    /// Something will be missing.
    Warning,
    /// It will not work.
    Error,
}

impl Severity {
    /// The name used on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// A validated rule.
#[derive(Debug, Clone)]
pub struct Rule {
    /// The stem of its file.
    pub id: String,
    /// A one-line summary of what it finds.
    pub summary: String,
    /// Why that matters, for readers who are new to it.
    pub why: String,
    /// The advice, with fields of the subject filled in as in the message.
    pub fix: MessageTemplate,
    /// Links to more information.
    pub references: Vec<String>,
    /// The only library that it applies to; `None` for any.
    pub(crate) library: Option<String>,
    /// Additional texts for specific libraries, by id.
    pub(crate) known_of: BTreeMap<String, LibraryWords>,
    /// How `cupti-audit dockerfile` fixes its findings; `None` if it does not.
    pub cured_by: Option<RuleCure>,
    /// Whether its findings describe a defect of one file that causes other findings.
    pub(crate) first_cause: bool,
    /// The severity if no phase was requested.
    pub severity: Severity,
    /// The severity for each phase, except those in [`Rule::off`].
    pub phases: BTreeMap<String, Severity>,
    /// When the rule is disabled.
    pub off: DisabledPhases,
    pub(crate) kind: SubjectKind,
    pub(crate) conditions: Vec<FieldCondition>,
    pub(crate) raise: Vec<SeverityRaise>,
    pub(crate) message: MessageTemplate,
    /// The failing program and the reason, for the first line of a report.
    pub(crate) verdict: Option<MessageTemplate>,
}

/// Additional texts of a rule for one library.
#[derive(Debug, Clone, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LibraryWords {
    /// Sentences to append to the rule's reason.
    pub(crate) why: String,
    /// Additional advice, as the end of a sentence.
    pub(crate) fix: MessageTemplate,
    /// Links about the library.
    pub(crate) references: Vec<String>,
}

impl Rule {
    /// Whether it applies to this library: rules for another library apply only if this library's file names them.
    pub(crate) fn is_about(&self, library: &LibraryProfile) -> bool {
        let named = || {
            let mut patterns = library.rules.iter();
            patterns.any(|pattern| matches_name_pattern(self.id.as_bytes(), pattern))
        };
        self.library.as_ref().is_none_or(|own| *own == library.id) || named()
    }

    /// The rule with the library's names and additional texts filled in.
    pub(crate) fn in_words_of(&self, library: &LibraryProfile) -> Self {
        let mut rule = self.clone();
        let more = rule.known_of.remove(&library.id).unwrap_or_default();
        if !more.why.is_empty() {
            rule.why = format!("{} {}", rule.why.trim_end(), more.why);
        }
        rule.fix.append("; ", more.fix);
        // First, because tools that show one link show the first.
        rule.references.splice(0..0, more.references);
        for (field, words) in LIBRARY_FIELDS.into_iter().zip([&library.name, library.file_stem()]) {
            let placeholder = format!("{{{field}}}");
            rule.summary = rule.summary.replace(&placeholder, words);
            rule.why = rule.why.replace(&placeholder, words);
            rule.message.set_field(field, words);
            rule.verdict
                .iter_mut()
                .for_each(|verdict| verdict.set_field(field, words));
            rule.fix.set_field(field, words);
        }
        // The fixes by `dockerfile` and `slim` exist only for a library with known APIs.
        rule.cured_by = rule.cured_by.filter(|_| library.has_apis);
        rule
    }

    /// Whether it applies to this question.
    pub fn answers(&self, question: RuleQuestion) -> bool {
        self.kind.answers(question)
    }

    /// The message with its field names in angle brackets.
    pub fn message_with_fields(&self) -> String {
        self.message.with_field_names()
    }

    /// The phase name that the rule uses: the phase's own, or the one it is like.
    pub fn severity_phase<'p>(&self, phase: &'p Phase) -> &'p str {
        let name = &phase.name;
        // A user's phase that the rule names has its own entry, although it is like another.
        let raises = self.raise.iter().any(|raise| raise.phases.contains(name));
        if raises || self.phases.contains_key(name) || self.off.phases.contains(name) {
            name
        } else {
            &phase.like
        }
    }

    /// The raised severities: the conditions in words, the severity, and the phases, which are all if empty.
    pub fn raised(&self) -> impl Iterator<Item = (String, Severity, &[String])> {
        self.raise
            .iter()
            .map(|raise| (raise.condition_words(), raise.severity, &*raise.phases))
    }
}

/// A Dockerfile step that fixes a rule's findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
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

/// When a rule is disabled, regardless of the image.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DisabledPhases {
    /// Whether it is disabled if no phase was requested. This suits findings that apply to almost every image but
    /// rarely matter.
    pub unasked: bool,
    /// The names of the phases that disable it.
    pub phases: BTreeSet<String>,
}

/// A severity for subjects that meet additional conditions.
#[derive(Debug, Clone)]
pub(crate) struct SeverityRaise {
    pub(crate) conditions: Vec<FieldCondition>,
    pub(crate) severity: Severity,
    /// The phases that it applies to; empty for all.
    pub(crate) phases: Vec<String>,
    /// The conditions, as the end of a sentence.
    pub(crate) words: Option<String>,
}

impl SeverityRaise {
    fn condition_words(&self) -> String {
        let fields = || {
            let words: Vec<String> = self.conditions.iter().map(FieldCondition::to_string).collect();
            words.join(" and ")
        };
        self.words.clone().unwrap_or_else(fields)
    }
}
