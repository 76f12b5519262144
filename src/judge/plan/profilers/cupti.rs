//! How a tool gets CUPTI: through the program that it runs in, or directly.

use super::readiness::ToolReasons;
use crate::facts::{
    ApiAvailability, ByWorld, ConsumerOutcome, CuptiAccess, CuptiConsumer, FailureImpact, ImageFacts, LoadAnswer,
    ProgramBuild, UndecidedOpener, World, join_words,
};
use crate::knowledge::Profiler;
use crate::knowledge::api::CuptiApi;
use image_linkage::escape;
use image_linkage::path::RootPath;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// An API that a tool uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiUse {
    /// The API.
    pub api: &'static CuptiApi,
    /// Whether only some of the tool's options use it.
    pub optional: bool,
    /// Whether it can be used; `None` if nothing in the image requests CUPTI for the tool.
    pub usable: ByWorld<Option<ApiAvailability>>,
}

/// The consumers that belong to the program with this id.
pub(super) fn consumers_of_program<'f>(
    facts: &'f ImageFacts,
    program: &'f str,
) -> impl Iterator<Item = &'f CuptiConsumer> {
    let consumers = facts.answers.consumers.iter();
    consumers.filter(move |consumer| consumer.profile.as_deref() == Some(program))
}

/// The objects of this program that open files under names known only at run time.
pub(super) fn undecided_openers<'f>(
    facts: &'f ImageFacts,
    program: &'f str,
) -> impl Iterator<Item = &'f UndecidedOpener> {
    let undecided = facts.answers.undecided.iter();
    undecided.filter(move |opener| opener.profile.as_deref() == Some(program))
}

/// Why a program cannot start: none of its copies can be imported.
pub(super) fn import_failures(facts: &ImageFacts, program: &str, world: World) -> Vec<String> {
    let fails = |consumer: &CuptiConsumer| {
        let outcome = consumer.outcome.get(world);
        if consumer.open.is_some() {
            return None;
        }
        match consumer.required {
            FailureImpact::Import => load_failure(outcome),
            FailureImpact::Gpu => (!outcome.answer.is_loaded()).then(|| outcome.answer.message().to_owned()),
            FailureImpact::Profiling => None,
        }
    };
    // One importable copy is enough for the program to work.
    let is_failed = |copy: &&CuptiConsumer| copy.profile.as_deref() == Some(program) && copy.start_failure().is_some();
    let copies = consumers_of_program(facts, program).chain(facts.answers.silent_programs.iter().filter(is_failed));
    let failures: Option<Vec<(&CuptiConsumer, String)>> =
        copies.map(|consumer| Some((consumer, fails(consumer)?))).collect();
    let failures = failures.unwrap_or_default();
    failures
        .into_iter()
        .map(|(consumer, words)| match consumer.required {
            FailureImpact::Gpu => format!("{} uses no GPU: {words}", consumer.name),
            _ => format!("{} cannot be imported: {words}", consumer.name),
        })
        .collect()
}

/// Why an object cannot be loaded, in the loader's words.
pub(crate) fn load_failure(outcome: &ConsumerOutcome) -> Option<String> {
    // In the order of ld.so: the library, its other dependencies, then symbols.
    if !outcome.answer.is_loaded() {
        return Some(outcome.answer.message().to_owned());
    }
    if let Some(other) = outcome.other_failures.first() {
        return Some(other.message.clone());
    }
    let missing = outcome.missing_symbols.first()?;
    Some(format!(
        "its libcupti has no {}, nor {} others that it asks for",
        escape::escape_bytes(missing),
        outcome.missing_symbols.len() - 1
    ))
}

/// Judges a tool's access to CUPTI.
pub(super) fn assess_cupti_use(verdict: &mut ToolReasons, facts: &ImageFacts, profiler: &Profiler, world: World) {
    let Some(program) = &profiler.profile.consumer else {
        return of_plain(verdict, facts, profiler, world);
    };
    // An object that opens another file on other GPUs has to get each of them.
    let mut judged: BTreeMap<&RootPath, ToolReasons> = BTreeMap::new();
    for (consumer, reach) in processes_of_program(facts, program) {
        let reasons = of_consumer(facts, profiler, consumer, reach.get(world), world);
        match judged.entry(&consumer.object) {
            Entry::Occupied(known) if known.get().missing.len() >= reasons.missing.len() => {}
            entry => _ = entry.insert_entry(reasons),
        }
    }
    // A wheel with CUPTI linked in profiles well without requesting a library.
    if let Some(build) = program_build(facts, program).filter(|_| judged.is_empty()) {
        verdict.missing.extend(import_failures(facts, program, world));
        if build.has_library {
            verdict.found.push(format!(
                "CUPTI is part of {}, as the flags of its build say",
                build.object
            ));
        } else {
            verdict.missing.push(built_without(build));
        }
    } else if let Some(opener) = undecided_openers(facts, program).next().filter(|_| judged.is_empty()) {
        let words = format!("which libcupti {} opens is known only when it runs", opener.object);
        verdict.unknown.push(words);
    } else if judged.is_empty() {
        verdict.unknown.push(
            "nothing of it asks for libcupti: CUPTI is part of it, as in wheels that bundle CUDA, or was left \
             out when it was built"
                .to_owned(),
        );
    }
    // If there are several environments, the one that works counts.
    let best = judged.into_values().min_by_key(|judged| judged.missing.len());
    if let Some(best) = best {
        verdict.missing.extend(best.missing);
        verdict.unknown.extend(best.unknown);
        verdict.found.extend(best.found);
    }
}

/// How this program was built; if there are several copies, one with CUPTI wins.
pub(crate) fn program_build<'f>(facts: &'f ImageFacts, program: &str) -> Option<&'f ProgramBuild> {
    let builds = facts.related.builds.iter().filter(|build| build.program == program);
    builds.max_by_key(|build| build.has_library)
}

/// The message for a build without CUPTI.
pub(crate) fn built_without(build: &ProgramBuild) -> String {
    format!(
        "{} was built without CUPTI, as the flags in {} say",
        build.name, build.object
    )
}

fn processes_of_program<'f>(
    facts: &'f ImageFacts,
    program: &'f str,
) -> impl Iterator<Item = (&'f CuptiConsumer, &'f ByWorld<CuptiAccess>)> {
    facts.answers.apis.iter().filter_map(move |process| {
        let consumer = facts.answers.consumers.get(process.consumer?)?;
        let is_ours = consumers_of_program(facts, program).any(|other| other.object == consumer.object);
        is_ours.then_some((consumer, &process.reach))
    })
}

fn of_consumer(
    facts: &ImageFacts,
    profiler: &Profiler,
    consumer: &CuptiConsumer,
    reach: &CuptiAccess,
    world: World,
) -> ToolReasons {
    let mut verdict = ToolReasons::default();
    let outcome = consumer.outcome.get(world);
    let object = escape::escape_bytes(consumer.object.name());
    if let Some(why) = &consumer.open {
        verdict.unknown.push(format!("{object}: {why}"));
        return verdict;
    }
    // Without libcupti every API would repeat the same reason.
    if let Some(words) = load_failure(outcome) {
        verdict.missing.push(format!("{object}: {words}"));
        return verdict;
    }
    if let Some(found) = found_words(&outcome.answer) {
        verdict.found.push(format!("{object} gets {found}"));
    }
    of_apis(&mut verdict, facts, profiler, reach);
    verdict
}

fn of_plain(verdict: &mut ToolReasons, facts: &ImageFacts, profiler: &Profiler, world: World) {
    if let Some(why) = &facts.answers.status_is_open {
        verdict.unknown.push(why.clone());
        return;
    }
    let plain = facts.answers.plain.get(world);
    let answer = plain.answer();
    let name = escape::escape_bytes(&plain.name);
    let Some(found) = found_words(&answer) else {
        verdict
            .missing
            .push(format!("dlopen(\"{name}\"): {}", answer.message()));
        return;
    };
    verdict.found.push(format!("dlopen(\"{name}\") gets {found}"));
    if let Some(reach) = of_nobody(facts).next() {
        of_apis(verdict, facts, profiler, reach.get(world));
    }
}

/// The file that a request gets, and how.
fn found_words(answer: &LoadAnswer) -> Option<String> {
    let path = escape::escape_bytes(&answer.file()?.path);
    Some(format!("{path} by {}", answer.way()?))
}

/// The access of a process without its own search paths.
fn of_nobody(facts: &ImageFacts) -> impl Iterator<Item = &ByWorld<CuptiAccess>> {
    let nobody = facts.answers.apis.iter().filter(|process| process.consumer.is_none());
    nobody.map(|process| &process.reach)
}

/// Adds the state of the APIs: required ones, and those that only some options need.
fn of_apis(verdict: &mut ToolReasons, facts: &ImageFacts, profiler: &Profiler, reach: &CuptiAccess) {
    for id in &profiler.profile.apis {
        if let Some(words) = facts.tables.find_api(id).and_then(|api| lacks(reach, api)) {
            verdict.missing.push(words);
        }
    }
    // An unusable option does not stop the tool from working.
    for id in &profiler.profile.optional_apis {
        if let Some(words) = facts.tables.find_api(id).and_then(|api| lacks(reach, api)) {
            verdict.found.push(format!("without {words}"));
        }
    }
}

/// Why an API cannot be used.
fn lacks(reach: &CuptiAccess, api: &CuptiApi) -> Option<String> {
    let name = &api.name;
    match reach.usable(&api.id) {
        ApiAvailability::Yes => None,
        ApiAvailability::NoCupti => Some(format!("{name}: no libcupti")),
        ApiAvailability::NotInRelease => Some(format!("{name}: this release of CUPTI does not have it")),
        ApiAvailability::NoLibrary => {
            let messages = reach.missing(api).map(|missing| missing.answer.message());
            Some(format!("{name}: {}", join_words(messages)))
        }
    }
}

pub(super) fn api_uses(facts: &ImageFacts, profiler: &Profiler) -> Vec<ApiUse> {
    let said = &profiler.profile;
    let reaches: Vec<&ByWorld<CuptiAccess>> = said.consumer.as_ref().map_or_else(
        || of_nobody(facts).collect(),
        |program| processes_of_program(facts, program).map(|(_, reach)| reach).collect(),
    );
    let best = |world: World, api: &CuptiApi| {
        let usable = reaches.iter().map(|reach| reach.get(world).usable(&api.id));
        // `Yes` is the smallest value, so the process that gets furthest decides.
        usable.min()
    };
    let needed = said.apis.iter().map(|id| (id, false));
    let optional = said.optional_apis.iter().map(|id| (id, true));
    needed
        .chain(optional)
        .filter_map(|(id, optional)| {
            let api = facts.tables.find_api(id)?;
            let usable = ByWorld {
                as_is: best(World::AsIs, api),
                nvidia: best(World::Nvidia, api),
            };
            Some(ApiUse { api, optional, usable })
        })
        .collect()
}
