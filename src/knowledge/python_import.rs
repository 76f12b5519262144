//! What a Python process maps when it imports a package, before the object that asks is loaded: the key `python` in the
//! file of a consumer.

use serde::Deserialize;

use super::library_release::version_numbers;

/// How Python gets to an object that asks for a library.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PythonImport {
    /// The distribution whose version decides on the steps; a final `*` stands for any rest.
    #[serde(default)]
    pub distribution: Option<String>,
    /// The programs whose packages are imported before, by id.
    #[serde(default)]
    pub after: Vec<String>,
    /// The libraries that are opened by path, each as `FOLDER/NAME`, in order.
    #[serde(default)]
    pub libraries: Vec<String>,
    /// Where each of them is looked for in a folder of `sys.path`: glob(7) patterns in which `{folder}` and
    /// `{library}` stand for its two parts.
    #[serde(default)]
    pub places: Vec<String>,
    /// Those of the libraries that not every version asks for, so that an import does not fail for want of one.
    #[serde(default)]
    pub optional: Vec<String>,
    /// The file names of libraries that it maps: an extension that needs one of them is imported after it.
    #[serde(default)]
    pub brings: Vec<String>,
    /// What is opened, in order.
    #[serde(default)]
    pub steps: Vec<ImportStep>,
    /// The files that are opened as the library itself before it is asked for by name, as patterns below the folders
    /// of `site.getsitepackages()` and the user's, or below a variable of the environment, `$CUDA_PATH|CUDA_HOME/lib/…`
    /// the first of several that is set; a library that is mapped by one of the names comes before them.
    #[serde(default)]
    pub opens: Vec<String>,
    /// The files of the same kind that are opened where the names lead to nothing; behind `@NAME|NAME/`, below the toolkit
    /// of the first of these libraries that the loader finds.
    #[serde(default)]
    pub falls_back_on: Vec<String>,
    /// The distribution that looks below variables; where it is missing, the program does not.
    #[serde(default)]
    pub finder: Option<String>,
    /// Its folders of packages, whose modules are known: what they say that they open is no news.
    #[serde(default)]
    pub packages: Vec<String>,
}

/// One thing that an import opens.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImportStep {
    /// The version that began with it.
    #[serde(default)]
    pub since: Option<String>,
    /// The version that no longer does it.
    #[serde(default)]
    pub before: Option<String>,
    /// A part of the path of a file that has to be mapped by now.
    #[serde(default)]
    pub mapped: Option<String>,
    /// A file to open, as a pattern below the folders of `sys.path`.
    #[serde(default)]
    pub open: Option<String>,
    /// Whether all libraries are opened when the loader refuses that, and the file once more.
    #[serde(default)]
    pub else_libraries: bool,
    /// The libraries, and what ends the row of them.
    #[serde(default)]
    pub libraries: Option<LibraryRow>,
}

/// How far a package goes in opening its libraries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LibraryRow {
    /// To the first that is not there, or that the loader refuses.
    UntilMissing,
    /// To the first that the loader refuses; what is not there is left out.
    UntilRefused,
    /// All of them, whatever becomes of each.
    All,
}

impl PythonImport {
    /// The patterns by which a library is looked for.
    pub fn places_of(&self, library: &str) -> Vec<String> {
        let (folder, name) = library.split_once('/').unwrap_or(("", library));
        let fill = |place: &String| place.replace("{folder}", folder).replace("{library}", name);
        self.places.iter().map(fill).collect()
    }
}

impl ImportStep {
    /// Whether this version of the distribution takes the step; one that is not known is taken for the newest.
    pub fn is_of_version(&self, version: Option<&str>) -> bool {
        let Some(version) = version.map(release_numbers) else {
            return self.before.is_none();
        };
        let reached = |bound: &Option<String>| bound.as_deref().map(|bound| version_numbers(bound) <= version);
        reached(&self.since).unwrap_or(true) && !reached(&self.before).unwrap_or(false)
    }
}

/// `2.10.0` of `2.10.0+cu128` or `2.10.0rc1`.
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
