//! Parts of the host: its driver libraries, and conditions that no image shows. Conditions become notes, never
//! verdicts.

use serde::Deserialize;

use super::api::Certainty;

/// A host condition (`profiles/cupti/host.yaml`).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostCondition {
    /// The name that profilers refer to.
    pub id: String,
    /// Whether two tools with this condition cannot record the same process at once.
    #[serde(default)]
    pub excludes: bool,
    /// The condition, in sentences.
    pub says: String,
    /// How certain the entry is.
    pub certainty: Certainty,
    /// The source of the entry.
    pub source: String,
}

/// The libraries of one capability, as injected by the container runtime.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverCapability {
    /// The word in `NVIDIA_DRIVER_CAPABILITIES`.
    pub capability: String,
    /// The library names, without soname numbers.
    pub libraries: Vec<String>,
}

/// Whether the value of `NVIDIA_DRIVER_CAPABILITIES` grants a capability. `all` grants every one; an unset variable
/// means `utility,compute`.
pub fn grants_capability(capability: &str, wanted: Option<&str>) -> bool {
    // The container toolkit also uses this default for an empty variable.
    let wanted = wanted.filter(|wanted| !wanted.is_empty()).unwrap_or("utility,compute");
    wanted
        .split(',')
        .map(str::trim)
        .any(|word| word == "all" || word == capability)
}

/// Whether the container runtime injects a library of this name. `wanted` is the container's
/// `NVIDIA_DRIVER_CAPABILITIES`. A runtime in CDI mode ignores it, so the default capabilities always count.
pub fn provides_library(table: &[DriverCapability], name: &[u8], wanted: Option<&str>) -> bool {
    table
        .iter()
        .filter(|entry| grants_capability(&entry.capability, None) || grants_capability(&entry.capability, wanted))
        .flat_map(|entry| &entry.libraries)
        .any(|library| is_version_of(name, library.as_bytes()))
}

/// Whether `name` is `library`, optionally with a version suffix.
fn is_version_of(name: &[u8], library: &[u8]) -> bool {
    name.strip_prefix(library)
        // The dot excludes longer names: the host provides `libcuda.so.1`, but not `libcuda.so_old`.
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
}

#[cfg(test)]
mod tests {
    use crate::knowledge::Knowledge;

    #[test]
    fn capabilities_decide_which_libraries_come_from_the_host() {
        let table = &Knowledge::built_in().tables.driver_libraries;
        let provides_library = |name: &[u8], wanted| super::provides_library(table, name, wanted);
        assert!(provides_library(b"libcuda.so.1", None));
        assert!(provides_library(b"libnvidia-ml.so.1", Some("utility")));
        assert!(provides_library(b"libcuda.so.1", Some("video")), "in CDI mode");
        assert!(provides_library(b"libnvcuvid.so.1", Some("video")) && !provides_library(b"libnvcuvid.so.1", None));
        assert!(provides_library(b"libcuda.so.1", Some("all")));
        assert!(!provides_library(b"libcupti.so.12", Some("all")));
        assert!(!provides_library(b"libcudart.so.12", Some("all")));
    }

    #[test]
    fn the_conditions_of_the_host_can_be_read() {
        let host = &Knowledge::built_in().tables.host;
        let ids: Vec<&str> = host.iter().map(|condition| &*condition.id).collect();
        assert_eq!(
            ids,
            [
                "driver",
                "counters",
                "perf",
                "fork",
                "hardware-events",
                "one-subscriber",
                "counters-taken",
                "profiling-metrics",
                "mig"
            ]
        );
    }
}
