//! The packages that bring CUPTI, by distribution (`profiles/cupti/packages.yaml`).

use serde::Deserialize;

use super::api::Certainty;

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
        if let Some(url) = more.url {
            self.url = url;
        }
        if let Some(keyring) = more.keyring {
            self.keyring = keyring;
        }
        if let Some(pytorch) = more.pytorch {
            self.pytorch = pytorch;
        }
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
}
