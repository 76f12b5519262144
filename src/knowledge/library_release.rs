//! A library release by its CUDA version: its soname, its wheel's version, and its APIs.

use super::api::CuptiApi;

/// A release of a CUDA library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibraryRelease {
    /// The CUDA major and minor version.
    pub cuda: (u32, u32),
    /// The full version, such as `12.4.127`, if known for certain.
    pub exact: Option<String>,
    /// The soname of the library, such as `libcupti.so.12`.
    pub soname: String,
}

impl LibraryRelease {
    /// The version of its Python package, as precise as known; pip accepts the final `*`.
    pub fn wheel(&self) -> String {
        let (major, minor) = self.cuda;
        self.exact
            .clone()
            // The third number of a wheel is its build, which the CUDA version does not determine. pip picks the
            // newest.
            .unwrap_or_else(|| format!("{major}.{minor}.*"))
    }

    /// Whether the release has an API, according to the table.
    pub fn has(&self, api: &CuptiApi) -> bool {
        has_api(self.cuda, api)
    }
}

/// Whether a CUDA release has an API. APIs older than the table are in all releases.
pub fn has_api(cuda: (u32, u32), api: &CuptiApi) -> bool {
    let since = api.since.as_deref().map(version_numbers);
    // Compared as numbers: as text, 12.10 would precede 12.9.
    since.is_none_or(|since| since <= vec![cuda.0, cuda.1]) && !has_ended(cuda, api)
}

/// Whether a CUDA release no longer has an API.
pub fn has_ended(cuda: (u32, u32), api: &CuptiApi) -> bool {
    let until = api.until.as_deref().map(version_numbers);
    until.is_some_and(|until| until <= vec![cuda.0, cuda.1])
}

/// The numbers of a version, for comparison; empty if it is not a version.
pub fn version_numbers(version: &str) -> Vec<u32> {
    let numbers: Result<Vec<u32>, _> = version.split('.').map(str::parse).collect();
    // One invalid part invalidates the whole, because the rest would compare as an older version.
    numbers.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::knowledge::{Knowledge, has_api};

    #[test]
    fn an_api_is_in_the_releases_from_its_first_to_its_last() {
        let tables = Knowledge::built_in().tables;
        let has = |id: &str, cuda| has_api(cuda, tables.find_api(id).unwrap());
        assert_eq!(
            [(12, 9), (13, 0), (13, 5)].map(|cuda| has("event", cuda)),
            [true, false, false]
        );
        assert_eq!(
            [(12, 9), (13, 0), (13, 5)].map(|cuda| has("metric", cuda)),
            [true, false, false]
        );
        assert_eq!(
            [(12, 4), (12, 10), (13, 0)].map(|cuda| has("pm-sampling", cuda)),
            [false, true, true]
        );
        assert!(has("activity", (11, 0)) && has("activity", (13, 5)));
    }

    #[test]
    fn a_wheel_is_named_as_precisely_as_it_is_known() {
        let library = Knowledge::built_in().library;
        let wheel = |exact: Option<&str>| library.release((12, 4), exact.map(str::to_owned)).wheel();
        assert_eq!(wheel(Some("12.4.127")), "12.4.127");
        assert_eq!(wheel(None), "12.4.*");
    }
}
