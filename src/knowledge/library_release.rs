//! A release of a library by the CUDA that it is of: its soname, the version of its wheel, the APIs that it has.

use super::api::CuptiApi;

/// A release of a library of CUDA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibraryRelease {
    /// The major and minor version of CUDA.
    pub cuda: (u32, u32),
    /// The whole version, such as `12.4.127`, where one is known for certain.
    pub exact: Option<String>,
    /// The soname of the library, such as `libcupti.so.12`.
    pub soname: String,
}

impl LibraryRelease {
    /// The version of its Python package, as precise as it is known; pip takes the final `*`.
    pub fn wheel(&self) -> String {
        let (major, minor) = self.cuda;
        self.exact
            .clone()
            // The third number of a wheel is its build, which CUDA's version does not tell: pip takes the newest.
            .unwrap_or_else(|| format!("{major}.{minor}.*"))
    }

    /// Whether the release has an API, by the table.
    pub fn has(&self, api: &CuptiApi) -> bool {
        has_api(self.cuda, api)
    }
}

/// Whether the release of a CUDA has an API. One older than the table is in all of them.
pub fn has_api(cuda: (u32, u32), api: &CuptiApi) -> bool {
    let since = api.since.as_deref().map(version_numbers);
    // As numbers: by letters 12.10 would come before 12.9.
    since.is_none_or(|since| since <= vec![cuda.0, cuda.1]) && !has_ended(cuda, api)
}

/// Whether the release of a CUDA has an API no more.
pub fn has_ended(cuda: (u32, u32), api: &CuptiApi) -> bool {
    let until = api.until.as_deref().map(version_numbers);
    until.is_some_and(|until| until <= vec![cuda.0, cuda.1])
}

/// The numbers of a version, for comparing; empty for what is no version.
pub fn version_numbers(version: &str) -> Vec<u32> {
    let numbers: Result<Vec<u32>, _> = version.split('.').map(str::parse).collect();
    // One part that is no number makes the whole none: the rest would compare as an old version.
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
