//! A process that loads libcupti but not the library that CUPTI opens by its bare name for counters
//! (`libnvperf_host.so`).

use super::evidence::Evidence;
use super::{Hit, Shown};
use crate::facts::{CompanionLookup, CuptiAccess, CuptiProcess, ImageFacts};
use crate::knowledge::api::LibraryRequester;

/// Checks the processes that get libcupti.
pub(super) fn check(facts: &ImageFacts) -> Vec<Hit> {
    let mut hits = Vec::new();
    for process in &facts.answers.apis {
        if let Some(companion) = host(&process.reach.as_is)
            && !companion.answer.is_loaded()
        {
            hits.push(not_loaded(facts, process, companion));
        }
    }
    hits
}

/// The request for the library in a process that gets libcupti.
fn host(reach: &CuptiAccess) -> Option<&CompanionLookup> {
    // Without libcupti no code opens the library; that process is another finding.
    reach.cupti.as_ref()?;
    let mut companions = reach.companions.iter();
    companions.find(|companion| companion.requester == LibraryRequester::Cupti)
}

fn not_loaded(facts: &ImageFacts, process: &CuptiProcess, companion: &CompanionLookup) -> Hit {
    let consumer = process.consumer.and_then(|number| facts.answers.consumers.get(number));
    let name = consumer.map_or("a process that opens it by its soname", |consumer| &consumer.name);
    // The exact name: a file with a version suffix does not satisfy a bare request.
    let mut files = facts.weight.files.iter();
    let file = files.find(|file| file.path.name() == companion.library.as_bytes());
    let words = match file {
        Some(file) => format!("it is in {}, which none of its search paths names", file.path.parent()),
        None => "it is not in the image".to_owned(),
    };
    let lines = companion.answer.search.lines();
    Hit::new("nvperf-not-loadable")
        .value("name", Shown::known(name))
        .value("words", Shown::known(words))
        .at(consumer.map(|consumer| (&consumer.object, None)))
        .shown_by([Evidence::Words(companion.answer.message().to_owned())])
        .shown_by(lines.into_iter().map(Evidence::Searched))
}
