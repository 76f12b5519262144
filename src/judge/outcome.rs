//! The result of an audit: findings, plans and the exit code.

use gpu_code::GpuArchitecture;

use super::plan::profilers::ToolReadiness;
use super::plan::{Plan, Verdict};
use super::rule::{Finding, Severity};
use crate::facts::ImageFacts;
use crate::facts::object_links::ObjectLinks;

/// An audited image: its facts, findings and plans.
pub struct AuditedImage {
    /// The facts from its layers, and the gaps.
    pub facts: ImageFacts,
    /// The findings, highest severity first; suppressed ones come last.
    pub findings: Vec<Finding>,
    /// The requested phases.
    pub phases: Vec<String>,
    /// The plan of every phase, requested or not.
    pub plans: Vec<Plan>,
    /// A command that makes the image serve a failing phase, if one was searched for and found.
    pub fixed_by: Option<String>,
    /// The requested tools and their states.
    pub tools: Vec<AskedTool>,
    /// The GPUs that the user or the host named, each architecture once.
    pub gpus: Vec<AskedGpu>,
    /// The unresolved links of the image's objects, if only those were requested.
    pub links: Option<ObjectLinks>,
    /// Whether a verdict that depends on assumptions counts as open.
    pub is_strict: bool,
    /// The lowest severity that fails the run.
    pub fail_on: FailOn,
}

/// How certain a verdict is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum VerdictLevel {
    /// It holds in every environment, without assumptions.
    Proved,
    /// It holds if the listed assumptions hold.
    Assumed,
    /// The image alone does not decide it.
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

/// A GPU that the user or the host named.
pub struct AskedGpu {
    /// The name, as given.
    pub name: String,
    /// Its architecture.
    pub architecture: GpuArchitecture,
}

/// A profiling tool that the user asked about.
pub struct AskedTool {
    /// The stem of its profile's file.
    pub id: String,
    /// Its display name.
    pub name: String,
    /// Whether it would work in the unchanged image, and why.
    pub readiness: ToolReadiness,
    /// Whether it is in the image and uses the image's library.
    pub uses_library: bool,
}

/// An image that could not be audited.
pub struct UnreadImage {
    /// The image as the user named it.
    pub image: String,
    /// The error, as a sentence.
    pub why: String,
}

/// The lowest severity that fails a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailOn {
    /// Findings of this severity or higher fail the run.
    Severity(Severity),
    /// Neither findings nor gaps fail the run.
    Never,
}

/// The result of a run; the number is the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunExit {
    /// No finding at or above the threshold.
    Clean = 0,
    /// At least one finding at or above the threshold.
    Findings = 1,
    /// The run could not be done, or gaps leave the verdict open.
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

    /// Whether a finding fails the run; suppressed ones never do.
    pub fn fails(self, finding: &Finding) -> bool {
        match self {
            Self::Severity(threshold) => finding.suppressed.is_none() && finding.severity >= threshold,
            // `--fail-on never` asks only for the report.
            Self::Never => false,
        }
    }
}

impl RunExit {
    /// The meaning of the exit code.
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

    /// The result of this audit. A gap can keep a run from passing, but not from failing.
    pub fn exit(&self) -> RunExit {
        self.exit_at(self.fail_on)
    }

    /// The result for another threshold.
    pub fn exit_at(&self, fail_on: FailOn) -> RunExit {
        if fail_on == FailOn::Never {
            return RunExit::Clean;
        }
        // An unread layer may remove the cause of a finding, or add one. A gap elsewhere does not invalidate a finding.
        if self.facts.layers.unread.is_some() || self.is_strict && !self.facts.answers.assumptions.is_empty() {
            RunExit::Open
        } else if self.findings.iter().any(|finding| fail_on.fails(finding)) {
            RunExit::Findings
        } else if !self.facts.gaps.is_empty() {
            RunExit::Open
        } else {
            RunExit::Clean
        }
    }

    /// Whether the image leaves the verdict open even under all assumptions.
    pub(super) fn is_undecided(&self) -> bool {
        let facts = &self.facts;
        facts.layers.unread.is_some() || !facts.gaps.is_empty() || facts.is_open()
    }

    /// How certain the verdict is.
    pub fn level(&self) -> VerdictLevel {
        let facts = &self.facts;
        if self.is_undecided() {
            VerdictLevel::Open
        } else if facts.answers.assumptions.is_empty() {
            VerdictLevel::Proved
        } else if self.is_strict {
            VerdictLevel::Open
        } else {
            VerdictLevel::Assumed
        }
    }

    /// The findings that are not suppressed.
    pub fn counting(&self) -> impl Iterator<Item = &Finding> {
        let findings = self.findings.iter();
        findings.filter(|finding| finding.suppressed.is_none())
    }

    /// The number of unsuppressed findings with this severity.
    pub fn count(&self, severity: Severity) -> usize {
        let findings = self.counting().filter(|finding| finding.severity == severity);
        findings.count()
    }

    /// The number of suppressed errors.
    pub fn suppressed_errors(&self) -> usize {
        let errors = self
            .findings
            .iter()
            .filter(|finding| finding.severity == Severity::Error);
        errors.filter(|finding| finding.suppressed.is_some()).count()
    }

    /// The number of suppressed findings.
    pub fn suppressed_count(&self) -> usize {
        self.findings.len() - self.counting().count()
    }

    /// The plans of the requested phases, or of all phases if none was requested.
    pub fn asked_plans(&self) -> impl Iterator<Item = &Plan> {
        let plans = self.plans.iter();
        plans.filter(|plan| self.phases.is_empty() || self.phases.contains(&plan.phase))
    }

    /// Whether the user asks about the library: not if only about tools that do not use the image's.
    pub fn requests_library(&self) -> bool {
        !self.phases.is_empty() || self.tools.is_empty() || self.tools.iter().any(|tool| tool.uses_library)
    }

    /// The requested plans that fail.
    pub fn failed_plans(&self) -> impl Iterator<Item = &Plan> {
        self.asked_plans().filter(|plan| plan.verdict == Verdict::Fail)
    }
}
