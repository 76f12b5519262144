//! What a phase may expect of an image: a verdict with its reasons, and the files that stay or may go.

pub mod advice;
pub mod host_notes;
pub mod profilers;
mod retention;
pub mod unmet_need;

pub use retention::PlanItem;

use std::collections::BTreeSet;

use crate::judge::facts::ImageFacts;
use crate::judge::rule::{self, Rule, RuleSubject, Severity};
use crate::knowledge::{Phase, Profiler};

/// Whether an image serves a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It does, with nothing to say but notes.
    Pass,
    /// It does, and something will be missing.
    Warn,
    /// Something could not be checked that may keep it from serving the phase.
    Unknown,
    /// It does not: a rule found an error.
    Fail,
}

impl Verdict {
    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Warn => "warn",
            Self::Unknown => "unknown",
            Self::Fail => "fail",
        }
    }
}

/// What a phase may expect of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The name of the phase.
    pub phase: String,
    /// What is done in it, in one line.
    pub summary: String,
    /// What the gravest finding and the gaps come to.
    pub verdict: Verdict,
    /// The rules whose findings made the verdict what it is.
    pub because: Vec<String>,
    /// The files that the phase speaks of and that stay, by path.
    pub keep: Vec<PlanItem>,
    /// The files that may go: nothing in the image needs them in this phase. By path.
    pub drop: Vec<PlanItem>,
}

impl Plan {
    /// The bytes that stay.
    pub fn keep_bytes(&self) -> u64 {
        self.keep.iter().map(|item| item.bytes).sum()
    }

    /// The bytes that may go.
    pub fn drop_bytes(&self) -> u64 {
        self.drop.iter().map(|item| item.bytes).sum()
    }
}

/// What is known of an image and judged by.
pub struct PlanInput<'a> {
    /// What the image says.
    pub facts: &'a ImageFacts,
    /// All rules, by which every phase is judged.
    pub rules: &'a [Rule],
    /// The subjects of the facts.
    pub subjects: &'a [RuleSubject],
    /// All profiling tools, in the image or not.
    pub profilers: &'a [Profiler],
    /// What the image makes of them.
    pub tools: &'a [profilers::ToolAssessment<'a>],
}

/// Judges what an image may expect of it in `phase`.
pub fn plan_phase(known: &PlanInput<'_>, phase: &Phase) -> Plan {
    let facts = known.facts;
    // What is unmet differs by phase; all other subjects are those of the image.
    let mut subjects = known.subjects.to_vec();
    subjects.extend(unmet_need::find_unmet_needs(facts, known.tools, phase));
    let findings = rule::judge_subjects(known.rules, &subjects, std::slice::from_ref(phase));
    // The findings come with the gravest first.
    let worst = findings.first().map(|finding| finding.severity);
    let verdict = match worst {
        Some(Severity::Error) => Verdict::Fail,
        // An error stands whatever else was not seen; a gap leaves everything below it open.
        _ if !facts.gaps.is_empty() => Verdict::Unknown,
        Some(Severity::Warning) => Verdict::Warn,
        Some(Severity::Note) | None => Verdict::Pass,
    };
    let made_it = findings
        .iter()
        // A note changes no verdict and so is no reason for one.
        .filter(|finding| finding.severity >= Severity::Warning);
    let because: BTreeSet<String> = made_it.map(|finding| finding.rule.clone()).collect();
    let split = retention::split_dead_weight(facts, known.profilers, phase);
    Plan {
        phase: phase.name.clone(),
        summary: phase.summary.clone(),
        verdict,
        because: because.into_iter().collect(),
        keep: split.keep,
        drop: split.drop,
    }
}
