//! The architecture of a GPU, by its number: 90 is `sm_90`, compute capability 9.0.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The number of an architecture: ten times the major version of the compute capability, plus the minor one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GpuArchitecture(u16);

/// The architectures of Tegra, without binary compatibility with or among others (CUDA C++ Programming Guide,
/// "Binary Compatibility").
const TEGRA: [u16; 7] = [32, 53, 62, 72, 87, 101, 110];

impl GpuArchitecture {
    /// The architecture of a number in a container; `None` if no GPU has such a number.
    pub fn new(number: u32) -> Option<Self> {
        (20..=999)
            .contains(&number)
            .then_some(Self(u16::try_from(number).ok()?))
    }

    /// The architecture of a compute capability such as `9.0` or `12.1`.
    pub fn of_capability(capability: &str) -> Option<Self> {
        let (major, minor) = capability.split_once('.')?;
        let minor: u32 = minor.parse().ok().filter(|minor| *minor < 10)?;
        Self::new(major.parse::<u32>().ok()?.checked_mul(10)? + minor)
    }

    /// The number.
    pub(crate) fn number(self) -> u16 {
        self.0
    }

    /// The major version of the compute capability.
    pub(crate) fn major(self) -> u16 {
        self.0 / 10
    }

    /// Whether it is a Tegra, whose code is compatible with no other GPU.
    pub fn is_tegra(self) -> bool {
        TEGRA.contains(&self.0)
    }
}

impl fmt::Display for GpuArchitecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::GpuArchitecture;

    #[test]
    fn a_compute_capability_is_an_architecture() {
        let name = |text| GpuArchitecture::of_capability(text).map(|gpu| gpu.to_string());
        assert_eq!(name("9.0").as_deref(), Some("sm_90"));
        assert_eq!(name("12.1").as_deref(), Some("sm_121"));
        for text in ["", "9", "9.", "9.10", "1.0", "100.0", "99999999999.0", "x.y"] {
            assert_eq!(name(text), None, "{text}");
        }
    }
}
