//! Containers of GPU code behind the parts of an object. [`crate::gpu_object`] builds objects with their sections.

use crate::gpu_object::{GpuEntry, container};

/// The bytes of code of an entry.
const CODE: usize = 8;
/// The alignment of containers.
const ALIGNMENT: usize = 8;
/// The version of a container's first entry.
const VERSION: usize = 18;

/// A container with entries of these names, such as `sm_80`, `sm_90a`, `sm_100f` or `compute_90`. The name `unknown`
/// makes it one that no reader knows.
///
/// Errors: Another name.
pub(super) fn named_container(names: &[impl AsRef<str>]) -> Result<Vec<u8>, String> {
    let names = names.iter().map(AsRef::as_ref);
    let is_unknown = names.clone().any(|name| name == "unknown");
    let names = names.map(|name| if name == "unknown" { "sm_80" } else { name });
    let entry = |name: &str| entry(name).ok_or_else(|| format!("{name} is no GPU code"));
    let mut bytes = container(&names.map(entry).collect::<Result<Vec<_>, _>>()?);
    if let Some(version) = bytes.get_mut(VERSION).filter(|_| is_unknown) {
        *version += 1;
    }
    Ok(bytes)
}

fn entry(name: &str) -> Option<GpuEntry> {
    let (kind, number) = match (name.strip_prefix("sm_"), name.strip_prefix("compute_")) {
        (Some(number), _) => (2, number),
        (None, number) => (1, number?),
    };
    let (number, flags) = match (number.strip_suffix('a'), number.strip_suffix('f')) {
        (Some(number), _) => (number, 1 << 20),
        (None, Some(number)) => (number, 1 << 21),
        (None, None) => (number, 0),
    };
    Some(GpuEntry {
        kind,
        arch: number.parse().ok()?,
        flags,
        bytes: CODE,
    })
}

/// Appends containers at the next aligned offset.
pub(super) fn append_containers(file: &mut Vec<u8>, containers: &[Vec<u8>]) {
    for container in containers {
        file.resize(file.len().next_multiple_of(ALIGNMENT), 0);
        file.extend(container);
    }
}
