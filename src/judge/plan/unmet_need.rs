//! Finds the unmet needs and broken prohibitions of a phase, so that each reason of a verdict is a finding.

use super::phase_demand::{DemandLevel, UnmetDemand};
use super::profilers::{ReadinessState, ToolAssessment};
use crate::facts::{ApiAvailability, ImageFacts};
use crate::judge::rule::{Evidence, Explains, Finding, Hit, Rule, RuleCure, Severity, Shown};
use crate::knowledge::api::CuptiApi;
use crate::knowledge::{IdChoice, Phase};

impl DemandLevel {
    /// The severity of a finding that explains why the demand is not met.
    pub(super) fn severity(self) -> Severity {
        match self {
            Self::Needs => Severity::Error,
            Self::Wants => Severity::Warning,
        }
    }

    /// The key of a phase's file.
    fn name(self) -> &'static str {
        match self {
            Self::Needs => "needs",
            Self::Wants => "wants",
        }
    }
}

/// Something that a phase needs, wants or forbids, but the image does not satisfy.
struct UnmetNeed {
    /// The display name of the API or tool.
    what: String,
    /// Why it cannot be used, or that a forbidden one can be used.
    words: String,
    /// The loader's search, if one failed.
    evidence: Vec<Evidence>,
    /// Whether only another build of the program has it.
    other_build: bool,
}

impl UnmetNeed {
    /// The hit for a phase; `level` is the key in the phase's file: `needs`, `wants` or `forbids`.
    fn hit(self, phase: &Phase, level: &'static str) -> Hit {
        let rule = if self.other_build {
            "built-without-cupti"
        } else {
            "phase-need-unmet"
        };
        Hit::new(rule)
            .value("phase", Shown::known(phase.name.clone()))
            .value("level", level)
            .value("what", Shown::known(self.what))
            .value("why", Shown::known(self.words))
            .raise_if("needed", level == DemandLevel::Needs.name())
            .shown_by(self.evidence)
    }
}

/// The unmet needs of `phase`; `tools` are the assessments of the profiling tools.
pub(super) fn find_needs(
    facts: &ImageFacts,
    tools: &[ToolAssessment<'_>],
    demands: &[UnmetDemand],
    phase: &Phase,
) -> Vec<Hit> {
    let mut hits = Vec::new();
    // A separate rule covers programs that fail in every phase.
    let of_apis = demands.iter().filter(|demand| !demand.apis.is_empty());
    for demand in join_causes(of_apis) {
        let level = demand.level.name();
        let need = UnmetNeed {
            what: demand.api_words(),
            words: demand.words,
            evidence: demand.evidence,
            other_build: demand.needs_other_build,
        };
        hits.push(need.hit(phase, level));
    }
    for (level, wishes) in [
        (DemandLevel::Needs, &phase.profilers.needs),
        (DemandLevel::Wants, &phase.profilers.wants),
    ] {
        let needs = wishes.iter().filter_map(|wish| no_tool(tools, wish));
        hits.extend(needs.map(|need| need.hit(phase, level.name())));
    }
    hits.extend(forbidden(facts, tools, phase));
    hits
}

/// Merges demands with the same cause: one missing companion library can block several APIs in every program.
fn join_causes<'d>(demands: impl Iterator<Item = &'d UnmetDemand>) -> Vec<UnmetDemand> {
    let mut joined: Vec<UnmetDemand> = Vec::new();
    for demand in demands {
        let is_alike = |other: &&mut UnmetDemand| {
            other.cause == demand.cause
                && other.level == demand.level
                && other.needs_other_build == demand.needs_other_build
        };
        let Some(same) = joined.iter_mut().find(is_alike) else {
            joined.push(demand.clone());
            continue;
        };
        same.apis.extend(
            demand
                .apis
                .iter()
                .filter(|api| !same.apis.contains(api))
                .copied()
                .collect::<Vec<_>>(),
        );
        if !same.words.split("; ").any(|words| *words == demand.words) {
            same.words = format!("{}; {}", same.words, demand.words);
            same.evidence.extend(demand.evidence.iter().cloned());
        }
    }
    joined
}

/// The things that the phase forbids and the image provides.
fn forbidden(facts: &ImageFacts, tools: &[ToolAssessment<'_>], phase: &Phase) -> Vec<Hit> {
    let apis = phase.apis.forbids.iter().filter_map(|id| facts.tables.find_api(id));
    let usable = apis.filter(|api| anybody(facts, api)).map(|api| UnmetNeed {
        what: format!("CUPTI's {} API", api.name),
        words: "it can be used here".to_owned(),
        evidence: Vec::new(),
        other_build: false,
    });
    let forbidden_tools = tools.iter().filter(|entry| {
        phase.profilers.forbids.contains(&entry.profiler.id) && entry.here.as_is.state == ReadinessState::Ready
    });
    let ready = forbidden_tools.map(|entry| UnmetNeed {
        what: entry.profiler.profile.name.clone(),
        words: "it is ready here".to_owned(),
        evidence: Vec::new(),
        other_build: false,
    });
    usable.chain(ready).map(|need| need.hit(phase, "forbids")).collect()
}

/// Whether any process of the image can use an API.
fn anybody(facts: &ImageFacts, api: &CuptiApi) -> bool {
    let mut processes = facts.answers.apis.iter();
    processes.any(|process| process.reach.as_is.usable(&api.id) == ApiAvailability::Yes)
}

/// Whether findings of `rule` with this usual severity become errors if they are why `phase` fails, see
/// [`telling_finding`].
pub fn may_fail_phase(rule: &Rule, phase: &Phase, usual: Option<Severity>) -> bool {
    let is_about = match rule.explains {
        Some(Explains::Image | Explains::Copy | Explains::Link) => usual >= Some(Severity::Warning),
        Some(Explains::Program) => usual.is_some(),
        _ => false,
    };
    is_about && rule.cured_by == Some(RuleCure::InstallCupti) && !phase.apis.needs.is_empty()
}

/// The finding of the highest severity that explains a demand, so that one cause is one finding.
pub(super) fn telling_finding<'f>(
    facts: &ImageFacts,
    findings: &'f mut [Finding],
    demand: &UnmetDemand,
) -> Option<&'f mut Finding> {
    let consumer = demand.consumer.and_then(|number| facts.answers.consumers.get(number));
    let is_of_object = |finding: &Finding| {
        let mut places = finding.locations.iter();
        consumer.is_none_or(|consumer| places.any(|place| place.path == consumer.object))
    };
    let tells = |finding: &&mut Finding| {
        // A finding below error explains the demand only if installing CUPTI fixes it.
        let is_cause = finding.severity == Severity::Error || finding.cured_by == Some(RuleCure::InstallCupti);
        let is_grave = finding.severity >= Severity::Warning;
        let is_about = match finding.explains {
            Some(Explains::Image | Explains::Copy) => is_grave,
            Some(Explains::Link) => is_grave && consumer.is_none(),
            // The program that would load it does not start.
            Some(Explains::Command) => {
                let mut consumers = facts.answers.consumers.iter();
                match consumer {
                    Some(consumer) => facts.ends_with_command(consumer),
                    None => consumers.any(|consumer| facts.ends_with_command(consumer)),
                }
            }
            Some(Explains::Program | Explains::Start) => is_of_object(finding),
            _ => false,
        };
        let is_package = finding.explains == Some(Explains::Package) && {
            let mut packages = facts.related.incomplete.iter();
            let package = packages.find(|package| finding.locations.iter().any(|place| place.path == package.list));
            let lacks = |name: &[u8]| package.is_some_and(|package| package.lacks(name));
            demand.missing_libraries(facts).any(lacks)
        };
        is_package || (demand.cause == ApiAvailability::NoCupti && is_cause && is_about)
    };
    findings.iter_mut().find(tells)
}

/// Why no requested tool works here. Tools that are not applicable do not count.
fn no_tool(tools: &[ToolAssessment<'_>], wish: &IdChoice) -> Option<UnmetNeed> {
    let wished: Vec<&ToolAssessment<'_>> = tools
        .iter()
        .filter(|entry| wish.ids().contains(&entry.profiler.id))
        .filter(|entry| entry.here.as_is.state != ReadinessState::NotApplicable)
        .collect();
    // Only the unchanged image counts: do not rely on the container runtime to repair a cache.
    let works = |entry: &&&ToolAssessment<'_>| entry.here.as_is.state == ReadinessState::Ready;
    if wished.iter().any(|entry| works(&entry)) {
        return None;
    }
    // If several fail, the first tool in file order provides the reason.
    let entry = wished.first()?;
    Some(UnmetNeed {
        what: entry.profiler.profile.name.clone(),
        words: entry.here.as_is.because.join("; "),
        evidence: Vec::new(),
        other_build: false,
    })
}
