//! Identifies the release of a library file: by the SHA-256 of known files (`profiles/cupti/releases.csv`), and by the
//! CUDA version for CUPTI's own release numbers in file names (`profiles/cupti/file-names.yaml`).

use std::collections::{BTreeMap, BTreeSet};

use super::data_files::csv_words;
use super::library_release::version_numbers;

/// A file of a known release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseFile {
    /// The versions that ship the identical file; empty for a build bundled with a tool.
    pub versions: Vec<String>,
    /// The tool that bundles it.
    pub bundle: Option<String>,
    /// The processor, such as `x86_64`.
    pub arch: String,
    /// The file name in the package, such as `libcupti.so.12`.
    pub file: String,
    /// Its size in bytes.
    pub bytes: u64,
}

/// The CUPTI releases with known file hashes.
#[derive(Debug, Clone, Default)]
pub struct ReleaseTable {
    /// By SHA-256 in hexadecimal.
    pub by_hash: BTreeMap<String, ReleaseFile>,
    /// The CUDA version for CUPTI's own release numbers, such as `12.4` for `2024.1`.
    pub cuda_by_name: BTreeMap<String, String>,
}

impl ReleaseFile {
    /// Reads a row of the table: a hash, and its file.
    pub(super) fn read([sha256, versions, bundle, arch, file, bytes]: [&str; 6]) -> (String, Self) {
        let release = Self {
            versions: csv_words(versions),
            bundle: Some(bundle.to_owned()).filter(|bundle| !bundle.is_empty()),
            arch: arch.to_owned(),
            file: file.to_owned(),
            bytes: bytes.parse().expect("a test reads the tables of the program"),
        };
        (sha256.to_owned(), release)
    }
}

impl ReleaseTable {
    /// The releases with known files for a processor, oldest first.
    pub fn versions_for(&self, arch: &str) -> Vec<&str> {
        let of_arch = self.by_hash.values().filter(|file| file.arch == arch);
        // A release has a row per file, and several releases may share a file.
        let unique: BTreeSet<&str> = of_arch.flat_map(|file| &file.versions).map(String::as_str).collect();
        let mut versions: Vec<&str> = unique.into_iter().collect();
        // The set is in text order, where 12.10 precedes 12.9.
        versions.sort_by_key(|version| version_numbers(version));
        versions
    }

    /// The files of one release for a processor, by name, with their sizes in bytes.
    pub fn files_of(&self, version: &str, arch: &str) -> BTreeMap<&str, u64> {
        let files = self
            .by_hash
            .values()
            .filter(|file| file.arch == arch && file.versions.iter().any(|of| of == version));
        files.map(|file| (file.file.as_str(), file.bytes)).collect()
    }

    /// The CUDA version for the number in a file name: `2024.1.1` means 12.4, and `11.8` means 11.8; `12` is too
    /// imprecise.
    pub fn cuda_of_number(&self, number: &str) -> Option<String> {
        let parts: Vec<&str> = number.split('.').collect();
        match parts.as_slice() {
            // A year means CUPTI's own release numbers, used since CUDA 11.
            [year, release, ..] if year.len() == 4 => self.cuda_by_name.get(&format!("{year}.{release}")).cloned(),
            [major, minor, ..] if major.parse::<u32>().is_ok() && minor.parse::<u32>().is_ok() => {
                Some(number.to_owned())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::knowledge::Knowledge;

    #[test]
    fn the_files_of_a_release_have_their_sizes() {
        let releases = &Knowledge::built_in().tables.releases;
        let of = releases.files_of("12.4.127", "x86_64");
        assert_eq!(of.len(), 5);
        assert_eq!(of.get("libnvperf_host.so"), Some(&28_132_984));
        assert_eq!(
            releases.files_of("12.5.82", "aarch64").get("libcupti.so.12"),
            Some(&6_905_440)
        );
        assert_eq!(releases.files_of("12.7.1", "x86_64").len(), 0);
        let versions = releases.versions_for("x86_64");
        assert_eq!(versions.first(), Some(&"10.1.243"));
        assert_eq!(versions.last(), Some(&"13.5.25"));
    }

    #[test]
    fn a_hash_names_the_exact_release_and_a_bundle_names_its_tool() {
        let releases = &Knowledge::built_in().tables.releases;
        let by_hash = |hash: &str| releases.by_hash.get(hash).unwrap();
        let release = by_hash("fb2a7c5b15c84df9505dd47e553fe46f3121a57d30391fca24179d202f73f3f7");
        assert_eq!(release.versions, ["12.4.127"]);
        assert_eq!(release.bundle, None);
        let private = by_hash("5086e51ba2422dccda90a764cf400b11f29d5e68418512ceb51fe9dc9c22f9dd");
        assert!(private.versions.is_empty());
        assert_eq!(private.bundle.as_deref(), Some("Nsight Systems 2023.4.4"));
    }

    #[test]
    fn the_number_of_a_file_name_says_the_cuda_version() {
        let releases = &Knowledge::built_in().tables.releases;
        let cuda = |number| releases.cuda_of_number(number);
        assert_eq!(cuda("2024.1.1").as_deref(), Some("12.4"));
        assert_eq!(cuda("11.8").as_deref(), Some("11.8"));
        assert_eq!(cuda("10.2.75").as_deref(), Some("10.2.75"));
        assert_eq!(cuda("12"), None);
    }
}
