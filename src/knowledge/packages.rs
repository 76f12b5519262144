//! The packages with CUPTI, by distribution (`profiles/cupti/packages.yaml`).

use serde::Deserialize;

use super::api::Certainty;
use super::library_release::version_numbers;
use super::patterns::matches_name_pattern;

/// The known packages.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CuptiPackages {
    /// The distributions' own packages.
    pub own: Vec<DistroPackage>,
    /// The address of an NVIDIA repository, with the placeholders `{repository}` and `{machine}`.
    pub url: String,
    /// Its package with the signing key.
    pub keyring: String,
    /// The NVIDIA repositories.
    pub nvidia: Vec<NvidiaRepository>,
    /// The sources of PyTorch.
    pub pytorch: PytorchSource,
    /// The machines of Cloud Build.
    pub cloud_build: CloudBuildMachines,
    /// The layout of the toolkit in images.
    pub toolkit: ToolkitLayout,
    /// The packages whose files and requirements are checked against the image.
    pub checked: Vec<CheckedPackage>,
    /// The package folders that no import needs.
    pub without: Vec<String>,
}

/// The layout of the CUDA toolkit in images.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolkitLayout {
    /// The prefix of its folders' absolute paths.
    pub folder: String,
    /// The folder where packages install its libraries.
    pub libraries: String,
    /// The folder of headers and samples, as a lower-case part of a path.
    pub extras: String,
    /// The first CUDA version whose packages install the library with the others instead of in that folder.
    pub extras_until: String,
    /// The prefix of the runfile that installs it.
    pub installer: String,
    /// How to recognize its runtime.
    pub runtime: RuntimeNames,
}

/// How to recognize a CUDA runtime and its version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuntimeNames {
    /// Its file name before the version.
    pub file: String,
    /// The prefix of its wheels.
    pub wheel: String,
    /// The component in the toolkit's `version.json`.
    pub component: String,
    /// The conda package that pins its environment to one CUDA version.
    pub conda: String,
}

/// The manager of a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PackageManager {
    /// The distribution's manager, such as apt or dnf.
    System,
    /// pip, or a program with the same arguments.
    Pip,
    /// conda, mamba, or micromamba.
    Conda,
}

/// A package whose files and requirements are checked against the image.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckedPackage {
    /// The manager that lists its files.
    pub manager: PackageManager,
    /// Its name, normalized for a Python distribution; a final `*` matches any suffix.
    pub name: String,
    /// Whether to check the requirements in its metadata against the installed packages.
    #[serde(default)]
    pub requires: bool,
    /// The extras that may have been requested.
    #[serde(default)]
    pub extras: Vec<String>,
}

/// The sources of PyTorch, and how to compile them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PytorchSource {
    /// The address of the repository.
    pub url: String,
    /// The tag or branch.
    #[serde(rename = "ref")]
    pub reference: String,
    /// The compute capabilities to compile for, if the toolkit supports them.
    pub capabilities: Vec<String>,
    /// The most gigabytes that one compiler takes.
    pub job_memory: u32,
}

/// The machines of Cloud Build.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CloudBuildMachines {
    /// For a build that compiles.
    pub compiles: CloudBuildMachine,
    /// For a build that only installs.
    pub installs: CloudBuildMachine,
}

/// A machine type of Cloud Build.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CloudBuildMachine {
    /// Its name in a build config.
    pub machine: String,
    /// Its gigabytes of memory.
    pub memory: u32,
}

/// A distribution's own package.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DistroPackage {
    /// `ID` of the distribution.
    pub id: String,
    /// `VERSION_ID` of the distribution (os-release(5)).
    pub version: String,
    /// The component of the archive that has it.
    pub component: String,
    /// The name for apt or dnf.
    pub package: String,
    /// Its CUDA major and minor version.
    pub cuda: String,
    /// How certain the entry is.
    pub certainty: Certainty,
}

/// An NVIDIA repository.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NvidiaRepository {
    /// `ID` of the distribution.
    pub id: String,
    /// `VERSION_ID`; a final `.*` matches any minor version.
    pub version: String,
    /// The name of the repository.
    pub repository: String,
    /// The only machine that the row is for, as in the repository's address; `None` for all.
    #[serde(default)]
    pub machine: Option<String>,
    /// The first CUDA release that it has; `None` if unknown.
    #[serde(default)]
    pub first: Option<String>,
    /// The last one; `None` if unknown, or if it still gets new ones.
    #[serde(default)]
    pub last: Option<String>,
    /// The releases between them that it does not have.
    #[serde(default)]
    pub lacks: Vec<String>,
    /// The suffix of the devel images' tags.
    #[serde(default)]
    pub devel: Option<String>,
    /// How certain the entry is.
    pub certainty: Certainty,
}

impl NvidiaRepository {
    /// Whether it has the packages of a CUDA release, as far as known.
    pub fn has(&self, (major, minor): (u32, u32)) -> bool {
        let (first, last) = (self.first.as_deref(), self.last.as_deref());
        let cuda = vec![major, minor];
        !self.lacks.contains(&format!("{major}.{minor}"))
            && first.is_none_or(|first| version_numbers(first) <= cuda)
            && last.is_none_or(|last| cuda <= version_numbers(last))
    }

    /// The releases that it has, as the end of a sentence.
    pub fn releases(&self) -> String {
        match (&self.first, &self.last) {
            (Some(first), Some(last)) if !self.lacks.is_empty() => {
                format!("CUDA {first} to {last} without {}", self.lacks.join(", "))
            }
            (Some(first), Some(last)) => format!("CUDA {first} to {last}"),
            (Some(first), None) => format!("CUDA {first} and newer"),
            (None, Some(last)) => format!("CUDA up to {last}"),
            (None, None) => "unknown releases of CUDA".to_owned(),
        }
    }
}

impl CuptiPackages {
    /// The row of a package to check against the image; the first match applies.
    pub fn checked_package(&self, manager: PackageManager, name: &str) -> Option<&CheckedPackage> {
        let mut all = self.checked.iter();
        all.find(|checked| checked.manager == manager && matches_name_pattern(name.as_bytes(), &checked.name))
    }

    /// A distribution's own package.
    pub fn distro_package(&self, id: &str, version: &str) -> Option<&DistroPackage> {
        let mut all = self.own.iter();
        all.find(|own| own.id == id && is_version(&own.version, version))
    }

    /// NVIDIA's repository for a distribution and a machine: `x86_64`, or `sbsa` for 64-bit Arm.
    pub fn nvidia_repository(&self, id: &str, version: &str, machine: &str) -> Option<&NvidiaRepository> {
        self.nvidia.iter().find(|of| {
            let is_for_machine = of.machine.as_deref().is_none_or(|only| only == machine);
            of.id == id && is_version(&of.version, version) && is_for_machine
        })
    }
}

/// Whether a version matches the written one.
fn is_version(written: &str, version: &str) -> bool {
    match written.strip_suffix(".*") {
        // NVIDIA has one repository for all of Rocky 9; 90.1 must not match.
        Some(major) => version.split('.').next() == Some(major),
        None => version == written,
    }
}

#[cfg(test)]
mod tests {
    use crate::knowledge::Knowledge;

    #[test]
    fn a_distribution_has_the_package_of_its_own_version_alone() {
        let packages = &Knowledge::built_in().tables.packages;
        let own = |id, version| packages.distro_package(id, version).map(|own| own.package.as_str());
        assert_eq!(own("debian", "12"), Some("libcupti11.8"));
        assert_eq!(own("debian", "10"), None);
        assert_eq!(own("fedora", "12"), None);
        let nvidia = |id, version| {
            packages
                .nvidia_repository(id, version, "x86_64")
                .map(|of| of.repository.as_str())
        };
        assert_eq!(nvidia("rocky", "9.4"), Some("rhel9"));
        assert_eq!(nvidia("rocky", "90.1"), None);
        assert_eq!(nvidia("ol", "8.10"), Some("rhel8"));
        assert_eq!(nvidia("ol", "10.0"), Some("rhel10"));
        assert_eq!(nvidia("ol", "7.9"), None);
        assert_eq!(nvidia("ubuntu", "22.04"), Some("ubuntu2204"));
        assert_eq!(nvidia("alpine", "3.20"), None);
    }

    #[test]
    fn a_repository_has_the_releases_from_its_first_to_its_last() {
        let packages = &Knowledge::built_in().tables.packages;
        let has = |id, version, cuda| packages.nvidia_repository(id, version, "x86_64").unwrap().has(cuda);
        assert!(!has("ubuntu", "24.04", (11, 8)) && !has("ubuntu", "24.04", (12, 4)));
        assert!(has("ubuntu", "24.04", (12, 5)) && has("ubuntu", "24.04", (13, 5)));
        assert!(has("ubuntu", "20.04", (12, 9)) && !has("ubuntu", "20.04", (13, 0)));
        // The releases of a year are missing there.
        assert!(has("debian", "10", (11, 4)) && !has("debian", "10", (11, 6)) && has("debian", "10", (12, 1)));
        let of_arm = packages.nvidia_repository("amzn", "2023", "sbsa").unwrap();
        assert!(has("amzn", "2023", (12, 6)) && !of_arm.has((12, 6)) && of_arm.has((12, 9)));
        assert!(packages.nvidia_repository("fedora", "44", "sbsa").is_none());
        // Nobody knows its oldest.
        assert!(has("rhel", "9.4", (11, 0)));
    }
}
