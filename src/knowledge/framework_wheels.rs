//! What the wheels of a framework require from NVIDIA (`wheels` in `profiles/cupti/frameworks.yaml`).

use serde::Deserialize;

use super::library_release::version_numbers;

/// The facts about a framework's wheels that decide whether a lock is complete.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrameworkWheels {
    /// The first release on the framework's own index that requires NVIDIA's packages. Earlier ones contain them.
    pub unbundled_from: String,
    /// Releases whose wheels for some platforms lack the requirements of those for Linux on x86-64: the build, such as
    /// `cu126`, or nothing for those on the package index; the first of them; the first later release without this.
    pub uneven: Vec<[String; 3]>,
    /// NVIDIA's other packages that these releases link, without `nvidia-` and the CUDA version.
    pub packages: Vec<String>,
}

impl FrameworkWheels {
    /// For a version whose wheels differ in their requirements: the first release whose wheels do not.
    pub fn first_even_release(&self, version: &str) -> Option<&str> {
        let (release, build) = version.split_once('+').unwrap_or((version, ""));
        let release = version_numbers(release);
        let is_meant = |[own, first, until]: &&[String; 3]| {
            own == build && (version_numbers(first)..version_numbers(until)).contains(&release)
        };
        self.uneven.iter().find(is_meant).map(|[.., until]| &**until)
    }
}
