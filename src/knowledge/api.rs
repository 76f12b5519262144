//! The APIs of CUPTI: the exports that reveal an API, and the companion libraries that it needs.

use serde::Deserialize;

use super::names::names;
use super::patterns::matches_name_pattern;

/// An API of CUPTI (`profiles/cupti/apis.yaml`).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
// Otherwise a misspelt key would count as absent: an API without `since` is in every release.
#[serde(deny_unknown_fields)]
pub struct CuptiApi {
    /// The name used in phases, profilers and reports.
    pub id: String,
    /// NVIDIA's name for it.
    pub name: String,
    /// Its purpose, in a few words.
    pub what: String,
    /// A function that libcupti exports if it has the API; a final `*` matches any suffix. `None` for an API entirely
    /// in its own library.
    #[serde(default)]
    pub exports: Option<String>,
    /// The first CUDA release with it, from its functions; `None` if it is as old as the function table.
    #[serde(skip)]
    pub since: Option<String>,
    /// The CUDA release that deprecates it.
    #[serde(default)]
    pub deprecated: Option<String>,
    /// The first CUDA release without it, although its functions are still exported.
    #[serde(default)]
    pub until: Option<String>,
    /// Its functions, which return an error since that release; a final `*` matches any suffix.
    #[serde(default)]
    pub ended: Vec<String>,
    /// The companion libraries that it needs in addition to libcupti and the driver.
    #[serde(default)]
    pub libraries: Vec<ApiLibrary>,
    /// Whether it reads hardware counters, for which the driver requires a privilege.
    pub counters: bool,
    /// How certain the entry is.
    pub certainty: Certainty,
    /// The source of the entry.
    pub source: String,
}

/// A library that an API needs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiLibrary {
    /// The requested name; a final `.*` stands for the installed soname's number.
    pub name: String,
    /// The requester.
    #[serde(rename = "got")]
    pub requester: LibraryRequester,
}

/// The requester of a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum LibraryRequester {
    /// libcupti opens it by its bare name, using its own search path in the process.
    #[serde(rename = "by-cupti")]
    Cupti,
    /// The program that uses the API links or opens it.
    #[serde(rename = "by-asker")]
    Program,
}

impl LibraryRequester {
    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cupti => "cupti",
            Self::Program => "asker",
        }
    }
}

names! {
    /// How certain an entry is.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
    pub enum Certainty {
        /// No one has checked it.
        Unverified = "unverified",
        /// A conclusion from observations or reports.
        Inferred = "inferred",
        /// Stated in a published text.
        Reported = "reported",
        /// Observed in a real file, in source code, or in a test run.
        Seen = "seen",
    }
}

impl CuptiApi {
    /// Whether a function is one that returns an error since the release that removed the API.
    pub fn has_ended(&self, function: &[u8]) -> bool {
        self.ended.iter().any(|pattern| matches_name_pattern(function, pattern))
    }

    /// Whether a libcupti that exports `function` has the API.
    pub fn is_shown_by(&self, function: &[u8]) -> bool {
        // The exports decide, not the release: 12.6.80 has the Range Profiling API, but 12.6.68 does not.
        let exports = self.exports.as_deref();
        exports.is_some_and(|pattern| matches_name_pattern(function, pattern))
    }
}

impl ApiLibrary {
    /// The name without its soname number.
    pub fn stem(&self) -> &str {
        // The number of nvprof's `libcuinj64.so.*` changes with the release, so no full name fits all.
        self.name.strip_suffix(".*").unwrap_or(&self.name)
    }

    /// Whether the name takes the number of the installed soname.
    pub fn is_numbered(&self) -> bool {
        self.name.ends_with(".*")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Certainty, LibraryRequester};
    use crate::knowledge::Knowledge;

    #[test]
    fn every_api_is_named_once_and_says_where_it_is_known_from() {
        let apis = &Knowledge::built_in().tables.apis;
        let ids: BTreeSet<&str> = apis.iter().map(|api| api.id.as_str()).collect();
        assert_eq!(ids.len(), apis.len());
        assert!(apis.iter().all(|api| !api.source.is_empty()));
        assert!(apis.iter().all(|api| api.certainty > Certainty::Unverified));
    }

    #[test]
    fn a_timeline_needs_libcupti_alone_and_counters_by_name_need_the_host_library() {
        let tables = Knowledge::built_in().tables;
        let libraries = |id: &str| -> Vec<(&str, LibraryRequester)> {
            let api = tables.find_api(id).unwrap();
            api.libraries
                .iter()
                .map(|library| (library.name.as_str(), library.requester))
                .collect()
        };
        assert_eq!(libraries("activity"), []);
        assert_eq!(
            libraries("range-profiling"),
            [("libnvperf_host.so", LibraryRequester::Cupti)]
        );
        assert_eq!(
            libraries("profiling"),
            [
                ("libnvperf_host.so", LibraryRequester::Program),
                ("libnvperf_target.so", LibraryRequester::Program)
            ]
        );
        assert!(tables.find_api("astrology").is_none());
    }

    #[test]
    fn the_functions_that_ended_are_those_that_the_headers_call_unsupported() {
        let tables = Knowledge::built_in().tables;
        let has_ended = |function: &str| tables.apis.iter().any(|api| api.has_ended(function.as_bytes()));
        let listed: BTreeSet<&String> = tables.ended_functions.iter().flat_map(|row| &row.functions).collect();
        let others: Vec<_> = listed.iter().filter(|function| !has_ended(function)).collect();
        // It tells about devices, and nobody has called it with 13.0.
        assert_eq!(others, [&"cuptiDeviceGetAttribute"]);
        let exported = tables.functions.spans.iter().filter(|span| span.covers("13.0.85"));
        let mut exported = exported.flat_map(|span| &span.functions);
        assert!(exported.all(|function| !has_ended(function) || listed.contains(function)));
    }

    #[test]
    fn an_export_shows_an_api_by_its_whole_name_or_by_its_stem() {
        let tables = Knowledge::built_in().tables;
        let shows = |id: &str, function: &[u8]| tables.find_api(id).unwrap().is_shown_by(function);
        assert!(shows("sass-metrics", b"cuptiSassMetricsEnable"));
        assert!(shows("activity", b"cuptiActivityEnable"));
        assert!(!shows("activity", b"cuptiActivityEnableContext"));
        assert!(!shows("checkpoint", b"cuptiActivityEnable"));
    }
}
