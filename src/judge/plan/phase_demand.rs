//! Finds what a phase demands of CUPTI and an image does not provide. Findings, verdicts, Dockerfiles and rebuilt
//! images all use this answer.
//!
//! Every phase demands the libraries that a program links, and those without which it uses no GPU. Beyond that a phase
//! names APIs and tools. Each of these tools in the image must get the APIs that it uses, in its own process.

use super::profilers::{ReadinessState, ToolAssessment, built_without, load_failure, program_build};
use crate::facts::{ApiAvailability, CuptiConsumer, CuptiProcess, ImageFacts, ProgramBuild};
use crate::judge::rule::Evidence;
use crate::knowledge::api::CuptiApi;
use crate::knowledge::{IdChoice, Phase, Profiler};

/// How strongly a phase demands something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DemandLevel {
    /// Without it a feature is missing.
    Wants,
    /// Without it the image does not serve the phase.
    Needs,
}

/// The part of CUPTI that one process lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnmetDemand {
    /// The highest level among its APIs.
    pub level: DemandLevel,
    /// The number of the consumer that runs the process; `None` if any process would do and none gets it.
    pub consumer: Option<usize>,
    /// The APIs; empty for a program that does not work without libcupti in any phase.
    pub apis: Vec<&'static CuptiApi>,
    /// The cause: no libcupti, a libcupti without the API, or a missing companion library.
    pub cause: ApiAvailability,
    /// The reason, in the loader's words if there are any.
    pub words: String,
    /// The steps of the loader's search.
    pub evidence: Vec<Evidence>,
    /// Whether the program was built without CUPTI, so only another build has the APIs.
    pub needs_other_build: bool,
}

/// A tool that the phase serves and the image contains.
struct ServedTool<'a> {
    profiler: &'a Profiler,
    /// The processes through which it gets CUPTI; none if CUPTI is linked into its program.
    processes: Vec<&'a CuptiProcess>,
    /// Its program, if that was built without CUPTI.
    built_without: Option<&'a ProgramBuild>,
}

/// The CUPTI demands of `phase` that its processes do not get; `tools` are the assessments of all tools.
pub(super) fn find_unmet_demands(facts: &ImageFacts, tools: &[ToolAssessment<'_>], phase: &Phase) -> Vec<UnmetDemand> {
    let served = served_tools(facts, tools, phase);
    let programs = facts
        .answers
        .apis
        .iter()
        .filter_map(|process| lost_program(facts, process));
    let mut unmet: Vec<UnmetDemand> = programs.collect();
    let may_do = |it: &&CuptiProcess| may_serve(facts, tools, phase, it);
    let mut anybody: Vec<&CuptiProcess> = facts.answers.apis.iter().filter(may_do).collect();
    // If programs request CUPTI, a plain process that gets it does not help them.
    let is_reachable =
        |it: &&CuptiProcess| consumer_of(facts, it).is_some_and(|consumer| consumer.unreachable().is_none());
    if anybody.iter().any(is_reachable) {
        anybody.retain(is_reachable);
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
    facts.answers.consumers.get(process.consumer?)
}

/// A program that fails to load, or uses no GPU, because libcupti is missing.
fn lost_program(facts: &ImageFacts, process: &CuptiProcess) -> Option<UnmetDemand> {
    let consumer = consumer_of(facts, process).filter(|consumer| consumer.required.breaks_program())?;
    // CUPTI does not fix other missing dependencies.
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
    let candidates = tools.iter().filter(is_served).map(|entry| {
        let of_tool = |process: &&CuptiProcess| {
            consumer_of(facts, process)
                .is_some_and(|consumer| consumer.unreachable().is_none() && runs_tool(consumer, entry.profiler, tools))
        };
        let processes: Vec<&CuptiProcess> = facts.answers.apis.iter().filter(of_tool).collect();
        let profiler = entry.profiler;
        let built_without = build_without(facts, profiler).filter(|_| processes.is_empty());
        // A wheel with CUPTI linked in requests nothing, but its profiler works or may work.
        let says_so = || program_of(facts, profiler).is_some_and(|build| build.has_library);
        let is_inside = entry.here.as_is.state == ReadinessState::Unknown || says_so();
        (is_inside || built_without.is_some() || !processes.is_empty()).then_some(ServedTool {
            profiler,
            processes,
            built_without,
        })
    });
    let served: Vec<ServedTool<'a>> = candidates.flatten().collect();
    if served.is_empty() {
        builds_for_cpus(facts, tools, phase)
    } else {
        served
    }
}

/// The tools of programs built without CUDA. A phase misses them if the image has no other build.
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

/// How the program of a tool was built, if the program shows it.
fn program_of<'f>(facts: &'f ImageFacts, tool: &Profiler) -> Option<&'f ProgramBuild> {
    program_build(facts, tool.profile.consumer.as_ref()?)
}

/// The same, but only for a program built without CUPTI.
fn build_without<'f>(facts: &'f ImageFacts, tool: &Profiler) -> Option<&'f ProgramBuild> {
    program_of(facts, tool).filter(|build| !build.has_library)
}

/// Whether a tool gets CUPTI through this program. A tool without its own program stands for all programs that no known
/// tool uses.
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

/// Whether a process counts for an API that no specific tool must get: a plain process, the user's own program, or a
/// tool that the phase serves.
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
    // The options that a user's own program uses are unknown.
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

/// The demand that a program built without CUPTI does not meet.
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

/// The cause that keeps all processes from a requested API. Among alternatives, the first that the release has counts.
fn lack(facts: &ImageFacts, processes: &[&CuptiProcess], wish: &IdChoice, level: DemandLevel) -> Option<UnmetDemand> {
    let apis: Vec<&'static CuptiApi> = wish.ids().iter().filter_map(|id| facts.tables.find_api(id)).collect();
    let comes_to = |process: &&CuptiProcess, api: &CuptiApi| process.reach.as_is.usable(&api.id);
    // A missing companion library can be added; an API that the release lacks cannot.
    let in_release = |api: &&&CuptiApi| {
        let has = |it: &&CuptiProcess| matches!(comes_to(it, api), ApiAvailability::Yes | ApiAvailability::NoLibrary);
        processes.iter().any(has)
    };
    // If the release has none of the alternatives, the last one provides the reason.
    let api = *apis.iter().find(in_release).or(apis.last())?;
    if processes.iter().any(|it| comes_to(it, api) == ApiAvailability::Yes) {
        return None;
    }
    // A gap already reports what only a run can show.
    let is_open = |it: &&CuptiProcess| match consumer_of(facts, it) {
        Some(consumer) => consumer.open.is_some(),
        None => facts.answers.status_is_open.is_some() || facts.command_is_undecided(),
    };
    if processes.iter().any(is_open) {
        return None;
    }
    // Take the first process that comes closest: one may lack only a library, another the whole API.
    let process = *processes.iter().rev().max_by_key(|it| comes_to(it, api))?;
    let cause = comes_to(&process, api);
    // The image's CUDA version determines the CUPTI release, so nothing can add an API that this one lacks.
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

/// Why a process cannot use an API, in the loader's words if there are any.
fn reason(
    facts: &ImageFacts,
    process: &CuptiProcess,
    api: &CuptiApi,
    cause: ApiAvailability,
) -> (String, Vec<Evidence>) {
    let consumer = consumer_of(facts, process);
    let who = consumer.map_or("a process without search paths of its own", |consumer| &consumer.name);
    match cause {
        ApiAvailability::NoLibrary => match process.reach.as_is.missing(api).next() {
            Some(missing) => {
                let lines = missing.answer.search.lines();
                let said = format!(
                    "{who} gets libcupti, but not a library that belongs beside it: {}",
                    missing.answer.message()
                );
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
        None if facts.answers.apis.iter().any(|other| other.reach.as_is.cupti.is_some()) => {
            "a program that opens libcupti by its name does not get it".to_owned()
        }
        None => "no process gets libcupti".to_owned(),
    }
}

/// Merges demands of one process with the same reason.
fn merge(all: Vec<UnmetDemand>) -> Vec<UnmetDemand> {
    let mut merged: Vec<UnmetDemand> = Vec::new();
    for demand in all {
        // If no process gets libcupti at all, the process that must get it provides the reason.
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
    /// Whether installing CUPTI can meet the demand. A program that requests a relative path depends on its working
    /// directory.
    pub fn is_curable(&self, facts: &ImageFacts) -> bool {
        let consumer = self.consumer.and_then(|number| facts.answers.consumers.get(number));
        let is_relative = |name: &[u8]| name.contains(&b'/') && !name.starts_with(b"/");
        // CUPTI does not help a program that exits earlier either.
        !self.needs_other_build
            && !consumer
                .is_some_and(|consumer| is_relative(&consumer.requested_name) || consumer.start_failure().is_some())
    }

    /// The companion libraries of libcupti that the APIs need and the process does not get.
    pub(super) fn missing_libraries<'f>(&'f self, facts: &'f ImageFacts) -> impl Iterator<Item = &'f [u8]> {
        let lacks_companion = self.cause == ApiAvailability::NoLibrary;
        facts
            .answers
            .apis
            .iter()
            .filter(move |process| lacks_companion && process.consumer == self.consumer)
            .flat_map(|process| self.apis.iter().flat_map(|api| process.reach.as_is.missing(api)))
            .map(|companion| &*companion.name)
    }

    /// The APIs, as the object of a sentence.
    pub fn api_words(&self) -> String {
        let names: Vec<&str> = self.apis.iter().map(|api| &*api.name).collect();
        match names.as_slice() {
            [] => "libcupti".to_owned(),
            [one] => format!("CUPTI's {one} API"),
            [most @ .., last] => format!("CUPTI's {} and {last} APIs", most.join(", ")),
        }
    }
}
