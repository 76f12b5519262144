//! What a phase needs, wants or forbids and the image does not give it: subjects for rules, so that each reason of
//! a verdict is a finding.

use super::phase_demand::{DemandLevel, UnmetDemand};
use super::profilers::{ReadinessState, ToolAssessment};
use crate::judge::facts::{ApiAvailability, ImageFacts};
use crate::judge::rule::{Finding, Rule, RuleSubject, Severity, SubjectKind, UnmetNeed};
use crate::knowledge::api::CuptiApi;
use crate::knowledge::{IdChoice, Phase};

impl DemandLevel {
    /// The key of a phase's file.
    fn name(self) -> &'static str {
        match self {
            Self::Needs => "needs",
            Self::Wants => "wants",
        }
    }
}

/// What the image does not give `phase`; `tools` is what is known of profiling tools in it.
pub(super) fn need_subjects(
    facts: &ImageFacts,
    tools: &[ToolAssessment<'_>],
    demands: &[UnmetDemand],
    phase: &Phase,
) -> Vec<RuleSubject> {
    // A program that is lost in every phase is the finding of a rule of its own.
    let of_apis = demands.iter().filter(|demand| !demand.apis.is_empty());
    let mut subjects: Vec<RuleSubject> = of_apis
        .map(|demand| {
            let need = UnmetNeed {
                what: demand.api_words(),
                words: demand.words.clone(),
                evidence: demand.evidence.clone(),
            };
            RuleSubject::of_unmet_need(&phase.name, demand.level.name(), need)
        })
        .collect();
    for (level, wishes) in [
        (DemandLevel::Needs, &phase.profilers.needs),
        (DemandLevel::Wants, &phase.profilers.wants),
    ] {
        let tools = wishes.iter().filter_map(|wish| no_tool(tools, wish));
        subjects.extend(tools.map(|need| RuleSubject::of_unmet_need(&phase.name, level.name(), need)));
    }
    subjects.extend(forbidden(facts, tools, phase));
    subjects
}

/// What the phase forbids and the image serves.
fn forbidden(facts: &ImageFacts, tools: &[ToolAssessment<'_>], phase: &Phase) -> Vec<RuleSubject> {
    let apis = phase.apis.forbids.iter().filter_map(|id| facts.tables.find_api(id));
    let usable = apis.filter(|api| anybody(facts, api)).map(|api| UnmetNeed {
        what: format!("CUPTI's {} API", api.name),
        words: "it can be used here".to_owned(),
        evidence: Vec::new(),
    });
    let ready = tools.iter().filter(|entry| {
        phase.profilers.forbids.contains(&entry.profiler.id) && entry.here.as_is.state == ReadinessState::Ready
    });
    let ready = ready.map(|entry| UnmetNeed {
        what: entry.profiler.profile.name.clone(),
        words: "it is ready here".to_owned(),
        evidence: Vec::new(),
    });
    let all = usable.chain(ready);
    all.map(|need| RuleSubject::of_unmet_need(&phase.name, "forbids", need))
        .collect()
}

/// Whether a process of the image can use an API.
fn anybody(facts: &ImageFacts, api: &CuptiApi) -> bool {
    let mut askers = facts.apis.iter();
    askers.any(|asker| asker.reach.as_is.usable(&api.id) == ApiAvailability::Yes)
}

/// Whether an error among the findings on the image tells a demand's cause: one finding for one cause.
pub(super) fn is_told(facts: &ImageFacts, rules: &[Rule], findings: &[Finding], demand: &UnmetDemand) -> bool {
    let object = demand.consumer.and_then(|number| facts.consumers.get(number));
    let is_of_object = |finding: &Finding| {
        let mut places = finding.locations.iter();
        object.is_none_or(|consumer| places.any(|place| place.path == consumer.object))
    };
    let tells = |finding: &Finding| {
        let rule = rules.iter().find(|rule| rule.id == finding.rule);
        match (demand.cause, rule.map(|rule| rule.kind)) {
            (ApiAvailability::NoCupti, Some(SubjectKind::Image | SubjectKind::Copy)) => true,
            (ApiAvailability::NoCupti, Some(SubjectKind::DanglingLink)) => object.is_none(),
            (ApiAvailability::NoCupti, Some(SubjectKind::Failure | SubjectKind::Unserved)) => is_of_object(finding),
            _ => false,
        }
    };
    let mut errors = findings.iter().filter(|finding| finding.severity == Severity::Error);
    errors.any(tells)
}

/// Why no tool that is wished for works here. One for which there is nothing to look at is not missed.
fn no_tool(tools: &[ToolAssessment<'_>], wish: &IdChoice) -> Option<UnmetNeed> {
    let wished = tools.iter().filter(|entry| wish.ids().contains(&entry.profiler.id));
    let wished: Vec<&ToolAssessment<'_>> = wished
        .filter(|entry| entry.here.as_is.state != ReadinessState::NotApplicable)
        .collect();
    // The image as it is counts: a cache that the container runtime would repair is not relied on.
    let works = |entry: &&&ToolAssessment<'_>| entry.here.as_is.state == ReadinessState::Ready;
    if wished.iter().any(|entry| works(&entry)) {
        return None;
    }
    // Of several that fail, the first in the order of the tools' files gives the reason.
    let entry = wished.first()?;
    Some(UnmetNeed {
        what: entry.profiler.profile.name.clone(),
        words: entry.here.as_is.because.join("; "),
        evidence: Vec::new(),
    })
}
