//! A process that loads libcupti but not the library that CUPTI opens by its bare name for counters
//! (`libnvperf_host.so`).

use super::evidence::Evidence;
use super::rule_subject::{RuleSubject, flag, text};
use crate::facts::{CompanionLookup, CuptiAccess, CuptiProcess, ImageFacts, RequestOutcome};
use crate::knowledge::api::LibraryRequester;
use crate::knowledge::rule::SubjectKind;
use image_linkage::loader::trace_lines;

/// The processes that get libcupti but not the library.
pub(super) fn subjects(facts: &ImageFacts) -> Vec<RuleSubject> {
    let askers = || {
        facts
            .apis
            .iter()
            .filter_map(|asker| Some((asker, host(&asker.reach.as_is)?)))
    };
    let gets = |companion: &CompanionLookup| companion.outcome == RequestOutcome::Loaded;
    let others = askers().any(|(_, companion)| gets(companion));
    askers()
        .filter(|(_, companion)| !gets(companion))
        .map(|(asker, companion)| subject(facts, asker, companion, others))
        .collect()
}

/// The request for the library in a process that gets libcupti.
fn host(reach: &CuptiAccess) -> Option<&CompanionLookup> {
    // Without libcupti no code opens the library; that process is another finding.
    reach.cupti.as_ref()?;
    let mut companions = reach.companions.iter();
    companions.find(|companion| companion.got == LibraryRequester::ByCupti)
}

fn subject(facts: &ImageFacts, asker: &CuptiProcess, companion: &CompanionLookup, others: bool) -> RuleSubject {
    let consumer = asker.consumer.and_then(|number| facts.consumers.get(number));
    let name = consumer.map_or("a process that opens it by its soname", |consumer| &consumer.name);
    let files: Vec<_> = facts
        .dead_weight
        .iter()
        // The exact name: a file with a version suffix does not satisfy a bare request.
        .filter(|file| file.path.name() == companion.library.as_bytes())
        .collect();
    let words = match files.first() {
        Some(file) => format!("it is in {}, which none of its search paths names", file.path.parent()),
        None => "it is not in the image".to_owned(),
    };
    let lines = trace_lines(&companion.trace, &companion.objects);
    let message = Evidence::Words(companion.message.clone());
    SubjectKind::Nvperf
        .subject([
            ("name", text(name)),
            ("words", text(words)),
            ("others_get_it", flag(others)),
        ])
        .at(consumer.map(|consumer| (&consumer.object, None)))
        .shown_by(std::iter::once(message).chain(lines.into_iter().map(Evidence::Searched)))
}
