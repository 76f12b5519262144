//! What a phase needs, wants or forbids and the image does not give it: subjects for rules, so that each reason of
//! a verdict is a finding.

use super::profilers::{ReadinessState, ToolAssessment};
use crate::judge::facts::{ApiAvailability, CuptiProcess, ImageFacts};
use crate::judge::rule::{Evidence, RuleSubject, UnmetNeed};
use crate::knowledge::api::CuptiApi;
use crate::knowledge::{IdChoice, Phase};
use image_linkage::loader::trace_text;

/// How much a phase cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequirementLevel {
    Needs,
    Wants,
    Forbids,
}

impl RequirementLevel {
    fn name(self) -> &'static str {
        match self {
            Self::Needs => "needs",
            Self::Wants => "wants",
            Self::Forbids => "forbids",
        }
    }
}

/// What the image does not give `phase`; `tools` is what is known of profiling tools in it.
pub fn find_unmet_needs(facts: &ImageFacts, tools: &[ToolAssessment<'_>], phase: &Phase) -> Vec<RuleSubject> {
    let mut subjects = Vec::new();
    for (level, wishes, others) in [
        (RequirementLevel::Needs, &phase.apis.needs, &phase.profilers.needs),
        (RequirementLevel::Wants, &phase.apis.wants, &phase.profilers.wants),
    ] {
        let apis = wishes.iter().filter_map(|wish| no_api(facts, wish));
        let tools = others.iter().filter_map(|wish| no_tool(tools, wish));
        subjects.extend(apis.chain(tools).map(|why| subject(phase, level, why)));
    }
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
    subjects.extend(
        usable
            .chain(ready)
            .map(|why| subject(phase, RequirementLevel::Forbids, why)),
    );
    subjects
}

fn subject(phase: &Phase, level: RequirementLevel, need: UnmetNeed) -> RuleSubject {
    RuleSubject::of_unmet_need(&phase.name, level.name(), need)
}

/// Whether a process of the image can use an API.
fn anybody(facts: &ImageFacts, api: &CuptiApi) -> bool {
    let mut askers = facts.apis.iter();
    askers.any(|asker| asker.reach.as_is.usable(&api.id) == ApiAvailability::Yes)
}

/// Why nobody can use the API that is wished for: of several, the first that the release has counts.
fn no_api(facts: &ImageFacts, wish: &IdChoice) -> Option<UnmetNeed> {
    let apis: Vec<&CuptiApi> = wish.ids().iter().filter_map(|id| facts.tables.find_api(id)).collect();
    // A library beside libcupti can be added; an API that the release lacks cannot.
    let in_release = |api: &&&CuptiApi| {
        let mut askers = facts.apis.iter();
        askers.any(|asker| {
            matches!(
                asker.reach.as_is.usable(&api.id),
                ApiAvailability::Yes | ApiAvailability::NoLibrary
            )
        })
    };
    // Where the release has none of them, the last stands for the choice, so that there is a reason to give.
    let api = apis.iter().find(in_release).or(apis.last())?;
    // Where only a run could tell what processes get, a gap says so.
    if anybody(facts, api) || facts.is_open() {
        return None;
    }
    // The process that comes nearest is the one that misses a library alone.
    let nearest = |asker: &&CuptiProcess| asker.reach.as_is.usable(&api.id) == ApiAvailability::NoLibrary;
    let asker = facts.apis.iter().find(nearest).or(facts.apis.first())?;
    let (words, evidence) = reason(facts, asker, api);
    let what = format!("CUPTI's {} API", api.name);
    Some(UnmetNeed { what, words, evidence })
}

/// Why a process cannot use an API, in the loader's words where it has some.
fn reason(facts: &ImageFacts, asker: &CuptiProcess, api: &CuptiApi) -> (String, Vec<Evidence>) {
    let consumer = asker.consumer.and_then(|number| facts.consumers.get(number));
    let who = consumer.map_or("no process", |consumer| &consumer.name);
    let reach = &asker.reach.as_is;
    match reach.usable(&api.id) {
        ApiAvailability::NoLibrary => match reach.missing(api).next() {
            Some(missing) => {
                let lines = trace_text::trace_lines(&missing.trace, &missing.objects);
                let who = consumer.map_or("a process without search paths", |it| &it.name);
                let said = format!("{who} gets libcupti and not the library beside it: {}", missing.message);
                (said, lines.into_iter().map(Evidence::Searched).collect())
            }
            None => (format!("{who} gets what is beside libcupti"), Vec::new()),
        },
        ApiAvailability::NotInRelease => {
            let since = api.since.as_deref().map(|since| format!("; CUDA {since} brought it"));
            (
                format!("the libcupti here has no such API{}", since.unwrap_or_default()),
                Vec::new(),
            )
        }
        // `Yes` does not come here: an API that can be used is not missed.
        ApiAvailability::NoCupti | ApiAvailability::Yes => ("no process gets libcupti".to_owned(), Vec::new()),
    }
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
