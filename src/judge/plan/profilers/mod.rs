//! Judges which profiling tools would work in an image: a state for each, with reasons and fallbacks.

mod cupti;
pub mod installed_tools;
mod readiness;

pub use cupti::ApiUse;
pub(super) use cupti::{built_without, load_failure, program_build};
pub use readiness::{ReadinessState, ToolReadiness};

use std::collections::{BTreeMap, BTreeSet};

use readiness::ToolReasons;

use crate::facts::{ByWorld, ImageFacts, ProcessContext, StartFailure, World, is_undetermined};
use crate::judge::plan::profilers::installed_tools::{InstalledTools, ProgramPlace};
use crate::knowledge::{CuptiNeed, Profiler, ToolCondition};
use image_linkage::escape;
use image_linkage::path::RootPath;

/// A replacement for a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FallbackTool<'p> {
    /// The tool as its profile describes it.
    pub profiler: &'p Profiler,
    /// Its own state in the unchanged image.
    pub state: ReadinessState,
}

/// The assessment of a tool in an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolAssessment<'p> {
    /// The tool as its profile describes it.
    pub profiler: &'p Profiler,
    /// Whether it works here.
    pub here: ByWorld<ToolReadiness>,
    /// The APIs that it uses.
    pub apis: Vec<ApiUse>,
    /// The fallbacks, best first; empty for a ready tool.
    pub fallbacks: Vec<FallbackTool<'p>>,
}

/// Assesses the tools, in file order.
pub fn assess_tools<'p>(
    facts: &ImageFacts,
    tools: &InstalledTools,
    profilers: &'p [Profiler],
) -> Vec<ToolAssessment<'p>> {
    let here = ByWorld {
        as_is: states(facts, tools, profilers, World::AsIs),
        nvidia: states(facts, tools, profilers, World::Nvidia),
    };
    let readiness = |world: World, profiler: &Profiler| {
        let unknown = || ToolReadiness {
            state: ReadinessState::Unknown,
            because: Vec::new(),
        };
        let states = here.get(world);
        states.get(&*profiler.id).cloned().unwrap_or_else(unknown)
    };
    profilers
        .iter()
        .map(|profiler| {
            let here = ByWorld {
                as_is: readiness(World::AsIs, profiler),
                nvidia: readiness(World::Nvidia, profiler),
            };
            let instead = profiler.profile.fallbacks.iter().filter_map(|id| {
                let profiler = profilers.iter().find(|other| other.id == *id)?;
                let state = readiness(World::AsIs, profiler).state;
                Some(FallbackTool { profiler, state })
            });
            let works = here.as_is.state == ReadinessState::Ready;
            ToolAssessment {
                profiler,
                apis: cupti::api_uses(facts, profiler),
                fallbacks: if works { Vec::new() } else { instead.collect() },
                here,
            }
        })
        .collect()
}

/// The states of the tools in one world. Tools that read traces come after the tools that write them.
fn states<'p>(
    facts: &ImageFacts,
    tools: &InstalledTools,
    profilers: &'p [Profiler],
    world: World,
) -> BTreeMap<&'p str, ToolReadiness> {
    let mut states = BTreeMap::new();
    // No tool reads the output of a trace reader, so two groups suffice.
    let (first, second): (Vec<&Profiler>, Vec<&Profiler>) = profilers
        .iter()
        .partition(|profiler| profiler.profile.traces_of.is_empty());
    for profiler in first.into_iter().chain(second) {
        let traces = traces(profiler, &states, profilers);
        let judged = judge_one(facts, tools, profiler, world, traces);
        states.insert(&*profiler.id, judged);
    }
    states
}

fn judge_one(
    facts: &ImageFacts,
    tools: &InstalledTools,
    profiler: &Profiler,
    world: World,
    traces: ToolReasons,
) -> ToolReadiness {
    let said = &profiler.profile;
    let mut verdict = traces;
    for exclusion in &said.excludes {
        let mut names = exclusion.distributions.iter();
        if names.any(|name| tools.distributions.contains_key(name)) {
            verdict.not_applicable.push(exclusion.because.clone());
        }
    }
    let mut applies = Vec::new();
    for condition in &said.applies {
        match met(facts, tools, condition) {
            Some(found) => applies.push(found),
            None => verdict.not_applicable.push(condition.otherwise.clone()),
        }
    }
    // The first failed condition suffices: without PyTorch, "PyTorch without CUDA" is redundant.
    verdict.not_applicable.truncate(1);
    // A tool inside a program fails with it: if `import torch` fails, so does its profiler.
    for program in &said.runs_in {
        verdict.missing.extend(cupti::import_failures(facts, program, world));
    }
    if said.cupti == CuptiNeed::InImage {
        cupti::assess_cupti_use(&mut verdict, facts, profiler, world);
    }
    for (number, condition) in said.needs.iter().enumerate() {
        let Some(found) = met(facts, tools, condition) else {
            // Without nsys, its missing launcher is irrelevant.
            verdict.missing.push(condition.otherwise.clone());
            break;
        };
        if number == 0 {
            verdict.found.push(found);
        }
        add_start_failures(&mut verdict, facts.contexts.get(world), tools, condition);
    }
    capabilities(&mut verdict, facts, profiler);
    if verdict.found.is_empty() {
        // A tool without further needs is ready because it applies.
        verdict.found.extend(applies.pop());
    }
    if verdict.found.is_empty() && !said.capabilities.is_empty() {
        verdict.found.push(format!(
            "the container runtime brings it from the host if NVIDIA_DRIVER_CAPABILITIES includes {}",
            said.capabilities.join(", ")
        ));
    }
    verdict.readiness()
}

/// The part of a condition that is met, as text; `None` if none is.
fn met(facts: &ImageFacts, tools: &InstalledTools, condition: &ToolCondition) -> Option<String> {
    if let Some(object) = tools.object(condition) {
        return Some(format!("there is {object}"));
    }
    for program in &condition.consumers {
        let consumers = cupti::consumers_of_program(facts, program).map(|consumer| &consumer.object);
        let undecided = cupti::undecided_openers(facts, program).map(|opener| &opener.object);
        if let Some(object) = consumers.chain(undecided).next() {
            return Some(format!("there is {object}"));
        }
    }
    for name in &condition.distributions {
        if let Some(version) = tools.distributions.get(name) {
            let version = escape::escape_bytes(version.as_bytes());
            return Some(format!("there is the distribution {name} {version}"));
        }
    }
    let mut executables = condition.executables.iter();
    if let Some(found) = executables.find_map(|name| tools.executables.get(name)) {
        return Some(match found.place {
            ProgramPlace::Path => format!("there is {}", found.path),
            ProgramPlace::Folder => format!("there is {}, which is not on PATH", found.path),
        });
    }
    condition.environment.iter().find_map(|name| {
        let value = escape::escape_bytes(tools.environment.get(name)?.as_bytes());
        Some(format!("{name} is set: {value:?}"))
    })
}

/// Adds the reason why an installed program of the tool does not start.
fn add_start_failures(
    verdict: &mut ToolReasons,
    context: &ProcessContext,
    tools: &InstalledTools,
    condition: &ToolCondition,
) {
    let executables = condition
        .executables
        .iter()
        .filter_map(|name| tools.executables.get(name));
    let object = tools.object(condition);
    let programs: BTreeSet<&RootPath> = executables.map(|found| &found.path).chain(object).collect();
    for path in programs {
        let is_told = |failure: &StartFailure| verdict.missing.iter().any(|said| said.ends_with(failure.words()));
        let failure = StartFailure::of_tool(context, path).filter(|failure| !is_told(failure));
        let Some(failure) = failure else { continue };
        let words = format!("{path} does not start: {}", failure.words());
        if is_undetermined(failure.answer.search.steps()) {
            verdict.unknown.push(words);
        } else {
            verdict.missing.push(words);
        }
    }
}

fn capabilities(verdict: &mut ToolReasons, facts: &ImageFacts, profiler: &Profiler) {
    // The variable is from the image config, so it is the same in both worlds.
    let granted = facts.contexts.as_is.capabilities.as_deref();
    for capability in &profiler.profile.capabilities {
        if crate::knowledge::host::grants_capability(capability, granted) {
            continue;
        }
        verdict.unknown.push(format!(
            "NVIDIA_DRIVER_CAPABILITIES is {} and leaves out {capability}: the container runtime brings what it needs \
             from the host in CDI mode, but not in legacy mode",
            escape::escape_bytes(granted.unwrap_or_default().as_bytes())
        ));
    }
}

/// Judges a trace reader by the states of the tools whose traces it reads.
fn traces(profiler: &Profiler, states: &BTreeMap<&str, ToolReadiness>, profilers: &[Profiler]) -> ToolReasons {
    let mut verdict = ToolReasons::default();
    let writers: Vec<(&Profiler, ReadinessState)> = profiler
        .profile
        .traces_of
        .iter()
        .filter_map(|id| {
            let writer = profilers.iter().find(|other| other.id == *id)?;
            Some((writer, states.get(id.as_str())?.state))
        })
        .collect();
    if writers.is_empty() {
        return verdict;
    }
    let states = [ReadinessState::Ready, ReadinessState::Unknown, ReadinessState::NotReady];
    let [ready, unknown, broken] = states.map(|wanted| -> Vec<&str> {
        let found = writers.iter().filter(|(_, state)| *state == wanted);
        found.map(|(writer, _)| &*writer.profile.name).collect()
    });
    // One ready writer is enough to have something to read.
    if let Some(first) = ready.first() {
        verdict.found.push(format!("it reads what {first} writes"));
    } else if let Some(first) = unknown.first() {
        verdict
            .unknown
            .push(format!("it reads what {first} writes, which may not be ready"));
    } else if broken.is_empty() {
        // No writer applies to the image, so the image is not to blame for missing traces.
        verdict
            .not_applicable
            .push("nothing in the image writes the traces that it reads".to_owned());
    } else {
        let list = broken.join(", ");
        verdict
            .missing
            .push(format!("it reads the traces of what is not ready: {list}"));
    }
    verdict
}
