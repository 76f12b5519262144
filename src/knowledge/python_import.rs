//! Describes what a Python import maps before the requesting object is loaded: the key `python` in a consumer's file.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::library_release::version_numbers;

/// How Python reaches an object that requests a library.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PythonImport {
    /// The distribution whose version selects the steps, in normalized form (with hyphens); a final `*` matches any
    /// suffix.
    #[serde(default)]
    pub distribution: Option<String>,
    /// The ids of programs whose packages are imported earlier.
    #[serde(default)]
    pub after: Vec<String>,
    /// The libraries opened by path, each as `FOLDER/NAME`, in order.
    #[serde(default)]
    pub libraries: Vec<String>,
    /// The places of each library in a `sys.path` folder: glob(7) patterns with the placeholders `{folder}` and
    /// `{library}`.
    #[serde(default)]
    pub places: Vec<String>,
    /// The first version that opens a library; older ones do not.
    #[serde(default)]
    pub since: BTreeMap<String, String>,
    /// The file names of libraries that it maps. An extension that needs one of them must be imported later.
    #[serde(default)]
    pub brings: Vec<String>,
    /// The files to open, in order.
    #[serde(default)]
    pub steps: Vec<ImportStep>,
    /// The files opened as the library itself before it is requested by name. They are patterns below the folders of
    /// `site.getsitepackages()` and the user's, or below an environment variable: `$CUDA_PATH|CUDA_HOME/lib/…` uses the
    /// first variable that is set. A library already mapped under one of the names takes precedence.
    #[serde(default)]
    pub opens: Vec<String>,
    /// The same kind of files, opened if the names lead nowhere. With `@NAME|NAME/` the pattern is below the toolkit of
    /// the first of these libraries that the loader finds.
    #[serde(default)]
    pub falls_back_on: Vec<String>,
    /// The distribution that searches below variables; without it the program does not.
    #[serde(default)]
    pub finder: Option<String>,
    /// Its package folders. Their modules are known, so the names that they open are not reported.
    #[serde(default)]
    pub packages: Vec<String>,
}

/// One step of an import.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImportStep {
    /// The first version with the step.
    #[serde(default)]
    pub since: Option<String>,
    /// The first version without it.
    #[serde(default)]
    pub before: Option<String>,
    /// A part of the path of a file that must already be mapped.
    #[serde(default)]
    pub mapped: Option<String>,
    /// A file to open, as a pattern below the `sys.path` folders.
    #[serde(default)]
    pub open: Option<String>,
    /// Whether to open all libraries if the loader rejects the file, and then retry it.
    #[serde(default)]
    pub else_libraries: bool,
    /// The libraries to open, and when to stop.
    #[serde(default)]
    pub libraries: Option<LibraryRow>,
}

/// When a package stops opening its libraries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LibraryRow {
    /// At the first that is missing or that the loader rejects.
    UntilMissing,
    /// At the first that the loader rejects; missing ones are skipped.
    UntilRefused,
    /// Never; failures are ignored.
    All,
}

impl PythonImport {
    /// The libraries and steps of one version of the distribution. An unknown version counts as the newest.
    #[must_use]
    pub fn of_version(&self, version: Option<&str>) -> Self {
        let mut python = self.clone();
        python.libraries.retain(|library| {
            let since = self.since.get(library).zip(version);
            since.is_none_or(|(since, version)| version_numbers(since) <= release_numbers(version))
        });
        python.steps.retain(|step| step.is_of_version(version));
        python
    }

    /// The patterns to search for a library.
    pub fn places_of(&self, library: &str) -> Vec<String> {
        let (folder, name) = library.split_once('/').unwrap_or(("", library));
        let fill = |place: &String| place.replace("{folder}", folder).replace("{library}", name);
        self.places.iter().map(fill).collect()
    }
}

impl ImportStep {
    /// Whether this version of the distribution takes the step; an unknown version counts as the newest.
    fn is_of_version(&self, version: Option<&str>) -> bool {
        let Some(version) = version.map(release_numbers) else {
            return self.before.is_none();
        };
        let reached = |bound: &Option<String>| bound.as_deref().map(|bound| version_numbers(bound) <= version);
        reached(&self.since).unwrap_or(true) && !reached(&self.before).unwrap_or(false)
    }
}

/// The release numbers: `2.10.0` of `2.10.0+cu128` or `2.10.0rc1`.
fn release_numbers(version: &str) -> Vec<u32> {
    let end = version.find(|c: char| !c.is_ascii_digit() && c != '.');
    let numbers = version.get(..end.unwrap_or(version.len())).unwrap_or_default();
    version_numbers(numbers.trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::ImportStep;

    #[test]
    fn the_version_decides_on_a_step_by_its_numbers() {
        let step = |since: Option<&str>, before: Option<&str>| ImportStep {
            since: since.map(str::to_owned),
            before: before.map(str::to_owned),
            mapped: None,
            open: None,
            else_libraries: false,
            libraries: None,
        };
        let takes = |version: Option<&str>| {
            let steps = [
                step(None, None),
                step(Some("2.10"), Some("2.14")),
                step(Some("2.14"), None),
            ];
            steps.map(|step| step.is_of_version(version))
        };
        assert_eq!(takes(Some("2.9.1")), [true, false, false]);
        assert_eq!(takes(Some("2.10.0+cu128")), [true, true, false]);
        assert_eq!(takes(Some("2.14.0rc1")), [true, false, true]);
        assert_eq!(takes(None), [true, false, true]);
    }
}
