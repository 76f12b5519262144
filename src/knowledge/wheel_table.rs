//! The wheels in the Python package index (`profiles/cupti/wheels.csv`). A Dockerfile must only pin existing ones.

use std::collections::BTreeSet;

use super::library_release::{LibraryRelease, version_numbers};
use super::release_table::ReleaseTable;

/// A wheel in the index.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedWheel {
    /// The normalized name of its distribution.
    pub package: String,
    /// The version for pip.
    pub version: String,
    /// The processor, such as `x86_64`.
    pub arch: String,
    /// The wheel's SHA-256 in hexadecimal, from the index.
    pub sha256: String,
}

/// The wheels of CUPTI.
#[derive(Debug, Clone, Default)]
pub struct WheelTable {
    /// The wheels of all packages and processors.
    pub wheels: BTreeSet<ListedWheel>,
}

impl ListedWheel {
    /// Reads a row of the table.
    pub(super) fn read([package, version, arch, sha256]: [&str; 4]) -> Self {
        Self {
            package: package.to_owned(),
            version: version.to_owned(),
            arch: arch.to_owned(),
            sha256: sha256.to_owned(),
        }
    }
}

impl WheelTable {
    /// The version of `package` to request from pip for a release on a processor; `None` if the index has none.
    pub fn version_of(
        &self,
        package: &str,
        release: &LibraryRelease,
        arch: &str,
        releases: &ReleaseTable,
    ) -> Option<String> {
        let of_package = || self.wheels.iter().filter(|wheel| wheel.package == package);
        // A user's package is not in the list, so leave the check to pip.
        if of_package().next().is_none() {
            return Some(release.wheel());
        }
        let here = || {
            of_package()
                .filter(|wheel| wheel.arch == arch)
                .map(|wheel| &wheel.version)
        };
        if let Some(exact) = &release.exact {
            // An unknown exact version comes from a pin in the image, so pip installed it and the list may be outdated.
            // A version that only a distribution ships is known by its files.
            let mut files = releases.by_hash.values();
            let is_known = files.any(|file| file.versions.contains(exact));
            if here().any(|version| version == exact) || !is_known {
                return Some(exact.clone());
            }
        }
        let (major, minor) = release.cuda;
        let mut same: Vec<&String> = here()
            .filter(|version| version_numbers(version).starts_with(&[major, minor]))
            .collect();
        same.sort_by_key(|version| version_numbers(version));
        same.pop().cloned()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::knowledge::Knowledge;
    use crate::knowledge::library_release::version_numbers;

    #[test]
    fn a_pin_is_a_wheel_of_the_index_or_none() {
        let known = Knowledge::built_in();
        let version = |package: &str, cuda: (u32, u32), exact: Option<&str>, arch: &str| {
            let release = known.library.release(cuda, exact.map(str::to_owned));
            known
                .tables
                .wheels
                .version_of(package, &release, arch, &known.tables.releases)
        };
        let twelve = |cuda, exact, arch| version("nvidia-cuda-cupti-cu12", cuda, exact, arch);
        assert_eq!(twelve((12, 4), Some("12.4.99"), "x86_64").as_deref(), Some("12.4.99"));
        assert_eq!(twelve((12, 4), None, "x86_64").as_deref(), Some("12.4.127"));
        assert_eq!(twelve((12, 7), None, "x86_64"), None);
        // Ubuntu's 11.5.114 and Debian's 11.2 were never wheels, nor was 12.1 for Arm.
        let eleven = |cuda, exact| version("nvidia-cuda-cupti-cu11", cuda, exact, "x86_64");
        assert_eq!(eleven((11, 5), Some("11.5.114")), None);
        assert_eq!(eleven((11, 6), None), None);
        assert_eq!(twelve((12, 1), Some("12.1.105"), "aarch64"), None);
        // A version that an image pins but the list lacks is newer than the list.
        assert_eq!(twelve((12, 9), Some("12.9.999"), "x86_64").as_deref(), Some("12.9.999"));
        assert_eq!(version("x-cuda", (12, 4), None, "x86_64").as_deref(), Some("12.4.*"));
    }

    #[test]
    fn every_wheel_has_its_files_in_the_table_of_releases_and_every_toolkit_its_wheel() {
        let known = Knowledge::built_in();
        let tables = known.tables;
        for wheel in &tables.wheels.wheels {
            let files = tables.releases.files_of(&wheel.version, &wheel.arch);
            let stem = known.library.stem.as_str();
            let is_there = files.keys().any(|name| name.starts_with(stem));
            assert!(is_there && files.len() >= 3, "{wheel:?}: {files:?}");
            assert_eq!(wheel.sha256.len(), 64, "{wheel:?}");
        }
        let versions: BTreeSet<&str> = tables.wheels.wheels.iter().map(|wheel| &*wheel.version).collect();
        let packages: BTreeSet<&str> = tables.wheels.wheels.iter().map(|wheel| &*wheel.package).collect();
        let installed = known.library.wheels.install.iter().map(|wheel| &*wheel.name);
        assert_eq!(packages, installed.collect());
        for toolkit in &tables.toolkits {
            assert!(versions.contains(&*toolkit.cupti), "{toolkit:?}");
            let minor = |version: &str| version_numbers(version).get(..2).map(<[u32]>::to_vec);
            assert_eq!(minor(&toolkit.cuda), minor(&toolkit.cupti), "{toolkit:?}");
        }
    }
}
