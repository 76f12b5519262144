//! The plan for a phase: a verdict with its reasons, and the files to keep or remove.

pub mod advice;
mod asked_files;
pub mod host_notes;
mod phase_demand;
pub mod profilers;
mod retention;
mod unmet_need;

pub use phase_demand::{DemandLevel, UnmetDemand};
pub use retention::PlanItem;
pub use unmet_need::may_fail_phase;

use std::collections::BTreeSet;

use serde::Serialize;

use crate::facts::software::related_software::MisnamedLibrary;
use crate::facts::{ImageFacts, opened_object};
use crate::judge::rule::{self, Finding, Hit, Rule, Severity};
use crate::knowledge::names::names;
use crate::knowledge::{Phase, Profiler};
use image_linkage::path::RootPath;

names! {
    /// Whether an image serves a phase.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    pub enum Verdict {
        /// It does; there are at most notes.
        Pass = "pass",
        /// It does, but something will be missing.
        Warn = "warn",
        /// An unchecked part may keep it from serving the phase.
        Unknown = "unknown",
        /// It does not; a rule reported an error.
        Fail = "fail",
    }
}

/// How an image fits a phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The name of the phase.
    pub phase: String,
    /// A one-line summary of the phase.
    pub summary: String,
    /// The verdict from the highest severity and the gaps.
    pub verdict: Verdict,
    /// The rules whose findings caused the verdict.
    pub because: Vec<String>,
    /// The files to keep among the kinds that the phase mentions, by path.
    pub keep: Vec<PlanItem>,
    /// The removable files, which nothing in the image needs in this phase, by path.
    pub drop: Vec<PlanItem>,
    /// The CUPTI demands of the phase that the image does not meet.
    pub unmet: Vec<UnmetDemand>,
    /// Whether the phase uses CUPTI and a process gets one with another soname than requested.
    pub gets_wrong_soname: bool,
}

impl Plan {
    /// The bytes to keep.
    pub fn keep_bytes(&self) -> u64 {
        self.keep.iter().map(|item| item.bytes).sum()
    }

    /// The removable bytes.
    pub fn drop_bytes(&self) -> u64 {
        self.drop.iter().map(|item| item.bytes).sum()
    }

    /// Whether the phase needs CUPTI installed, or made reachable.
    pub fn lacks_cupti(&self, facts: &ImageFacts) -> bool {
        self.gets_wrong_soname || self.unmet.iter().any(|demand| demand.is_curable(facts))
    }
}

/// The input of the judgement.
pub struct PlanInput<'a> {
    /// The facts of the image.
    pub facts: &'a ImageFacts,
    /// All rules; every phase is judged by all of them.
    pub rules: &'a [Rule],
    /// What the checks find in the facts.
    pub hits: &'a [Hit],
    /// All known profiling tools, in the image or not.
    pub profilers: &'a [Profiler],
    /// The assessments of the tools in this image.
    pub tools: &'a [profilers::ToolAssessment<'a>],
}

/// Adds the unmet needs of `phase` to `findings`. If a finding already tells the cause, its severity is raised to that
/// of the demand instead.
pub fn add_unmet_needs(known: &PlanInput<'_>, phase: &Phase, unmet: &[UnmetDemand], findings: &mut Vec<Finding>) {
    for finding in package_findings(known, phase, unmet) {
        findings.retain(|other| other.rule != finding.rule || other.locations != finding.locations);
        findings.push(finding);
    }
    let mut untold = Vec::new();
    for demand in unmet {
        match unmet_need::telling_finding(known.facts, findings, demand) {
            Some(finding) => finding.severity = finding.severity.max(demand.level.severity()),
            None => untold.push(demand.clone()),
        }
    }
    let needs = unmet_need::find_needs(known.facts, known.tools, &untold, phase);
    findings.extend(rule::judge_hits(known.rules, &needs, std::slice::from_ref(phase)));
    rule::sort_findings(findings);
}

/// Reports packages that list a library which `phase` needs but no longer contain it.
fn package_findings(known: &PlanInput<'_>, phase: &Phase, unmet: &[UnmetDemand]) -> Vec<Finding> {
    let needed = unmet.iter().filter(|demand| demand.level == DemandLevel::Needs);
    let missing = needed.flat_map(|demand| demand.missing_libraries(known.facts));
    let names: BTreeSet<Vec<u8>> = missing.map(<[u8]>::to_vec).collect();
    let hits = rule::incomplete_packages(known.facts, &names);
    rule::judge_hits(known.rules, &hits, std::slice::from_ref(phase))
}

/// Judges how an image fits `phase`.
pub fn plan_phase(known: &PlanInput<'_>, phase: &Phase) -> Plan {
    let facts = known.facts;
    let mut findings = rule::judge_hits(known.rules, known.hits, std::slice::from_ref(phase));
    let unmet = phase_demand::find_unmet_demands(facts, known.tools, phase);
    add_unmet_needs(known, phase, &unmet, &mut findings);
    // The findings are sorted by severity, highest first.
    let worst = findings.first().map(|finding| finding.severity);
    let verdict = match worst {
        Some(Severity::Error) => Verdict::Fail,
        // An error holds despite gaps; anything less is open if there is a gap.
        _ if !facts.gaps.is_empty() => Verdict::Unknown,
        Some(Severity::Warning) => Verdict::Warn,
        Some(Severity::Note) | None => Verdict::Pass,
    };
    let made_it = findings
        .iter()
        // A note never changes a verdict.
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
        gets_wrong_soname: gets_wrong_soname(facts, phase),
        unmet,
    }
}

/// The files that `phase` does not need, as in its plan.
pub fn unneeded_files(facts: &ImageFacts, profilers: &[Profiler], phase: &Phase) -> Vec<PlanItem> {
    if phase.dead_weight.forbids.is_empty() {
        return Vec::new();
    }
    retention::split_dead_weight(facts, profilers, phase).drop
}

fn gets_wrong_soname(facts: &ImageFacts, phase: &Phase) -> bool {
    let found = opened_object(&facts.answers.plain.as_is.resolution);
    let is_it =
        |path: &RootPath| found.is_some_and(|object| *path == object.real_path || *path.absolute() == *object.path);
    // A consumer may request another name than a plain process, and reach the library through a misleading link.
    let is_loaded = |name: &MisnamedLibrary| {
        let (real, own) = (name.target.as_ref().unwrap_or(&name.path), name.path.name());
        facts.answers.consumers.iter().any(|consumer| {
            let file = consumer.outcome.as_is.answer.file();
            file.is_some_and(|file| file.path.ends_with(own) && file.real_path == *real)
        })
    };
    let mut misnamed = facts.related.misnamed.iter();
    phase.apis.accepted_ids().next().is_some() && misnamed.any(|name| is_it(&name.path) || is_loaded(name))
}
