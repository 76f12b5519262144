//! The CUPTI libraries that a phase needs, each with the reason.

use std::collections::BTreeMap;

use crate::facts::{CuptiConsumer, FailureImpact};
use crate::knowledge::api::CuptiApi;
use crate::knowledge::{KnowledgeTables, LibraryProfile, Phase};
use crate::make::patch::reason::{LibraryReason, LibraryReasons};

/// A required library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequiredLibrary {
    /// The name up to the version of its soname, such as `libnvperf_host.so`.
    pub stem: &'static str,
    /// Whether it only exists under a versioned name, such as nvprof's `libcuinj64.so.12.4`.
    pub is_numbered: bool,
    pub because: LibraryReasons,
}

/// The libraries that `phase` needs or wants, and those that `consumers` need to load; `library` itself comes first.
/// `has` tests whether the release has an API.
pub(crate) fn list_required_libraries(
    tables: &'static KnowledgeTables,
    library: &'static LibraryProfile,
    phase: &Phase,
    consumers: &[CuptiConsumer],
    has: impl Fn(&CuptiApi) -> bool,
) -> Vec<RequiredLibrary> {
    let own = library.stem.as_str();
    let mut found: BTreeMap<(&'static str, bool), LibraryReasons> = BTreeMap::new();
    let mut add = |name, reason| found.entry(name).or_default().add(reason);
    // Bring files for the first alternative in the release only.
    let wanted = phase
        .wished_apis(tables)
        .filter_map(|apis| apis.into_iter().find(|api| has(api)));
    for api in wanted {
        let because = LibraryReason::Api(api.name.clone());
        // An API without exports in libcupti is entirely in its other libraries.
        if api.exports.is_some() {
            add((own, false), because.clone());
        }
        for library in &api.libraries {
            let name = (library.stem(), library.is_numbered());
            add(name, because.clone());
        }
    }
    for consumer in consumers.iter().filter(|consumer| consumer.required.breaks_program()) {
        let name = consumer.name.clone();
        let reason = match consumer.required {
            FailureImpact::Gpu => LibraryReason::GpuOf(name),
            _ => LibraryReason::LinkedBy(name),
        };
        add((own, false), reason);
    }
    let mut needs: Vec<RequiredLibrary> = found
        .into_iter()
        .map(|((stem, is_numbered), because)| RequiredLibrary {
            stem,
            is_numbered,
            because,
        })
        .collect();
    needs.sort_by_key(|need| (need.stem != own, need.stem));
    needs
}

/// The needed or wanted APIs of a phase that the release has in no form, in words with the CUDA version that introduced
/// them.
pub(crate) fn apis_newer_than_release(
    tables: &'static KnowledgeTables,
    phase: &Phase,
    has: impl Fn(&CuptiApi) -> bool,
) -> impl Iterator<Item = String> {
    let lacking = phase
        .wished_apis(tables)
        .filter(move |apis| !apis.iter().any(|api| has(api)));
    // The first alternative is the preferred one.
    lacking.filter_map(|apis| {
        apis.first().map(|api| {
            let since = api.since.as_deref().unwrap_or("a later release");
            format!("CUPTI's {} API, which came with CUDA {since}", api.name)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::{apis_newer_than_release, list_required_libraries};
    use crate::judge::plan::advice::advise_on_tools;
    use crate::knowledge::{IdChoice, Knowledge, has_api};

    fn stems(phase: &str, cuda: (u32, u32)) -> Vec<&'static str> {
        let known = Knowledge::built_in();
        let phase = known.phase(phase).unwrap();
        let needs = list_required_libraries(known.tables, known.library, phase, &[], |api| has_api(cuda, api));
        needs.iter().map(|need| need.stem).collect()
    }

    #[test]
    fn what_a_release_is_too_old_for_is_named() {
        let known = Knowledge::built_in();
        let said = |cuda| -> Vec<String> {
            let phase = known.phase("profiling").unwrap();
            let newer = apis_newer_than_release(known.tables, phase, |api| has_api(cuda, api));
            newer.collect()
        };
        let pm_sampling = "CUPTI's PM Sampling API, which came with CUDA 12.6";
        let sass = "CUPTI's SASS Metrics API, which came with CUDA 12.2";
        assert_eq!(said((11, 8)), [pm_sampling, sass]);
        assert_eq!(said((12, 4)), [pm_sampling]);
        assert_eq!(said((13, 0)), Vec::<String>::new());
    }

    #[test]
    fn a_library_that_has_a_numbered_name_alone_is_marked() {
        let known = Knowledge::built_in();
        let mut phase = known.phase("inference").unwrap().clone();
        phase.apis.needs = vec![IdChoice::One("nvprof-injection".to_owned())];
        let needs = list_required_libraries(known.tables, known.library, &phase, &[], |_| true);
        let numbered = |stem| needs.iter().any(|it| it.stem == stem && it.is_numbered);
        assert!(numbered("libcuinj64.so"), "{needs:?}");
        assert!(!numbered("libcupti.so"), "{needs:?}");
    }

    #[test]
    fn advise_lists_the_files_that_a_dockerfile_installs() {
        let known = Knowledge::built_in();
        for phase in &known.phases {
            for cuda in [(11, 8), (12, 4), (12, 9), (13, 0)] {
                let version = format!("{}.{}", cuda.0, cuda.1);
                let advice = advise_on_tools(Some(phase), Vec::new(), &known, Some(&version)).unwrap();
                let required = stems(&phase.name, cuda);
                let files = advice.files.iter().filter(|file| !file.optional);
                let stem = |name: &str| required.iter().copied().find(|stem| name.starts_with(stem));
                let mut named: Vec<_> = files.map(|file| stem(&file.name)).collect();
                named.sort_unstable();
                let expected: Vec<_> = required.iter().copied().map(Some).collect();
                assert_eq!(named, expected, "{} with CUDA {version}", phase.name);
            }
        }
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
        assert_eq!(stems("profiling", (12, 8)), ["libcupti.so", "libnvperf_host.so"]);
    }
}
