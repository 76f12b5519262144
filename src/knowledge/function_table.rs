//! The functions that each CUPTI release exports (`profiles/cupti/functions.csv`). A soname shows only the major
//! version.

use super::api::CuptiApi;
use super::data_files::csv_words;
use super::library_release::version_numbers;

/// Functions exported by the same releases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionSpan {
    /// The first release that exports them.
    pub first: String,
    /// The last release that exports them, or the newest known one if they still exist.
    pub last: String,
    /// Their names.
    pub functions: Vec<String>,
}

/// The functions of all known releases.
#[derive(Debug, Clone, Default)]
pub struct FunctionTable {
    /// A function that was removed and restored is in several.
    pub spans: Vec<FunctionSpan>,
}

impl FunctionSpan {
    /// Reads a row of the table.
    pub(super) fn read([first, last, functions]: [&str; 3]) -> Self {
        Self {
            first: first.to_owned(),
            last: last.to_owned(),
            functions: csv_words(functions),
        }
    }

    /// Whether a release is in the span. A release without its third number, such as `12.6`, is not.
    pub fn covers(&self, release: &str) -> bool {
        let release = version_numbers(release);
        release.len() > 2 && version_numbers(&self.first) <= release && release <= version_numbers(&self.last)
    }
}

impl FunctionTable {
    /// Whether a release is known not to export a function. Releases outside the known range are unknown.
    pub fn lacks(&self, release: &str, function: &[u8]) -> bool {
        let mut covering = self.spans.iter().filter(|span| span.covers(release)).peekable();
        covering.peek().is_some() && !covering.any(|span| span.functions.iter().any(|name| name.as_bytes() == function))
    }

    /// The first CUDA version whose CUPTI exported an API; `None` if it is as old as the table, or of another library.
    pub(super) fn first_cuda_with(&self, api: &CuptiApi) -> Option<String> {
        let mut spans: Vec<&FunctionSpan> = self.spans.iter().collect();
        spans.sort_by_key(|span| version_numbers(&span.first));
        let oldest = spans.first()?;
        let mut exporting = spans.iter();
        let first = exporting.find(|span| span.functions.iter().any(|name| api.is_shown_by(name.as_bytes())))?;
        let mut parts = first.first.splitn(3, '.');
        let cuda = format!("{}.{}", parts.next()?, parts.next()?);
        (first.first != oldest.first).then_some(cuda)
    }
}

#[cfg(test)]
mod tests {
    use crate::knowledge::Knowledge;

    #[test]
    fn a_release_lacks_what_came_later_or_went_before() {
        let functions = &Knowledge::built_in().tables.functions;
        let lacks = |function: &str, releases: [&str; 4]| releases.map(|it| functions.lacks(it, function.as_bytes()));
        assert_eq!(
            lacks(
                "cuptiDeviceGetTimestamp",
                ["11.7.101", "12.1.105", "12.2.60", "13.0.85"]
            ),
            [false, false, true, true]
        );
        assert_eq!(
            lacks(
                "cuptiActivityEnableAllSyncRecords",
                ["11.8.87", "12.6.80", "12.8.57", "13.5.25"]
            ),
            [true, true, false, false]
        );
        // The two builds of 12.6 differ.
        assert_eq!(
            lacks("cuptiRangeProfilerEnable", ["12.6.37", "12.6.68", "12.6.80", "12.9.79"]),
            [true, true, false, false]
        );
        assert_eq!(
            lacks("cuptiSubscribe", ["11.7.101", "12.4.127", "12.7.1", "13.5.25"]),
            [false; 4]
        );
        assert!(functions.lacks("12.4.127", b"cuptiNoSuchFunction"));
    }

    #[test]
    fn nothing_is_said_of_a_release_that_was_not_read() {
        let functions = &Knowledge::built_in().tables.functions;
        let lacks = |release: &str| functions.lacks(release, b"cuptiNoSuchFunction");
        assert_eq!(["10.1.243", "99.1.0", "12.6", "no version"].map(lacks), [false; 4]);
    }

    #[test]
    fn the_release_that_brought_an_api_follows_from_its_functions() {
        let tables = Knowledge::built_in().tables;
        let since = |id: &str| tables.find_api(id).unwrap().since.as_deref();
        let ids = ["sass-metrics", "pm-sampling", "activity", "checkpoint"];
        assert_eq!(ids.map(since), [Some("12.2"), Some("12.6"), None, None]);
    }
}
