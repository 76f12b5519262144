//! The packages that bring CUPTI, by distribution (`profiles/cupti/packages.yaml`).

use serde::Deserialize;

use super::api::Certainty;
use super::patterns::matches_name_pattern;

/// What is known of packages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CuptiPackages {
    /// The packages of the distributions themselves.
    pub own: Vec<DistroPackage>,
    /// The address of a repository of NVIDIA's, with `{repository}` and `{machine}` to fill in.
    pub url: String,
    /// The package in it that brings its key.
    pub keyring: String,
    /// The repositories of NVIDIA's.
    pub nvidia: Vec<NvidiaRepository>,
    /// The sources of PyTorch.
    pub pytorch: GitSource,
    /// How the toolkit lies in images.
    pub toolkit: ToolkitLayout,
    /// What packages bring that a Dockerfile installs.
    pub steps: Vec<InstalledPackage>,
    /// What images hold that a Dockerfile begins from.
    pub images: Vec<BaseImage>,
    /// The packages whose files and requirements are compared with the image.
    pub checked: Vec<CheckedPackage>,
    /// The folders of packages that no import needs.
    pub without: Vec<String>,
}

/// A file of packages, as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PackageFile {
    #[serde(default)]
    own: Vec<DistroPackage>,
    // Optional here, so that a user's file can add a package and leave NVIDIA's addresses as they are.
    url: Option<String>,
    keyring: Option<String>,
    #[serde(default)]
    nvidia: Vec<NvidiaRepository>,
    pytorch: Option<GitSource>,
    toolkit: Option<ToolkitLayout>,
    #[serde(default)]
    steps: Vec<InstalledPackage>,
    #[serde(default)]
    images: Vec<BaseImage>,
    #[serde(default)]
    checked: Vec<CheckedPackage>,
    #[serde(default)]
    without: Vec<String>,
}

/// How CUDA's toolkit lies in images.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolkitLayout {
    /// What the absolute paths of its folders begin with.
    pub folder: String,
    /// Where packages keep its libraries.
    pub libraries: String,
    /// The folder of headers and samples, as a part of a path in lower case.
    pub extras: String,
    /// The first CUDA whose packages keep the library with the others, and not in that folder.
    pub extras_until: String,
    /// What the name of the runfile begins with that installs it.
    pub installer: String,
    /// How its runtime is told.
    pub runtime: RuntimeNames,
}

/// What tells a CUDA runtime and its version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuntimeNames {
    /// The name of its file up to the version.
    pub file: String,
    /// What the names of its wheels begin with.
    pub wheel: String,
    /// The component in the toolkit's `version.json`.
    pub component: String,
    /// The package of conda that holds the others of its environment to one CUDA.
    pub conda: String,
}

/// What a step of a build brings of the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepYield {
    /// The library, where the loader finds it.
    Library,
    /// A copy that programs with search paths of their own get.
    Wheel,
    /// Files, and the library is not among them.
    Nothing,
    /// There is no such package.
    Absent,
}

/// What installs a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PackageManager {
    /// That of the distribution, such as apt and dnf.
    System,
    /// pip, or what takes its arguments.
    Pip,
    /// conda, mamba, or micromamba.
    Conda,
}

/// A package that a Dockerfile may install.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstalledPackage {
    /// The program by which it is installed.
    pub manager: PackageManager,
    /// Its name, with `{major}` and `{minor}` for the numbers of its CUDA.
    pub name: String,
    /// What is there of the library once it is installed.
    pub brings: StepYield,
    /// Whether it is the distribution's own, of the only CUDA that this has.
    #[serde(default)]
    pub own: bool,
    /// How sure it is.
    pub certainty: Certainty,
}

/// A package whose files and requirements are compared with the image.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckedPackage {
    /// The manager that keeps the list of its files.
    pub manager: PackageManager,
    /// Its name, of a distribution of Python in normal form; a final `*` stands for any rest.
    pub name: String,
    /// Whether what its metadata requires is compared with what is installed.
    #[serde(default)]
    pub requires: bool,
    /// The extras that may have been asked for.
    #[serde(default)]
    pub extras: Vec<String>,
}

/// An image that a Dockerfile may begin from.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaseImage {
    /// The end of its name, from a slash on.
    pub name: String,
    /// A word that its tag holds.
    #[serde(default)]
    pub tag: String,
    /// What is there of the library in it.
    pub brings: StepYield,
    /// The folders on its `LD_LIBRARY_PATH` where it has the library.
    #[serde(default)]
    pub searched: Vec<LibraryPathFolder>,
    /// How sure it is.
    pub certainty: Certainty,
}

/// A folder that an image searches for libraries from a version of CUDA on.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LibraryPathFolder {
    /// Its absolute path, without a slash at the end.
    pub folder: String,
    /// The first version of CUDA.
    pub from: String,
}

impl InstalledPackage {
    /// The numbers of CUDA in the name of a package, if it is this one; the second is 0 where the name has one alone.
    pub fn cuda_of_name(&self, name: &str) -> Option<Option<(u32, u32)>> {
        let Some((before, after)) = self.name.split_once("{major}") else {
            return (self.name == name).then_some(None);
        };
        let numbers = name.strip_prefix(before)?;
        match after.strip_suffix("{minor}") {
            None => Some(Some((numbers.strip_suffix(after)?.parse().ok()?, 0))),
            Some(between) => {
                let (major, minor) = numbers.split_once(between)?;
                Some(Some((major.parse().ok()?, minor.parse().ok()?)))
            }
        }
    }
}

/// Where a program is built from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct GitSource {
    /// The address of its repository.
    pub url: String,
    /// The tag or branch.
    #[serde(rename = "ref")]
    pub reference: String,
}

/// A distribution's own package.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DistroPackage {
    /// `ID` of the distribution.
    pub id: String,
    /// `VERSION_ID` of the distribution, as os-release(5) has it.
    pub version: String,
    /// The component of the archive that holds it.
    pub component: String,
    /// The name that apt or dnf takes.
    pub package: String,
    /// The major and minor version of CUDA that it is of.
    pub cuda: String,
    /// How sure it is.
    pub certainty: Certainty,
}

/// A repository of NVIDIA's.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NvidiaRepository {
    /// `ID` of the distribution.
    pub id: String,
    /// `VERSION_ID`; with a final `.*`, all that begin so.
    pub version: String,
    /// The name of the repository.
    pub repository: String,
    /// What the tags of the devel images end in.
    #[serde(default)]
    pub devel: Option<String>,
    /// How sure it is.
    pub certainty: Certainty,
}

impl CuptiPackages {
    /// Adds what another file says: its packages come after those that are known, its addresses in their place.
    pub(super) fn add(&mut self, more: PackageFile) {
        // The first that fits counts, so that a user adds distributions and changes none unseen.
        self.own.extend(more.own);
        self.nvidia.extend(more.nvidia);
        self.steps.extend(more.steps);
        self.images.extend(more.images);
        self.checked.extend(more.checked);
        self.without.extend(more.without);
        if let Some(url) = more.url {
            self.url = url;
        }
        if let Some(keyring) = more.keyring {
            self.keyring = keyring;
        }
        if let Some(pytorch) = more.pytorch {
            self.pytorch = pytorch;
        }
        if let Some(toolkit) = more.toolkit {
            self.toolkit = toolkit;
        }
    }

    /// The row of a package whose files are compared with the image; the first that fits counts.
    pub fn checked_package(&self, manager: PackageManager, name: &str) -> Option<&CheckedPackage> {
        let mut all = self.checked.iter();
        all.find(|checked| checked.manager == manager && matches_name_pattern(name.as_bytes(), &checked.name))
    }

    /// The own package of a distribution.
    pub fn distro_package(&self, id: &str, version: &str) -> Option<&DistroPackage> {
        let mut all = self.own.iter();
        all.find(|own| own.id == id && is_version(&own.version, version))
    }

    /// NVIDIA's repository for a distribution.
    pub fn nvidia_repository(&self, id: &str, version: &str) -> Option<&NvidiaRepository> {
        let mut all = self.nvidia.iter();
        all.find(|of| of.id == id && is_version(&of.version, version))
    }
}

/// Whether a version is the one that is written, or begins with it.
fn is_version(written: &str, version: &str) -> bool {
    match written.strip_suffix(".*") {
        // NVIDIA has one repository for all of Rocky 9; 90.1 does not begin with the same number.
        Some(major) => version.split('.').next() == Some(major),
        None => version == written,
    }
}

#[cfg(test)]
mod tests {
    use super::StepYield;
    use crate::knowledge::Knowledge;

    #[test]
    fn a_distribution_has_the_package_of_its_own_version_alone() {
        let packages = &Knowledge::built_in().tables.packages;
        let own = |id, version| packages.distro_package(id, version).map(|own| own.package.as_str());
        assert_eq!(own("debian", "12"), Some("libcupti11.8"));
        assert_eq!(own("debian", "10"), None);
        assert_eq!(own("fedora", "12"), None);
        let nvidia = |id, version| packages.nvidia_repository(id, version).map(|of| of.repository.as_str());
        assert_eq!(nvidia("rocky", "9.4"), Some("rhel9"));
        assert_eq!(nvidia("rocky", "90.1"), None);
        assert_eq!(nvidia("ubuntu", "22.04"), Some("ubuntu2204"));
        assert_eq!(nvidia("alpine", "3.20"), None);
    }

    #[test]
    fn a_package_is_known_by_the_numbers_in_its_name() {
        let packages = &Knowledge::built_in().tables.packages;
        let find = |name: &str| {
            let mut found = packages
                .steps
                .iter()
                .filter_map(|step| Some((step.brings, step.cuda_of_name(name)?)));
            found.next()
        };
        assert_eq!(
            find("cuda-libraries-dev-12-4"),
            Some((StepYield::Nothing, Some((12, 4))))
        );
        assert_eq!(find("cuda-toolkit-12-4"), Some((StepYield::Library, Some((12, 4)))));
        assert_eq!(find("cuda-toolkit-12-4-config-common"), None);
        assert_eq!(find("nvidia-cuda-cupti-cu11"), Some((StepYield::Wheel, Some((11, 0)))));
        assert_eq!(find("torch"), Some((StepYield::Wheel, None)));
    }
}
