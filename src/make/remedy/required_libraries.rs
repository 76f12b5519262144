//! The libraries of CUPTI that a phase needs, each with the reason.

use std::collections::BTreeMap;

use crate::judge::facts::CuptiConsumer;
use crate::knowledge::api::CuptiApi;
use crate::knowledge::{KnowledgeTables, Phase};

/// The stem of libcupti's own names.
pub const CUPTI: &str = "libcupti.so";

/// A library that has to be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequiredLibrary {
    /// The name up to the number of its soname, such as `libnvperf_host.so`.
    pub stem: &'static str,
    /// What needs it, each in a few words.
    pub because: Vec<String>,
}

impl RequiredLibrary {
    /// The reasons in one phrase.
    pub fn words(&self) -> String {
        let api = |text: &String| {
            let name = text.strip_prefix("CUPTI's ")?.strip_suffix(" API")?;
            Some(name.to_owned())
        };
        let apis: Vec<String> = self.because.iter().filter_map(api).collect();
        let others = self.because.iter().filter(|text| api(text).is_none());
        let apis = match apis.as_slice() {
            [] => None,
            [one] => Some(format!("CUPTI's {one} API")),
            [most @ .., last] => Some(format!("CUPTI's {} and {last} APIs", most.join(", "))),
        };
        let all: Vec<String> = apis.into_iter().chain(others.cloned()).collect();
        all.join("; ")
    }
}

/// The libraries that `phase` needs or wants, and those that `consumers` cannot be loaded without; libcupti comes
/// first. `has` says whether the release that is to be had has an API.
pub fn list_required_libraries(
    tables: &'static KnowledgeTables,
    phase: &Phase,
    consumers: &[CuptiConsumer],
    has: impl Fn(&CuptiApi) -> bool,
) -> Vec<RequiredLibrary> {
    let mut found: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    let mut add = |stem: &'static str, because: String| {
        let reasons = found.entry(stem).or_default();
        if !reasons.contains(&because) {
            reasons.push(because);
        }
    };
    for api in wanted_apis(tables, phase, has) {
        let because = format!("CUPTI's {} API", api.name);
        if api.exports.is_some() {
            add(CUPTI, because.clone());
        }
        for library in &api.libraries {
            add(library.stem(), because.clone());
        }
    }
    let breaks =
        |consumer: &&CuptiConsumer| consumer.required == crate::judge::facts::FailureImpact::Import;
    for consumer in consumers.iter().filter(breaks) {
        add(CUPTI, format!("{} links it", consumer.name));
    }
    let mut needs: Vec<RequiredLibrary> = found
        .into_iter()
        .map(|(stem, because)| RequiredLibrary { stem, because })
        .collect();
    needs.sort_by_key(|need| (need.stem != CUPTI, need.stem));
    needs
}

/// The APIs that a phase needs or wants: of alternatives, the first that the release has.
pub fn wanted_apis(
    tables: &'static KnowledgeTables,
    phase: &Phase,
    has: impl Fn(&CuptiApi) -> bool,
) -> Vec<&'static CuptiApi> {
    let wishes = phase.apis.needs.iter().chain(&phase.apis.wants);
    wishes
        .filter_map(|wish| {
            let mut apis = wish.ids().iter().filter_map(|id| tables.find_api(id));
            apis.find(|api| has(api))
        })
        .collect()
}

/// The APIs that a phase needs or wants and that the release has in no form, each with the CUDA that brought it.
pub fn apis_newer_than_release(
    tables: &KnowledgeTables,
    phase: &Phase,
    has: impl Fn(&CuptiApi) -> bool,
) -> Vec<String> {
    let wishes = phase.apis.needs.iter().chain(&phase.apis.wants);
    let lacking = wishes.filter_map(|wish| {
        let apis: Vec<&CuptiApi> = wish
            .ids()
            .iter()
            .filter_map(|id| tables.find_api(id))
            .collect();
        let none = !apis.iter().any(|api| has(api));
        apis.first().copied().filter(|_| none)
    });
    let said = lacking.map(|api| {
        let since = api.since.as_deref().unwrap_or("a later release");
        format!("CUPTI's {} API, which came with CUDA {since}", api.name)
    });
    said.collect()
}

#[cfg(test)]
mod tests {
    use super::{apis_newer_than_release, list_required_libraries};
    use crate::knowledge::{Knowledge, has_api};

    fn stems(phase: &str, cuda: (u32, u32)) -> Vec<&'static str> {
        let known = Knowledge::built_in();
        let needs =
            list_required_libraries(known.tables, known.phase(phase).unwrap(), &[], |api| {
                has_api(cuda, api)
            });
        needs.iter().map(|need| need.stem).collect()
    }

    #[test]
    fn what_a_release_is_too_old_for_is_named() {
        let known = Knowledge::built_in();
        let said = |cuda| {
            apis_newer_than_release(known.tables, known.phase("profiling").unwrap(), |api| {
                has_api(cuda, api)
            })
        };
        assert_eq!(
            said((11, 8)),
            ["CUPTI's SASS Metrics API, which came with CUDA 12.2"]
        );
        assert_eq!(said((12, 4)), Vec::<String>::new());
    }

    #[test]
    fn a_phase_needs_no_more_files_than_its_apis() {
        let none: [&str; 0] = [];
        assert_eq!(stems("inference", (12, 4)), none);
        assert_eq!(stems("training", (12, 4)), ["libcupti.so"]);
        assert_eq!(
            stems("profiling", (12, 4)),
            ["libcupti.so", "libnvperf_host.so", "libnvperf_target.so"]
        );
        assert_eq!(
            stems("profiling", (12, 8)),
            ["libcupti.so", "libnvperf_host.so"]
        );
    }
}
