//! The requirements of an installed distribution, for one Python of the image: `Requires-Dist` in `METADATA` (PEP 508).

use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;
use std::str::FromStr;

use crate::distributions::metadata_values;
use pep440_rs::{Operator, Version, VersionSpecifiers};
use pep508_rs::{ExtraName, MarkerEnvironment, MarkerEnvironmentBuilder, Pep508Url, Requirement, VersionOrUrl};

/// The maximum length of a requirement in bytes.
const LINE: usize = 1024;
/// The maximum number of words and brackets in a marker. It becomes a decision diagram, whose size may double with
/// each.
const MARKER: usize = 24;
/// The maximum number of requirements per distribution; JAX has 30.
const REQUIREMENTS: usize = 1024;

/// The minor versions of Python 3 that an image may have.
const PYTHON_MINORS: RangeInclusive<u32> = 6..=20;

/// The values for markers: a Python of the image on its machine.
#[derive(Debug, Clone)]
pub struct MarkerValues {
    /// The first and the last patch release of its version, because no folder in the image states the patch number.
    updates: [MarkerEnvironment; 2],
}

/// A requirement whose marker is true for a Python.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DistributionRequirement {
    /// The normalized name of the required distribution.
    pub name: String,
    /// The requested extras.
    pub extras: Vec<String>,
    versions: VersionSpecifiers,
}

impl MarkerValues {
    /// The values of a CPython. `version` is as in folder names, `3.11` or `3.13t`; `machine` is as in `uname -m`.
    pub fn of_python(version: &str, machine: &str) -> Option<Self> {
        let version = version.trim_end_matches('t');
        let update = |number: u32| {
            let full = format!("{version}.{number}");
            let values = MarkerEnvironmentBuilder {
                implementation_name: "cpython",
                implementation_version: &full,
                os_name: "posix",
                platform_machine: machine,
                platform_python_implementation: "CPython",
                // The kernel is the host's.
                platform_release: "",
                platform_system: "Linux",
                platform_version: "",
                python_full_version: &full,
                python_version: version,
                sys_platform: "linux",
            };
            MarkerEnvironment::try_from(values).ok()
        };
        Some(Self {
            updates: [update(0)?, update(99)?],
        })
    }
}

impl DistributionRequirement {
    /// Whether a version satisfies the requirement; true if the version is not valid.
    pub fn admits(&self, version: &str) -> bool {
        Version::from_str(version).map_or(true, |version| self.versions.contains(&version))
    }

    /// Whether only one version satisfies the requirement.
    pub fn is_exact(&self) -> bool {
        let mut versions = self.versions.iter();
        versions.any(|one| matches!(one.operator(), Operator::Equal | Operator::ExactEqual))
    }
}

impl fmt::Display for DistributionRequirement {
    /// The form for `pip install`: `nvidia-cuda-cupti-cu12==12.8.90`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.name)?;
        if !self.extras.is_empty() {
            write!(out, "[{}]", self.extras.join(","))?;
        }
        let versions: Vec<String> = self
            .versions
            .iter()
            .map(|one| one.to_string().replace(' ', ""))
            .collect();
        out.write_str(&versions.join(","))
    }
}

/// The requirements in `METADATA` for a Python, with `extras`. Skips requirements with a URL, invalid ones, and those
/// whose marker depends on the patch release of Python.
pub fn read_requirements(metadata: &[u8], python: &MarkerValues, extras: &[String]) -> Vec<DistributionRequirement> {
    let text = String::from_utf8_lossy(metadata);
    let lines = metadata_values(&text, "Requires-Dist");
    let extras: Vec<ExtraName> = extras
        .iter()
        .filter_map(|extra| ExtraName::from_str(extra).ok())
        .collect();
    lines
        .take(REQUIREMENTS)
        .filter_map(|line| read_requirement(line, python, &extras))
        .collect()
}

/// Whether a requirement applies to some Python 3 on this machine, with one of `extras` or without.
pub(crate) fn applies_somewhere(line: &str, machine: &str, extras: &[&str]) -> bool {
    let extras: Vec<ExtraName> = extras
        .iter()
        .filter_map(|extra| ExtraName::from_str(extra).ok())
        .collect();
    let pythons = PYTHON_MINORS.filter_map(|minor| MarkerValues::of_python(&format!("3.{minor}"), machine));
    let requirement = parse(line);
    requirement.is_some_and(|one| {
        pythons
            .flat_map(|python| python.updates)
            .any(|python| one.evaluate_markers(&python, &extras))
    })
}

fn parse(line: &str) -> Option<Requirement<UnreadUrl>> {
    Requirement::from_str(Some(line).filter(|line| is_readable(line))?).ok()
}

fn read_requirement(line: &str, python: &MarkerValues, extras: &[ExtraName]) -> Option<DistributionRequirement> {
    let requirement = parse(line)?;
    let mut updates = python.updates.iter();
    if !updates.all(|update| requirement.evaluate_markers(update, extras)) {
        return None;
    }
    let versions = match requirement.version_or_url {
        Some(VersionOrUrl::VersionSpecifier(versions)) => versions,
        Some(VersionOrUrl::Url(_)) => return None,
        None => VersionSpecifiers::empty(),
    };
    Some(DistributionRequirement {
        name: requirement.name.to_string(),
        extras: requirement.extras.iter().map(ToString::to_string).collect(),
        versions,
    })
}

fn is_name(name: &str) -> bool {
    let ends = [name.bytes().next(), name.bytes().next_back()];
    ends.iter().flatten().all(u8::is_ascii_alphanumeric)
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// Whether the parser handles a line quickly and without a panic. It does not check how a name ends, or that `~=` is
/// only used between versions.
fn is_readable(line: &str) -> bool {
    let (head, marker) = line.split_once(';').unwrap_or((line, ""));
    let list = head.split(['=', '<', '>', '!', '~', '(']).next().unwrap_or_default();
    let mut names = list.split([' ', '\t', ',', '[', ']']);
    let words = marker.split_ascii_whitespace();
    let parts = words.filter(|word| matches!(*word, "and" | "or")).count() + marker.matches('(').count();
    line.len() <= LINE && line.is_ascii() && names.all(is_name) && parts <= MARKER && !marker.contains("~=")
}

/// A URL in a requirement, which is ignored. The parser's own type would read this program's environment.
#[derive(Debug)]
struct UnreadUrl;

impl fmt::Display for UnreadUrl {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

impl Pep508Url for UnreadUrl {
    type Err = std::convert::Infallible;

    fn parse_url(_: &str, _: Option<&Path>) -> Result<Self, Self::Err> {
        Ok(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::{MarkerValues, read_requirements};

    fn required(metadata: &str, python: &str, extras: &[&str]) -> Vec<String> {
        let python = MarkerValues::of_python(python, "x86_64").unwrap();
        let extras: Vec<String> = extras.iter().map(|extra| (*extra).to_owned()).collect();
        let found = read_requirements(metadata.as_bytes(), &python, &extras);
        found.iter().map(ToString::to_string).collect()
    }

    /// Lines of torch 2.8.0, 2.15.0 and TensorFlow 2.17.1.
    const METADATA: &str = "Metadata-Version: 2.4\n\
        Requires-Dist: typing-extensions>=4.10.0\n\
        Requires-Dist: setuptools; python_version >= \"3.12\"\n\
        Requires-Dist: nvidia_cuda_cupti.cu12 (==12.8.90) ; platform_system == \"Linux\" and platform_machine == \"x86_64\"\n\
        Requires-Dist: cuda-toolkit[cublas,cupti]==13.2.2; platform_system == \"Linux\"\n\
        Requires-Dist: tensorflow-intel ==2.17.1 ; platform_system == \"Windows\"\n\
        Requires-Dist: nvidia-nccl-cu12==2.21.5; extra == \"and-cuda\"\n\
        Requires-Dist: late; python_full_version >= \"3.11.4\"\n\
        \nRequires-Dist: no-field\n";

    #[test]
    fn requirements_apply_by_their_markers_and_extras() {
        let always = [
            "typing-extensions>=4.10.0",
            "nvidia-cuda-cupti-cu12==12.8.90",
            "cuda-toolkit[cublas,cupti]==13.2.2",
        ];
        assert_eq!(required(METADATA, "3.11", &[]), always);
        let mut all = always.to_vec();
        all.insert(1, "setuptools");
        all.extend(["nvidia-nccl-cu12==2.21.5", "late"]);
        assert_eq!(required(METADATA, "3.13t", &["and_cuda"]), all);
    }

    #[test]
    fn requirements_that_the_parser_cannot_handle_are_skipped() {
        let long = format!("a; {}python_version > '3'", "(".repeat(30));
        for line in [
            "a.; python_version > '3'",
            "1.2.*",
            "a[x.]",
            "a; 'x' ~= os_name",
            "a @ https://example.org/a.whl",
            "é",
            "",
            "a b",
            &long,
        ] {
            let metadata = format!("Requires-Dist: {line}\nRequires-Dist: b\n");
            assert_eq!(required(&metadata, "3.11", &[]), ["b"], "{line}");
        }
    }

    #[test]
    fn versions_are_compared_by_pep_440() {
        let python = MarkerValues::of_python("3.11", "x86_64").unwrap();
        let admits = |required: &str, version: &str| {
            let metadata = format!("Requires-Dist: {required}\n");
            read_requirements(metadata.as_bytes(), &python, &[])[0].admits(version)
        };
        assert!(admits("torch==2.8.0", "2.8.0+cu128"));
        assert!(!admits("torch==2.8.0+cu128", "2.8.0"));
        assert!(admits("a==12.8.*", "12.8.90") && !admits("a==12.8.*", "12.9.1"));
        assert!(admits("a>=4.10.0", "4.10") && !admits("a>=4.10.0", "4.9.1"));
        assert!(admits("a!=0.3.0,<1", "0.4.0rc1") && !admits("a!=0.3.0,<1", "0.3.0"));
        assert!(admits("a==1", "not a version"));
    }
}
