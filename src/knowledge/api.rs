//! The APIs of CUPTI: what a libcupti that has one exports, and the libraries that it needs beside it.

use serde::Deserialize;

use super::patterns::matches_name_pattern;

/// An API of CUPTI (`profiles/cupti/apis.yaml`).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
// A misspelt key would else count as left out: an API without `since` is in every release.
#[serde(deny_unknown_fields)]
pub struct CuptiApi {
    /// The name used in phases, profilers and reports.
    pub id: String,
    /// The name that NVIDIA gives it.
    pub name: String,
    /// What it is for, in some words.
    pub what: String,
    /// A function that libcupti exports when it has the API; a final `*` stands for any rest. `None` for an
    /// API that is all in its own library.
    #[serde(default)]
    pub exports: Option<String>,
    /// The release of CUDA that brought it, by its functions; `None` for one as old as their table.
    #[serde(skip)]
    pub since: Option<String>,
    /// The release of CUDA that calls it deprecated.
    #[serde(default)]
    pub deprecated: Option<String>,
    /// The release of CUDA that no longer has it, though its functions are still exported.
    #[serde(default)]
    pub until: Option<String>,
    /// Its functions, which return an error from that release on; a final `*` stands for any rest.
    #[serde(default)]
    pub ended: Vec<String>,
    /// The libraries that it needs beside libcupti and the driver.
    #[serde(default)]
    pub libraries: Vec<ApiLibrary>,
    /// Whether hardware counters are read, for which the driver asks for a privilege.
    pub counters: bool,
    /// How sure the entry is.
    pub certainty: Certainty,
    /// Where it is known from.
    pub source: String,
}

/// A library that an API needs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiLibrary {
    /// The name that is asked for; one that ends in `.*` has the number of the soname that is there.
    pub name: String,
    /// Who asks for it.
    pub got: LibraryRequester,
}

/// Who asks for a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LibraryRequester {
    /// libcupti opens it by its bare name, from where it is mapped in the process.
    ByCupti,
    /// The program that uses the API links or opens it.
    ByAsker,
}

impl LibraryRequester {
    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::ByCupti => "cupti",
            Self::ByAsker => "asker",
        }
    }
}

/// How sure an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Certainty {
    /// Nobody has checked it.
    Unverified,
    /// It follows from what is seen or reported.
    Inferred,
    /// Read in somebody's text.
    Reported,
    /// Observed on a real file, in source code, or in a test that was run.
    Seen,
}

impl Certainty {
    /// The name used in the table and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unverified => "unverified",
            Self::Inferred => "inferred",
            Self::Reported => "reported",
            Self::Seen => "seen",
        }
    }
}

impl CuptiApi {
    /// Whether a function is one of those that return an error from the release on that no longer has the API.
    pub fn has_ended(&self, function: &[u8]) -> bool {
        self.ended.iter().any(|pattern| matches_name_pattern(function, pattern))
    }

    /// Whether a libcupti that exports `function` has the API.
    pub fn is_shown_by(&self, function: &[u8]) -> bool {
        // The exports decide, not the release: 12.6.80 has the Range Profiling API, 12.6.68 has not.
        let exports = self.exports.as_deref();
        exports.is_some_and(|pattern| matches_name_pattern(function, pattern))
    }
}

impl ApiLibrary {
    /// The name up to the number of its soname.
    pub fn stem(&self) -> &str {
        // The number of nvprof's `libcuinj64.so.*` follows the release, so that no whole name is right for all.
        self.name.strip_suffix(".*").unwrap_or(&self.name)
    }

    /// Whether the name has the number of the soname that is there.
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
                .map(|library| (library.name.as_str(), library.got))
                .collect()
        };
        assert_eq!(libraries("activity"), []);
        assert_eq!(
            libraries("range-profiling"),
            [("libnvperf_host.so", LibraryRequester::ByCupti)]
        );
        assert_eq!(
            libraries("profiling"),
            [
                ("libnvperf_host.so", LibraryRequester::ByAsker),
                ("libnvperf_target.so", LibraryRequester::ByAsker)
            ]
        );
        assert!(tables.find_api("astrology").is_none());
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
