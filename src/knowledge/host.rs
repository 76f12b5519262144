//! What only the host has: the libraries of its driver, and conditions that no image shows, which are printed as notes
//! and never judged.

use serde::Deserialize;

use super::api::Certainty;

/// A condition of the host (`profiles/cupti/host.yaml`).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostCondition {
    /// The name by which profilers refer to it.
    pub id: String,
    /// Whether two tools of different programs that have it cannot record one process at a time.
    #[serde(default)]
    pub excludes: bool,
    /// What holds, in sentences.
    pub says: String,
    /// How sure it is.
    pub certainty: Certainty,
    /// Where it is known from.
    pub source: String,
}

/// The libraries of one capability, as the container runtime injects them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverCapability {
    /// The word of `NVIDIA_DRIVER_CAPABILITIES`.
    pub capability: String,
    /// The names, up to the number of their sonames.
    pub libraries: Vec<String>,
}

/// Whether the value of `NVIDIA_DRIVER_CAPABILITIES` grants a capability. `all` means every one; without the
/// variable it is `utility,compute`.
pub fn grants_capability(capability: &str, wanted: Option<&str>) -> bool {
    // The default of the container toolkit, which it also takes for a variable that is set and empty.
    let wanted = wanted.filter(|wanted| !wanted.is_empty()).unwrap_or("utility,compute");
    wanted
        .split(',')
        .map(str::trim)
        .any(|word| word == "all" || word == capability)
}

/// Whether a library of this name is injected for any capability in `wanted`, the value of the variable
/// `NVIDIA_DRIVER_CAPABILITIES` in the container.
pub fn provides_library(table: &[DriverCapability], name: &[u8], wanted: Option<&str>) -> bool {
    table
        .iter()
        .filter(|entry| grants_capability(&entry.capability, wanted))
        .flat_map(|entry| &entry.libraries)
        .any(|library| is_version_of(name, library.as_bytes()))
}

/// Whether `name` is `library` or `library` with a version behind it.
fn is_version_of(name: &[u8], library: &[u8]) -> bool {
    name.strip_prefix(library)
        // The dot keeps longer names apart: `libcuda.so.1` comes from the host, `libcuda.so_old` would not.
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
        assert!(!provides_library(b"libcuda.so.1", Some("utility")));
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
            ["driver", "counters", "perf", "one-subscriber", "counters-taken", "mig"]
        );
    }
}
