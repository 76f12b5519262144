//! A rule that was checked whole, and the severities that it gives.

use std::collections::{BTreeMap, BTreeSet};

use super::field_value::FieldCondition;
use super::subject_kind::{RuleQuestion, SubjectKind};
use super::template::{LIBRARY_FIELDS, MessageTemplate};
use crate::knowledge::library::LibraryProfile;
use crate::knowledge::patterns::matches_name_pattern;
use crate::knowledge::phase::Phase;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know; nothing fails for it.
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

/// A rule that was checked whole.
#[derive(Debug, Clone)]
pub struct Rule {
    /// The stem of its file.
    pub id: String,
    /// What it finds, in one line.
    pub summary: String,
    /// Why that matters, for who has not met it before.
    pub why: String,
    /// What to do against it, filled from the subject as the message is.
    pub fix: MessageTemplate,
    /// Where to read more.
    pub references: Vec<String>,
    /// The one library that it is about; any where none is named.
    pub(crate) library: Option<String>,
    /// What more there is to say of one library, by its id.
    pub(crate) known_of: BTreeMap<String, LibraryWords>,
    /// What `cupti-audit dockerfile` does against its findings; `None` where it leaves them.
    pub cured_by: Option<RuleCure>,
    /// Whether it tells what is wrong with one file, from which other findings follow.
    pub(crate) first_cause: bool,
    /// The severity where no phase was asked for.
    pub severity: Severity,
    /// The severity for each phase; a phase that stands in [`Rule::off`] is left out.
    pub phases: BTreeMap<String, Severity>,
    /// When the rule says nothing.
    pub off: DisabledPhases,
    pub(crate) kind: SubjectKind,
    pub(crate) conditions: Vec<FieldCondition>,
    pub(crate) raise: Vec<SeverityRaise>,
    pub(crate) message: MessageTemplate,
    /// Who fails and why, for the first line of a report.
    pub(crate) verdict: Option<MessageTemplate>,
}

/// What a rule says of one library beside what holds for any.
#[derive(Debug, Clone, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LibraryWords {
    /// Sentences behind the rule's own reason.
    pub(crate) why: String,
    /// What else to do, as the end of a sentence.
    pub(crate) fix: MessageTemplate,
    /// Where to read more of the library.
    pub(crate) references: Vec<String>,
}

impl Rule {
    /// Whether it says something of this library: any rule does that is not for another one, and those that the library's
    /// file names.
    pub(crate) fn is_about(&self, library: &LibraryProfile) -> bool {
        let named = || {
            let mut patterns = library.rules.iter();
            patterns.any(|pattern| matches_name_pattern(self.id.as_bytes(), pattern))
        };
        self.library.as_ref().is_none_or(|own| *own == library.id) || named()
    }

    /// The same with the names of the library in its sentences, and with what is known of that library alone.
    pub(crate) fn in_words_of(&self, library: &LibraryProfile) -> Self {
        let mut rule = self.clone();
        let more = rule.known_of.remove(&library.id).unwrap_or_default();
        if !more.why.is_empty() {
            rule.why = format!("{} {}", rule.why.trim_end(), more.why);
        }
        rule.fix.append("; ", more.fix);
        // First, as a tool that shows one address shows the first.
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
        // `dockerfile` and `slim`, which cure, are for a library whose APIs are known.
        rule.cured_by = rule.cured_by.filter(|_| library.has_apis);
        rule
    }

    /// Whether it is applied where this is asked.
    pub fn answers(&self, question: RuleQuestion) -> bool {
        self.kind.answers(question)
    }

    /// The message with the names of its fields in angle brackets.
    pub fn message_with_fields(&self) -> String {
        self.message.with_field_names()
    }

    /// The name by which the rule speaks of a phase: its own, or that of the phase it is like.
    pub fn severity_phase<'p>(&self, phase: &'p Phase) -> &'p str {
        let name = &phase.name;
        // A user's phase that the rule names has a column of its own, though it is like another.
        let raises = self.raise.iter().any(|raise| raise.phases.contains(name));
        if raises || self.phases.contains_key(name) || self.off.phases.contains(name) {
            name
        } else {
            &phase.like
        }
    }

    /// The conditions that raise the severity, in words, to which one, and for which phases; for all when there are none.
    pub fn raised(&self) -> impl Iterator<Item = (String, Severity, &[String])> {
        self.raise
            .iter()
            .map(|raise| (raise.condition_words(), raise.severity, &*raise.phases))
    }
}

/// A step of a Dockerfile that takes a rule's findings away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleCure {
    /// CUPTI and what it needs come in, or what is there is put on the search path.
    InstallCupti,
    /// `LD_LIBRARY_PATH` is written without empty elements.
    CleanLibraryPath,
}

impl RuleCure {
    /// What the step does, as a sentence of which the program is the subject.
    pub fn words(self) -> &'static str {
        match self {
            Self::InstallCupti => "cupti-audit dockerfile adds CUPTI, or puts the existing copy on the search path",
            Self::CleanLibraryPath => "cupti-audit dockerfile writes LD_LIBRARY_PATH without empty elements",
        }
    }
}

/// When a rule says nothing, whatever it would find.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DisabledPhases {
    /// Where no phase was asked for: what is so of nearly every image, and matters for some purposes only.
    pub unasked: bool,
    /// For these phases, by name.
    pub phases: BTreeSet<String>,
}

/// A severity for subjects that meet more conditions.
#[derive(Debug, Clone)]
pub(crate) struct SeverityRaise {
    pub(crate) conditions: Vec<FieldCondition>,
    pub(crate) severity: Severity,
    /// The phases it holds for; all of them when there are none.
    pub(crate) phases: Vec<String>,
    /// The conditions as the end of a sentence.
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
