//! Finds the files behind the APIs that a phase accepts.

use std::collections::BTreeSet;

use crate::facts::{self, CuptiAccess, DeadWeightFile, ImageFacts};
use crate::knowledge::api::{ApiLibrary, CuptiApi};
use crate::knowledge::{Phase, Profiler};
use image_linkage::path::RootPath;

/// The files that processes get for the APIs that a phase accepts, gathered once.
pub(super) struct AskedFiles<'f> {
    facts: &'f ImageFacts,
    welcome: Vec<WelcomeApi<'f>>,
    /// The copies of libcupti that processes load.
    cupti: BTreeSet<&'f RootPath>,
    /// The kinds with copies for several processor levels; each machine picks its own copy.
    leveled: BTreeSet<&'static str>,
}

/// An API, and the files that processes get for each of its libraries.
struct WelcomeApi<'f> {
    api: &'static CuptiApi,
    libraries: Vec<(&'static ApiLibrary, BTreeSet<&'f RootPath>)>,
}

impl<'f> AskedFiles<'f> {
    pub(super) fn gather(facts: &'f ImageFacts, profilers: &[Profiler], phase: &Phase) -> Self {
        let processes = facts.answers.apis.iter();
        // A file that is loaded with or without the container runtime stays: the plan must hold in both cases.
        let reaches: Vec<&CuptiAccess> = processes
            .flat_map(|process| [&process.reach.as_is, &process.reach.nvidia])
            .collect();
        let welcome = welcome_apis(facts, profilers, phase).into_iter().map(|api| WelcomeApi {
            api,
            libraries: api
                .libraries
                .iter()
                .map(|library| (library, loaded_files(library, &reaches)))
                .collect(),
        });
        let leveled = facts
            .weight
            .files
            .iter()
            .filter(|file| facts::is_for_processor(&file.path));
        Self {
            facts,
            welcome: welcome.collect(),
            cupti: reaches.iter().filter_map(|reach| reach.cupti.as_ref()).collect(),
            leveled: leveled.map(|file| file.kind).collect(),
        }
    }

    /// Why the file stays, if a process gets it for an accepted API. If no process gets an API's library, all files of
    /// that name stay, because one can still be added to a search path.
    pub(super) fn why(&self, file: &DeadWeightFile) -> Option<String> {
        let kind = self.facts.tables.dead_weight.find_kind(file.kind);
        let is_library = kind.is_some_and(|kind| kind.is_library);
        let is_any_meant = |loaded: &BTreeSet<&RootPath>| loaded.is_empty() || self.leveled.contains(file.kind);
        let is_asked = |welcome: &&WelcomeApi<'_>| {
            // If there are several copies, only those that processes load count.
            let is_cupti = || is_any_meant(&self.cupti) || self.cupti.contains(&file.path);
            let is_companion = |(library, loaded): &(&ApiLibrary, BTreeSet<&RootPath>)| {
                if is_any_meant(loaded) {
                    file.path.name().starts_with(library.stem().as_bytes())
                } else {
                    loaded.contains(&file.path)
                }
            };
            welcome.api.exports.is_some() && is_library && is_cupti() || welcome.libraries.iter().any(is_companion)
        };
        let welcome = self.welcome.iter().find(is_asked)?;
        Some(format!("CUPTI's {} API needs it", welcome.api.name))
    }
}

/// The files that processes get for a library.
fn loaded_files<'f>(library: &ApiLibrary, reaches: &[&'f CuptiAccess]) -> BTreeSet<&'f RootPath> {
    let companions = reaches.iter().flat_map(|reach| &reach.companions);
    companions
        .filter(|companion| companion.library == library.name && companion.requester == library.requester)
        .filter_map(|companion| companion.answer.real_path())
        .collect()
}

/// The APIs that the phase accepts, directly or through a tool.
fn welcome_apis<'p>(facts: &ImageFacts, profilers: &'p [Profiler], phase: &'p Phase) -> Vec<&'static CuptiApi> {
    let tools = profilers
        .iter()
        .filter(|tool| phase.profilers.accepted_ids().any(|id| id == tool.id));
    let of_tools = tools.flat_map(|tool| &tool.profile.apis).map(String::as_str);
    let mut apis: Vec<&CuptiApi> = phase
        .apis
        .accepted_ids()
        .chain(of_tools)
        .filter_map(|id| facts.tables.find_api(id))
        .collect();
    // Removing adjacent duplicates suffices: a second occurrence would only give the same reason.
    apis.dedup();
    apis
}
