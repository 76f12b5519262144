//! What a phase demands of CUPTI and an image does not give: the one answer behind findings and verdicts, Dockerfiles
//! and images that are made anew.
//!
//! What a program links, or uses no GPU without, every phase demands. Beyond that a phase names APIs and the tools that
//! they are for: each of these tools that is in the image has to get those that it uses, in its own process.

use super::profilers::{ReadinessState, ToolAssessment, built_without, load_failure, program_build};
use crate::facts::{ApiAvailability, CuptiConsumer, CuptiProcess, ImageFacts, ProgramBuild};
use crate::judge::rule::Evidence;
use crate::knowledge::api::CuptiApi;
use crate::knowledge::{IdChoice, Phase, Profiler};
use image_linkage::loader::trace_lines;

/// How much a phase cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DemandLevel {
    /// Something is missing without it.
    Wants,
    /// The image does not serve the phase without it.
    Needs,
}

/// What one process does not get of CUPTI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnmetDemand {
    /// The gravest of its APIs' levels.
    pub level: DemandLevel,
    /// The consumer whose process it is, by number; `None` where any process would do and none gets it.
    pub consumer: Option<usize>,
    /// The APIs; none for a program that is lost without libcupti, whatever the phase.
    pub apis: Vec<&'static CuptiApi>,
    /// What keeps the process from them: no libcupti, one without the API, or no library beside it.
    pub cause: ApiAvailability,
    /// Why, in the loader's words where it has some.
    pub words: String,
    /// The steps of the loader's search.
    pub evidence: Vec<Evidence>,
    /// Whether the program was built without CUPTI, so that only another build of it has the APIs.
    pub needs_other_build: bool,
}

/// A tool that the phase serves and that is in the image.
struct ServedTool<'a> {
    profiler: &'a Profiler,
    /// Those through which it gets CUPTI; none where CUPTI is part of its program.
    processes: Vec<&'a CuptiProcess>,
    /// Its program, where that was built without CUPTI.
    built_without: Option<&'a ProgramBuild>,
}

/// What `phase` demands of CUPTI and no process that it is for gets; `tools` is what the image makes of all tools.
pub(super) fn find_unmet_demands(facts: &ImageFacts, tools: &[ToolAssessment<'_>], phase: &Phase) -> Vec<UnmetDemand> {
    let served = served_tools(facts, tools, phase);
    let programs = facts.apis.iter().filter_map(|process| lost_program(facts, process));
    let mut unmet: Vec<UnmetDemand> = programs.collect();
    let may_do = |it: &&CuptiProcess| may_serve(facts, tools, phase, it);
    let mut anybody: Vec<&CuptiProcess> = facts.apis.iter().filter(may_do).collect();
    // What a process of nobody's gets is no comfort to the programs that ask.
    let asks = |it: &&CuptiProcess| consumer_of(facts, it).is_some_and(|consumer| consumer.unreachable().is_none());
    if anybody.iter().any(asks) {
        anybody.retain(asks);
    }
    for (level, wishes) in [
        (DemandLevel::Needs, &phase.apis.needs),
        (DemandLevel::Wants, &phase.apis.wants),
    ] {
        for wish in wishes {
            unmet.extend(of_wish(facts, &served, &anybody, wish, level));
        }
    }
    merge(unmet)
}

fn consumer_of<'f>(facts: &'f ImageFacts, process: &CuptiProcess) -> Option<&'f CuptiConsumer> {
    facts.consumers.get(process.consumer?)
}

/// A program that cannot be loaded, or uses no GPU, for want of libcupti.
fn lost_program(facts: &ImageFacts, process: &CuptiProcess) -> Option<UnmetDemand> {
    let consumer = consumer_of(facts, process).filter(|consumer| consumer.required.breaks_program())?;
    // What else it lacks no CUPTI cures.
    consumer.misses_functions().then(|| UnmetDemand {
        level: DemandLevel::Needs,
        consumer: process.consumer,
        apis: Vec::new(),
        cause: ApiAvailability::NoCupti,
        words: no_cupti(facts, process),
        evidence: Vec::new(),
        needs_other_build: false,
    })
}

fn served_tools<'a>(facts: &'a ImageFacts, tools: &[ToolAssessment<'a>], phase: &Phase) -> Vec<ServedTool<'a>> {
    let is_served = |entry: &&ToolAssessment<'_>| {
        phase.serves.contains(&entry.profiler.id) && entry.here.as_is.state != ReadinessState::NotApplicable
    };
    let served = tools.iter().filter(is_served).map(|entry| {
        let of_tool = |process: &&CuptiProcess| {
            consumer_of(facts, process)
                .is_some_and(|consumer| consumer.unreachable().is_none() && runs_tool(consumer, entry.profiler, tools))
        };
        let processes: Vec<&CuptiProcess> = facts.apis.iter().filter(of_tool).collect();
        let profiler = entry.profiler;
        let built_without = build_without(facts, profiler).filter(|_| processes.is_empty());
        // A wheel with CUPTI linked into it asks for nothing, and its profiler works, or may.
        let says_so = || program_of(facts, profiler).is_some_and(|build| build.has_library);
        let is_inside = entry.here.as_is.state == ReadinessState::Unknown || says_so();
        (is_inside || built_without.is_some() || !processes.is_empty()).then_some(ServedTool {
            profiler,
            processes,
            built_without,
        })
    });
    let served: Vec<ServedTool<'a>> = served.flatten().collect();
    if served.is_empty() {
        builds_for_cpus(facts, tools, phase)
    } else {
        served
    }
}

/// The tools of programs that were built without CUDA: a phase misses them where the image has no other.
fn builds_for_cpus<'a>(facts: &'a ImageFacts, tools: &[ToolAssessment<'a>], phase: &Phase) -> Vec<ServedTool<'a>> {
    let served = tools.iter().filter(|entry| phase.serves.contains(&entry.profiler.id));
    let without = served.filter_map(|entry| {
        let built_without = Some(build_without(facts, entry.profiler)?);
        let (profiler, processes) = (entry.profiler, Vec::new());
        Some(ServedTool {
            profiler,
            processes,
            built_without,
        })
    });
    without.collect()
}

/// How the program of a tool was built, where it says it.
fn program_of<'f>(facts: &'f ImageFacts, tool: &Profiler) -> Option<&'f ProgramBuild> {
    program_build(facts, tool.profile.consumer.as_ref()?)
}

/// The same of one that was built without CUPTI.
fn build_without<'f>(facts: &'f ImageFacts, tool: &Profiler) -> Option<&'f ProgramBuild> {
    program_of(facts, tool).filter(|build| !build.has_library)
}

/// Whether a tool gets CUPTI through this program. A tool without a program of its own stands for all programs of which
/// no tool is known.
fn runs_tool(consumer: &CuptiConsumer, tool: &Profiler, tools: &[ToolAssessment<'_>]) -> bool {
    match &tool.profile.consumer {
        Some(program) => consumer.profile.as_ref() == Some(program),
        None => is_own_program(consumer, tools),
    }
}

fn is_own_program(consumer: &CuptiConsumer, tools: &[ToolAssessment<'_>]) -> bool {
    let mut programs = tools
        .iter()
        .filter_map(|entry| entry.profiler.profile.consumer.as_ref());
    !programs.any(|program| consumer.profile.as_ref() == Some(program))
}

/// Whether a process may be the one that gets an API where no tool in particular has to: a plain one, one of an own
/// program, or that of a tool that the phase serves.
fn may_serve(facts: &ImageFacts, tools: &[ToolAssessment<'_>], phase: &Phase, process: &CuptiProcess) -> bool {
    let Some(consumer) = consumer_of(facts, process).filter(|_| !phase.serves.is_empty()) else {
        return true;
    };
    let mut served = tools.iter().filter(|entry| phase.serves.contains(&entry.profiler.id));
    is_own_program(consumer, tools) || served.any(|entry| runs_tool(consumer, entry.profiler, tools))
}

fn of_wish(
    facts: &ImageFacts,
    served: &[ServedTool<'_>],
    anybody: &[&CuptiProcess],
    wish: &IdChoice,
    level: DemandLevel,
) -> Vec<UnmetDemand> {
    let uses = |ids: &[String]| wish.ids().iter().any(|id| ids.contains(id));
    let outright = served.iter().filter(|tool| uses(&tool.profiler.profile.apis));
    let of_tool = |tool: &ServedTool<'_>| match tool.built_without {
        Some(build) => lack_of_build(facts, build, wish, level),
        None => lack(facts, &tool.processes, wish, level),
    };
    let mut unmet: Vec<Option<UnmetDemand>> = outright.map(of_tool).collect();
    let is_used = !unmet.is_empty();
    // Which options an own program uses nobody knows.
    let optional = served
        .iter()
        .filter(|tool| tool.profiler.profile.consumer.is_some() && uses(&tool.profiler.profile.optional_apis));
    let of_options = optional.map(|tool| lack(facts, &tool.processes, wish, DemandLevel::Wants));
    unmet.extend(of_options);
    if unmet.is_empty() || (level == DemandLevel::Needs && !is_used) {
        unmet.push(lack(facts, anybody, wish, level));
    }
    unmet.into_iter().flatten().collect()
}

/// What a program lacks that was built without CUPTI.
fn lack_of_build(facts: &ImageFacts, build: &ProgramBuild, wish: &IdChoice, level: DemandLevel) -> Option<UnmetDemand> {
    Some(UnmetDemand {
        level,
        consumer: None,
        apis: vec![facts.tables.find_api(wish.ids().first()?)?],
        cause: ApiAvailability::NotInRelease,
        words: built_without(build),
        evidence: Vec::new(),
        needs_other_build: true,
    })
}

/// What keeps all of the processes from an API that is wished for: of several, the first that the release has counts.
fn lack(facts: &ImageFacts, processes: &[&CuptiProcess], wish: &IdChoice, level: DemandLevel) -> Option<UnmetDemand> {
    let apis: Vec<&'static CuptiApi> = wish.ids().iter().filter_map(|id| facts.tables.find_api(id)).collect();
    let comes_to = |process: &&CuptiProcess, api: &CuptiApi| process.reach.as_is.usable(&api.id);
    // A library beside libcupti can be added; an API that the release lacks cannot.
    let in_release = |api: &&&CuptiApi| {
        let has = |it: &&CuptiProcess| matches!(comes_to(it, api), ApiAvailability::Yes | ApiAvailability::NoLibrary);
        processes.iter().any(has)
    };
    // Where the release has none of them, the last stands for the choice, so that there is a reason to give.
    let api = *apis.iter().find(in_release).or(apis.last())?;
    if processes.iter().any(|it| comes_to(it, api) == ApiAvailability::Yes) {
        return None;
    }
    // Where only a run could tell what a process gets, a gap says so.
    let is_open = |it: &&CuptiProcess| match consumer_of(facts, it) {
        Some(consumer) => consumer.open.is_some(),
        None => facts.status_is_open.is_some() || facts.command_is_undecided(),
    };
    if processes.iter().any(is_open) {
        return None;
    }
    // The first of those that come nearest: one misses a library alone, another has a libcupti without the API.
    let process = *processes.iter().rev().max_by_key(|it| comes_to(it, api))?;
    let cause = comes_to(&process, api);
    // The CUDA of the image decides which CUPTI fits it: nothing brings an API that this one does not have.
    if cause == ApiAvailability::NotInRelease && level == DemandLevel::Wants {
        return None;
    }
    let (words, evidence) = reason(facts, process, api, cause);
    Some(UnmetDemand {
        level,
        consumer: process.consumer,
        apis: vec![api],
        cause,
        words,
        evidence,
        needs_other_build: false,
    })
}

/// Why a process cannot use an API, in the loader's words where it has some.
fn reason(
    facts: &ImageFacts,
    process: &CuptiProcess,
    api: &CuptiApi,
    cause: ApiAvailability,
) -> (String, Vec<Evidence>) {
    let consumer = consumer_of(facts, process);
    let who = consumer.map_or("a process without search paths", |consumer| &consumer.name);
    match cause {
        ApiAvailability::NoLibrary => match process.reach.as_is.missing(api).next() {
            Some(missing) => {
                let lines = trace_lines(&missing.trace, &missing.objects);
                let said = format!("{who} gets libcupti and not the library beside it: {}", missing.message);
                (said, lines.into_iter().map(Evidence::Searched).collect())
            }
            None => (format!("{who} gets what is beside libcupti"), Vec::new()),
        },
        ApiAvailability::NotInRelease => (format!("{who} gets a libcupti without it"), Vec::new()),
        ApiAvailability::NoCupti | ApiAvailability::Yes => (no_cupti(facts, process), Vec::new()),
    }
}

fn no_cupti(facts: &ImageFacts, process: &CuptiProcess) -> String {
    match consumer_of(facts, process) {
        Some(consumer) => {
            let words = load_failure(&consumer.outcome.as_is).unwrap_or_default();
            format!("{} does not get libcupti: {words}", consumer.name)
        }
        None if facts.apis.iter().any(|other| other.reach.as_is.cupti.is_some()) => {
            "a program that opens libcupti by its name does not get it".to_owned()
        }
        None => "no process gets libcupti".to_owned(),
    }
}

/// What is unmet in one process for one reason is one demand.
fn merge(all: Vec<UnmetDemand>) -> Vec<UnmetDemand> {
    let mut merged: Vec<UnmetDemand> = Vec::new();
    for demand in all {
        // Where no process at all gets libcupti, the one that has to get it says why.
        let is_nobody = demand.consumer.is_none() && demand.cause == ApiAvailability::NoCupti;
        let same = |other: &&mut UnmetDemand| {
            (other.consumer == demand.consumer && other.words == demand.words)
                || (is_nobody && other.cause == ApiAvailability::NoCupti)
        };
        let Some(same) = merged.iter_mut().find(same) else {
            merged.push(demand);
            continue;
        };
        same.level = same.level.max(demand.level);
        for api in demand.apis {
            if !same.apis.contains(&api) {
                same.apis.push(api);
            }
        }
    }
    merged
}

impl UnmetDemand {
    /// Whether bringing CUPTI into the image can meet it: who asks for a relative path looks wherever it is started.
    pub fn is_curable(&self, facts: &ImageFacts) -> bool {
        let consumer = self.consumer.and_then(|number| facts.consumers.get(number));
        let is_relative = |wants: &[u8]| wants.contains(&b'/') && !wants.starts_with(b"/");
        // Nor does it help who ends before.
        !self.needs_other_build
            && !consumer.is_some_and(|consumer| is_relative(&consumer.wants) || consumer.start_failure().is_some())
    }

    /// The libraries beside libcupti that its APIs need and its process does not get.
    pub(super) fn missing_libraries<'f>(&'f self, facts: &'f ImageFacts) -> impl Iterator<Item = &'f [u8]> {
        let processes = facts.apis.iter().filter(|process| process.consumer == self.consumer);
        let processes = processes.filter(|_| self.cause == ApiAvailability::NoLibrary);
        let missing = processes.flat_map(|process| self.apis.iter().flat_map(|api| process.reach.as_is.missing(api)));
        missing.map(|companion| &*companion.name)
    }

    /// The APIs as the object of a sentence.
    pub fn api_words(&self) -> String {
        let names: Vec<&str> = self.apis.iter().map(|api| &*api.name).collect();
        match names.as_slice() {
            [] => "libcupti".to_owned(),
            [one] => format!("CUPTI's {one} API"),
            [most @ .., last] => format!("CUPTI's {} and {last} APIs", most.join(", ")),
        }
    }
}
