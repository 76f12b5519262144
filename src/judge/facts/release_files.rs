//! Which release of CUPTI a file is: by its hash, else by its name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use crate::knowledge::version_numbers;

/// Where a version is known from, the surest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum VersionSource {
    /// The file's SHA-256 is that of a known release.
    Hash,
    /// The package that owns the file.
    Package,
    /// The file's name.
    FileName,
    /// The header beside it.
    Header,
}

impl VersionSource {
    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::Package => "package",
            Self::FileName => "file-name",
            Self::Header => "header",
        }
    }
}

/// A file of a known release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseFile {
    /// The versions that ship the identical file; none for a build that a tool brings for itself.
    pub versions: Vec<&'static str>,
    /// The tool that brings it.
    pub bundle: Option<&'static str>,
    /// The processor, as in `x86_64`.
    pub arch: &'static str,
    /// The name of the file.
    pub file: &'static str,
    /// Its size in bytes.
    pub bytes: u64,
}

static RELEASES: LazyLock<BTreeMap<&'static str, ReleaseFile>> = LazyLock::new(|| {
    let rows = include_str!("../../../profiles/cupti/releases.csv")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .skip(1);
    rows.filter_map(|row| {
        let mut fields = row.split(',');
        let (hash, versions, bundle) = (fields.next()?, fields.next()?, fields.next()?);
        let bundle = (!bundle.is_empty()).then_some(bundle);
        Some((
            hash,
            ReleaseFile {
                versions: versions.split_whitespace().collect(),
                bundle,
                arch: fields.next()?,
                file: fields.next()?,
                bytes: fields.next()?.parse().ok()?,
            },
        ))
    })
    .collect()
});

static FILE_NAMES: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    serde_saphyr::from_str(include_str!("../../../profiles/cupti/file-names.yaml"))
        .expect("the file is part of the program and read by a test")
});

/// The release that a SHA-256 names.
pub fn release_file_by_hash(sha256: &str) -> Option<&'static ReleaseFile> {
    RELEASES.get(sha256)
}

/// The releases whose files are known for a processor, the oldest first.
pub fn known_release_versions(arch: &str) -> Vec<&'static str> {
    let of_arch = RELEASES.values().filter(|release| release.arch == arch);
    let versions: BTreeSet<&str> = of_arch
        .flat_map(|release| &release.versions)
        .copied()
        .collect();
    let mut versions: Vec<&str> = versions.into_iter().collect();
    versions.sort_by_key(|version| version_numbers(version));
    versions
}

/// The files of one release for a processor, by name.
pub fn files_of_release(version: &str, arch: &str) -> BTreeMap<&'static str, u64> {
    let ours = |release: &&ReleaseFile| release.arch == arch && release.versions.contains(&version);
    let files = RELEASES.values().filter(ours);
    files.map(|release| (release.file, release.bytes)).collect()
}

/// The CUDA version that the name of a libcupti carries: `libcupti.so.2024.1.1` is of 12.4,
/// `libcupti.so.11.8` of 11.8, `libcupti.so.12` says too little.
pub fn version_by_file_name(name: &[u8]) -> Option<String> {
    let number = std::str::from_utf8(name.strip_prefix(b"libcupti.so.")?).ok()?;
    let parts: Vec<&str> = number.split('.').collect();
    match parts.as_slice() {
        [year, release, ..] if year.len() == 4 => {
            FILE_NAMES.get(&format!("{year}.{release}")).cloned()
        }
        [major, minor, ..] if major.parse::<u32>().is_ok() && minor.parse::<u32>().is_ok() => {
            Some(number.to_owned())
        }
        _ => None,
    }
}

/// The CUDA version of a header: `CUPTI_API_VERSION` counted up to 28, then became `major * 10000 + …`.
pub fn version_by_header(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?;
    let rest = text.split("#define CUPTI_API_VERSION").nth(1)?;
    let number: u32 = rest
        .trim_start()
        .split(|c: char| !c.is_ascii_digit())
        .next()?
        .parse()
        .ok()?;
    let counted = [
        (18, "11.8"),
        (19, "12.0"),
        (20, "12.2"),
        (21, "12.3"),
        (22, "12.4"),
        (23, "12.5"),
        (24, "12.6"),
        (26, "12.8"),
        (27, "12.9"),
        (28, "12.9"),
    ];
    if number >= 130_000 {
        return Some(format!("{}.{}", number / 10_000, number / 100 % 100));
    }
    counted
        .iter()
        .find(|(api, _)| *api == number)
        .map(|(_, version)| (*version).to_owned())
}

#[cfg(test)]
mod tests {
    use super::{
        files_of_release, known_release_versions, release_file_by_hash, version_by_file_name,
        version_by_header,
    };

    #[test]
    fn the_files_of_a_release_have_their_sizes() {
        let of = files_of_release("12.4.127", "x86_64");
        assert_eq!(of.len(), 5);
        assert_eq!(of.get("libnvperf_host.so"), Some(&28_132_984));
        assert_eq!(files_of_release("12.5.82", "x86_64").len(), 0);
        let versions = known_release_versions("x86_64");
        assert_eq!(versions.first(), Some(&"10.1.243"));
        assert_eq!(versions.last(), Some(&"13.5.25"));
    }

    #[test]
    fn a_hash_names_the_exact_release_and_a_bundle_names_its_tool() {
        let release = release_file_by_hash(
            "fb2a7c5b15c84df9505dd47e553fe46f3121a57d30391fca24179d202f73f3f7",
        )
        .unwrap();
        assert_eq!(
            (release.versions.as_slice(), release.bundle),
            (["12.4.127"].as_slice(), None)
        );
        let decoy = release_file_by_hash(
            "5086e51ba2422dccda90a764cf400b11f29d5e68418512ceb51fe9dc9c22f9dd",
        )
        .unwrap();
        assert_eq!(
            (decoy.versions.len(), decoy.bundle),
            (0, Some("Nsight Systems 2023.4.4"))
        );
        assert_eq!(release_file_by_hash("00"), None);
    }

    #[test]
    fn names_and_headers_say_the_cuda_version() {
        assert_eq!(
            version_by_file_name(b"libcupti.so.2024.1.1").as_deref(),
            Some("12.4")
        );
        assert_eq!(
            version_by_file_name(b"libcupti.so.11.8").as_deref(),
            Some("11.8")
        );
        assert_eq!(
            version_by_file_name(b"libcupti.so.10.2.75").as_deref(),
            Some("10.2.75")
        );
        assert_eq!(version_by_file_name(b"libcupti.so.12"), None);
        assert_eq!(version_by_file_name(b"libcupti.so"), None);
        assert_eq!(
            version_by_header(b"#define CUPTI_API_VERSION 22\n").as_deref(),
            Some("12.4")
        );
        assert_eq!(
            version_by_header(b"#define CUPTI_API_VERSION 130001").as_deref(),
            Some("13.0")
        );
        assert_eq!(version_by_header(b"nothing"), None);
    }
}
