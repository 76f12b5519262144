//! What an audit comes to: its findings and plans, and the exit code.

use super::plan::profilers::ToolReadiness;
use super::plan::{Plan, Verdict};
use super::rule::{Finding, Severity};
use crate::facts::ImageFacts;
use crate::facts::object_links::ObjectLinks;

/// An audited image: the facts and what the rules say of them.
pub struct AuditedImage {
    /// What was found in its layers, and the gaps.
    pub facts: ImageFacts,
    /// The findings, the gravest first; those that are suppressed come last.
    pub findings: Vec<Finding>,
    /// The phases that were asked for.
    pub phases: Vec<String>,
    /// What each phase may expect of the image, asked for or not.
    pub plans: Vec<Plan>,
    /// The command that writes what makes the image serve a phase that fails, where one was looked for and found.
    pub mended_by: Option<String>,
    /// The tools that were asked for and their states.
    pub tools: Vec<AskedTool>,
    /// What the objects of the image lack, where that was asked in place of all else.
    pub links: Option<ObjectLinks>,
    /// Whether an answer that rests on assumptions counts as open.
    pub is_strict: bool,
    /// The lowest severity that fails the run.
    pub fail_on: FailOn,
}

/// How sure a verdict is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum VerdictLevel {
    /// Every environment gets the same answer, and nothing is assumed.
    Proved,
    /// The same, if the listed assumptions hold.
    Assumed,
    /// The image does not decide it.
    Open,
}

impl VerdictLevel {
    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Proved => "proved",
            Self::Assumed => "assumed",
            Self::Open => "open",
        }
    }
}

/// A profiling tool that a run was asked about.
pub struct AskedTool {
    /// The stem of its profile's file.
    pub id: String,
    /// Its name in sentences.
    pub name: String,
    /// Whether it would work in the image as it is, and why.
    pub readiness: ToolReadiness,
}

/// An image that could not be audited.
pub struct UnreadImage {
    /// The image as the user named it.
    pub image: String,
    /// The error, in a sentence.
    pub why: String,
}

/// From which severity on a finding fails the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailOn {
    /// Findings of this severity or a graver one.
    Severity(Severity),
    /// No finding fails the run, and no gap.
    Never,
}

/// What a run comes to; the number is the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunExit {
    /// Nothing at or above the threshold.
    Clean = 0,
    /// At least one finding at or above the threshold.
    Findings = 1,
    /// It could not be done, or gaps leave the verdict open.
    Open = 2,
}

impl Default for FailOn {
    fn default() -> Self {
        Self::Severity(Severity::Error)
    }
}

impl FailOn {
    /// The name used on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Severity(severity) => severity.name(),
            Self::Never => "never",
        }
    }

    /// Whether a finding fails the run; one that is suppressed does not.
    pub fn fails(self, finding: &Finding) -> bool {
        match self {
            Self::Severity(threshold) => finding.suppressed.is_none() && finding.severity >= threshold,
            // Who wants the report alone gets no failure, whatever it says.
            Self::Never => false,
        }
    }
}

impl RunExit {
    /// What the exit code says.
    pub fn words(self) -> &'static str {
        match self {
            Self::Clean => "no finding at or above the threshold",
            Self::Findings => "findings",
            Self::Open => "it could not be done, or something could not be checked",
        }
    }
}

impl AuditedImage {
    /// The plan of a phase.
    pub fn plan(&self, phase: &str) -> Option<&Plan> {
        self.plans.iter().find(|plan| plan.phase == phase)
    }

    /// What this audit comes to. A gap keeps a run from passing, never from failing.
    pub fn exit(&self) -> RunExit {
        self.exit_at(self.fail_on)
    }

    /// The same for another threshold.
    pub fn exit_at(&self, fail_on: FailOn) -> RunExit {
        let fails = self.findings.iter().any(|finding| fail_on.fails(finding));
        // What was found does not go away by what was not seen.
        match () {
            // But a layer that was not read may take away what was found, or bring what was missed.
            () if self.facts.unread.is_some() && fail_on != FailOn::Never => RunExit::Open,
            () if self.is_strict && !self.facts.assumptions.is_empty() && fail_on != FailOn::Never => RunExit::Open,
            () if fails => RunExit::Findings,
            () if !self.facts.gaps.is_empty() && fail_on != FailOn::Never => RunExit::Open,
            () => RunExit::Clean,
        }
    }

    /// Whether the image does not decide the answer, whatever is assumed.
    pub(super) fn is_undecided(&self) -> bool {
        let facts = &self.facts;
        facts.unread.is_some() || !facts.gaps.is_empty() || facts.is_open()
    }

    /// How sure the verdict is.
    pub fn level(&self) -> VerdictLevel {
        let facts = &self.facts;
        match () {
            () if self.is_undecided() => VerdictLevel::Open,
            () if facts.assumptions.is_empty() => VerdictLevel::Proved,
            () if self.is_strict => VerdictLevel::Open,
            () => VerdictLevel::Assumed,
        }
    }

    /// The findings that no suppression is for.
    pub fn counting(&self) -> impl Iterator<Item = &Finding> {
        let findings = self.findings.iter();
        findings.filter(|finding| finding.suppressed.is_none())
    }

    /// How many of these are of a severity.
    pub fn count(&self, severity: Severity) -> usize {
        let findings = self.counting().filter(|finding| finding.severity == severity);
        findings.count()
    }

    /// How many errors a suppression is for.
    pub fn suppressed_errors(&self) -> usize {
        let errors = self
            .findings
            .iter()
            .filter(|finding| finding.severity == Severity::Error);
        errors.filter(|finding| finding.suppressed.is_some()).count()
    }

    /// How many findings a suppression is for.
    pub fn suppressed_count(&self) -> usize {
        self.findings.len() - self.counting().count()
    }

    /// The phases that were asked for; all where none was.
    pub fn asked_plans(&self) -> impl Iterator<Item = &Plan> {
        let is_asked = |plan: &&Plan| self.phases.is_empty() || self.phases.contains(&plan.phase);
        self.plans.iter().filter(is_asked)
    }

    /// Those of them that fail.
    pub fn failed_plans(&self) -> impl Iterator<Item = &Plan> {
        self.asked_plans().filter(|plan| plan.verdict == Verdict::Fail)
    }
}
