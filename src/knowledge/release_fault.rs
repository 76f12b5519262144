//! Known faults of CUPTI's releases (`profiles/cupti/release-faults.yaml`).

use serde::Deserialize;

use super::library_release::version_numbers;

/// A fault in some releases.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseFault {
    /// Its name in the table.
    pub id: String,
    /// The first release known to have it; `None` for all old ones.
    #[serde(default)]
    pub from: Option<String>,
    /// The first release without it.
    pub before: String,
    /// The failing part, as the end of a sentence.
    pub what: String,
    /// The workaround, as an imperative.
    pub fix: String,
    /// The month in which the source was read.
    pub read: String,
    /// The source of the entry.
    pub source: String,
}

impl ReleaseFault {
    /// Whether a release is known to have it. A version without a third number is ambiguous and counts as the oldest
    /// match.
    pub fn concerns(&self, version: &str) -> bool {
        let release = version_numbers(version);
        let from = self.from.as_deref().map(version_numbers).unwrap_or_default();
        !release.is_empty() && from <= release && release < version_numbers(&self.before)
    }
}

#[cfg(test)]
mod tests {
    use crate::knowledge::{Knowledge, version_numbers};

    #[test]
    fn a_fault_is_that_of_the_releases_from_the_first_to_the_one_that_mended_it() {
        let faults = &Knowledge::built_in().tables.release_faults;
        let ids = |version: &str| -> Vec<&str> {
            let concerned = faults.iter().filter(|fault| fault.concerns(version));
            concerned.map(|fault| fault.id.as_str()).collect()
        };
        assert_eq!(ids("10.1.243"), ["tracing-needs-privilege"]);
        assert_eq!(ids("10.2.89"), [""; 0]);
        assert_eq!(ids("12.4.99"), ["crash-with-cuda-graphs"]);
        assert_eq!(ids("12.4.127"), [""; 0]);
        assert_eq!(ids("13.2.86"), ["version-crashes-without-driver"]);
        for unknown in ["12.4", "13.2", "", "no version"] {
            assert_eq!(ids(unknown), [""; 0], "{unknown}");
        }
    }

    #[test]
    fn every_fault_has_releases_a_date_and_a_source() {
        for fault in &Knowledge::built_in().tables.release_faults {
            let from = fault.from.as_deref().map(version_numbers).unwrap_or_default();
            assert!(from < version_numbers(&fault.before), "{}", fault.id);
            assert!(fault.read.len() == 7 && !fault.source.is_empty(), "{}", fault.id);
        }
    }
}
