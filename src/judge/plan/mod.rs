//! What a phase may expect of an image: a verdict with its reasons, and the files that stay or may go.

pub mod advice;
mod asked_files;
pub mod host_notes;
mod phase_demand;
pub mod profilers;
mod retention;
mod unmet_need;

pub use phase_demand::{DemandLevel, UnmetDemand};
pub use retention::PlanItem;

use std::collections::BTreeSet;

use serde::Serialize;

use crate::facts::software::related_software::MisnamedLibrary;
use crate::facts::{ImageFacts, opened_object};
use crate::judge::rule::{self, Finding, Rule, RuleSubject, Severity};
use crate::knowledge::{Phase, Profiler};
use image_linkage::path::RootPath;

/// Whether an image serves a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
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
    /// What the phase demands of CUPTI and the image does not give.
    pub unmet: Vec<UnmetDemand>,
    /// Whether the phase uses CUPTI, and a process gets one of another soname than it asks for.
    pub is_misled: bool,
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

    /// Whether CUPTI has to be brought into the image, or led to, for the phase.
    pub fn lacks_cupti(&self, facts: &ImageFacts) -> bool {
        self.is_misled || self.unmet.iter().any(|demand| demand.is_curable(facts))
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

/// Adds to `findings`, those on the image itself, what it does not give `phase`. Where one of them tells the cause, that
/// one is as grave as the demand, and nothing is added.
pub fn add_unmet_needs(known: &PlanInput<'_>, phase: &Phase, unmet: &[UnmetDemand], findings: &mut Vec<Finding>) {
    for finding in package_findings(known, phase, unmet) {
        findings.retain(|other| other.rule != finding.rule || other.locations != finding.locations);
        findings.push(finding);
    }
    let mut untold = Vec::new();
    for demand in unmet {
        match unmet_need::telling_finding(known.facts, known.rules, findings, demand) {
            Some(finding) => finding.severity = finding.severity.max(demand.level.severity()),
            None => untold.push(demand.clone()),
        }
    }
    let needs = unmet_need::need_subjects(known.facts, known.tools, &untold, phase);
    findings.extend(rule::judge_subjects(known.rules, &needs, std::slice::from_ref(phase)));
    rule::sort_findings(findings);
}

/// The packages that list a library which `phase` needs, and no longer have it.
fn package_findings(known: &PlanInput<'_>, phase: &Phase, unmet: &[UnmetDemand]) -> Vec<Finding> {
    let needed = unmet.iter().filter(|demand| demand.level == DemandLevel::Needs);
    let names = needed.flat_map(|demand| demand.missing_libraries(known.facts));
    let names: BTreeSet<Vec<u8>> = names.map(<[u8]>::to_vec).collect();
    let subjects = RuleSubject::of_incomplete_packages(known.facts, &names);
    rule::judge_subjects(known.rules, &subjects, std::slice::from_ref(phase))
}

/// Judges what an image may expect of it in `phase`.
pub fn plan_phase(known: &PlanInput<'_>, phase: &Phase) -> Plan {
    let facts = known.facts;
    let mut findings = rule::judge_subjects(known.rules, known.subjects, std::slice::from_ref(phase));
    let unmet = phase_demand::find_unmet_demands(facts, known.tools, phase);
    add_unmet_needs(known, phase, &unmet, &mut findings);
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
        is_misled: is_misled(facts, phase),
        unmet,
    }
}

/// The files that `phase` has no use for, as the plan of the phase has them.
pub fn unneeded_files(facts: &ImageFacts, profilers: &[Profiler], phase: &Phase) -> Vec<PlanItem> {
    if phase.dead_weight.forbids.is_empty() {
        return Vec::new();
    }
    retention::split_dead_weight(facts, profilers, phase).drop
}

fn is_misled(facts: &ImageFacts, phase: &Phase) -> bool {
    let found = opened_object(&facts.plain.as_is.resolution);
    let is_it =
        |path: &RootPath| found.is_some_and(|object| *path == object.real_path || *path.absolute() == *object.path);
    // A consumer may ask for another name than a plain process, and get it by a link that is not true.
    let is_got = |name: &MisnamedLibrary| {
        let (real, own) = (name.target.as_ref().unwrap_or(&name.path), name.path.name());
        let mut consumers = facts.consumers.iter().map(|consumer| &consumer.outcome.as_is);
        consumers.any(|gets| {
            let by_name = gets.path.as_ref().is_some_and(|path| path.ends_with(own));
            by_name && gets.real_path.as_ref() == Some(real)
        })
    };
    let mut misnamed = facts.related.misnamed.iter();
    phase.apis.accepted_ids().next().is_some() && misnamed.any(|name| is_it(&name.path) || is_got(name))
}
