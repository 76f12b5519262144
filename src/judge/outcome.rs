//! What an audit comes to: its findings and plans, the verdict in words, and the exit code.

use std::collections::BTreeSet;

use super::plan::profilers::ToolReadiness;
use super::plan::{Plan, Verdict};
use super::rule::{Finding, Severity};
use crate::facts::object_links::ObjectLinks;
use crate::facts::{CuptiConsumer, CuptiStatus, FailureImpact, ImageFacts};

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
}

/// The rule about a container command that does not start.
const COMMAND_RULE: &str = "command-cannot-start";

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
    pub fn exit(&self, fail_on: FailOn) -> RunExit {
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
    fn is_undecided(&self) -> bool {
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

    /// How many findings a suppression is for.
    pub fn suppressed_count(&self) -> usize {
        self.findings.len() - self.counting().count()
    }

    /// The verdict in one line: whether the library is had, and what becomes of known programs that do not get it.
    pub fn verdict(&self) -> String {
        if let Some(links) = &self.links {
            return links.verdict();
        }
        let words = self.unassumed_verdict();
        match self.facts.assumptions.len() {
            0 => words,
            _ if self.is_undecided() => words,
            1 => format!("{words}, if 1 assumption holds"),
            count => format!("{words}, if {count} assumptions hold"),
        }
    }

    fn unassumed_verdict(&self) -> String {
        let words = self.had_and_lost();
        let errors = self.counting().filter(|finding| finding.severity == Severity::Error);
        let mut rules: Vec<&str> = errors.map(|finding| finding.rule.as_str()).collect();
        rules.dedup();
        if rules.contains(&COMMAND_RULE) {
            return format!("the container command does not start; {words}");
        }
        // Else a mark that says "bad" would stand before words that say "good".
        if self.is_had_by_all() && !rules.is_empty() && words == self.library_verdict() {
            return match rules.as_slice() {
                [rule] => format!("{words}, but the image has an error: {rule}"),
                rules => format!("{words}, but the image has errors: {}", rules.join(", ")),
            };
        }
        words
    }

    /// Whether nothing that asks for the library goes without.
    fn is_had_by_all(&self) -> bool {
        let without = self.consumers(|consumer| !consumer.is_served());
        let is_had = match self.facts.status.as_is {
            CuptiStatus::Loadable => true,
            CuptiStatus::Unloadable => !self.consumers(CuptiConsumer::is_served).is_empty(),
            CuptiStatus::HeadersOnly | CuptiStatus::Absent => false,
        };
        is_had && without.is_empty() && self.facts.status_is_open.is_none()
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

    fn had_and_lost(&self) -> String {
        let lost = [
            (FailureImpact::Import, "cannot be loaded"),
            (FailureImpact::Gpu, "would use no GPU"),
            (FailureImpact::Profiling, "would profile without the GPU"),
        ];
        let lost = lost.map(|(impact, words)| (self.lost_programs(impact), words));
        let ended = self.consumers(|consumer| consumer.start_failure().is_some());
        let lost = lost.into_iter().chain([(ended, "cannot start")]);
        let lost = lost.filter(|(names, _)| !names.is_empty());
        lost.fold(self.library_verdict(), |verdict, (names, words)| {
            format!("{verdict}; {names} {words}")
        })
    }

    /// The programs that a phase has to serve, that a profile knows, and that do not get the library.
    fn lost_programs(&self, impact: FailureImpact) -> String {
        let demands = self.plans.iter().flat_map(|plan| &plan.unmet);
        let numbers: BTreeSet<usize> = demands.filter_map(|demand| demand.consumer).collect();
        let consumers = numbers
            .into_iter()
            .filter_map(|number| self.facts.consumers.get(number));
        let lost = consumers.filter(|it| it.required == impact && it.profile.is_some() && it.misses_library());
        let mut names: Vec<&str> = lost.map(|consumer| consumer.name.as_str()).collect();
        names.dedup();
        names.join(", ")
    }

    fn library_verdict(&self) -> String {
        let facts = &self.facts;
        let got = self.consumers(CuptiConsumer::is_served);
        let without = self.consumers(|consumer| !consumer.is_served());
        let name = &facts.library.name;
        match facts.status.as_is {
            _ if facts.status_is_open.is_some() && got.is_empty() => {
                format!("whether {name} is loaded cannot be determined")
            }
            _ if facts.status_is_open.is_some() => {
                format!("{name} is loaded by {got}; whether others load it cannot be determined")
            }
            CuptiStatus::Loadable => format!("{name} can be loaded"),
            // Programs with search paths of their own work where a plain dlopen does not, and they count first.
            CuptiStatus::Unloadable if !got.is_empty() && without.is_empty() => {
                format!("{name} is loaded by {got}; a plain dlopen does not find it")
            }
            CuptiStatus::Unloadable if !got.is_empty() => {
                format!("{name} is loaded by {got}, and not by {without}")
            }
            CuptiStatus::Unloadable if facts.status.nvidia == CuptiStatus::Loadable => {
                format!(
                    "{name} cannot be loaded in the image as it is; it can once the container runtime has run ldconfig"
                )
            }
            // By paths or names that only a run could tell, or after what was opened before.
            CuptiStatus::Unloadable if !facts.undecided.is_empty() => {
                format!("{name} is in the image; whether a program loads it is known only when it runs")
            }
            CuptiStatus::Unloadable if facts.consumers.iter().any(|it| facts.ends_with_command(it)) => {
                format!("{name} is in the image, and no program that asks for it starts")
            }
            CuptiStatus::Unloadable => format!("{name} is in the image and cannot be loaded"),
            CuptiStatus::HeadersOnly => {
                let what = match (facts.headers.is_empty(), facts.dangling.is_empty()) {
                    (true, _) => "links to none",
                    (_, true) => "its headers",
                    _ => "its headers and links to none",
                };
                format!("{name} is not in the image: only {what} are")
            }
            CuptiStatus::Absent => format!("{name} is not in the image"),
        }
    }

    /// The names of the consumers that fit, but for those of which only a run could tell.
    fn consumers(&self, fits: impl Fn(&CuptiConsumer) -> bool) -> String {
        let consumers = self.facts.consumers.iter();
        let mut names: Vec<&str> = consumers
            .filter(|consumer| consumer.open.is_none() && fits(consumer))
            .map(|consumer| consumer.name.as_str())
            .collect();
        // The objects of one program stand side by side.
        names.dedup();
        names.join(", ")
    }
}
