//! Checks that needed versions are defined (glibc elf/dl-version.c, `_dl_check_map_versions`) and that the processor
//! supports the required ISA level (sysdeps/x86/dl-prop.h).

use crate::elf::VersionNeed;
use crate::escape;
use crate::loader::link_map::{LinkMap, LinkMaps};
use crate::loader::resolution::{RequestOutcome, UnresolvedRequest};

/// The unmet version needs of the maps in `order`, with the loader's messages.
pub(super) fn check_versions(maps: &LinkMaps<'_>, order: &[usize]) -> Vec<UnresolvedRequest> {
    let listed = order.iter().filter_map(|&number| Some((number, maps.get(number)?)));
    listed
        .flat_map(|(number, map)| versions(maps, number, map).into_iter().chain(level(maps, number, map)))
        .collect()
}

fn versions(maps: &LinkMaps<'_>, number: usize, map: &LinkMap) -> Vec<UnresolvedRequest> {
    let mut missing = Vec::new();
    for need in &map.elf().verneed {
        let main = maps.main().filter(|_| need.file.is_empty());
        let mut near = maps
            .answering(&need.file)
            .chain(main)
            .filter_map(|number| maps.get(number));
        let Some(found) = near.find(|candidate| candidate.shares_namespace(map)) else {
            // A missing library is already reported. A file that is not in DT_NEEDED occurs only in a damaged table.
            if !map.elf().needed.contains(&need.file) {
                missing.push(no_such_need(number, map, need));
                break;
            }
            continue;
        };
        // The loader only warns about an object without version definitions.
        if !found.elf().has_verdef || need.versions.is_empty() {
            continue;
        }
        for version in &need.versions {
            let is_defined = version.hash_fits && found.elf().verdef.contains(&version.name);
            // "If it was a weak reference it is not fatal" (`match_symbol`).
            if version.weak || is_defined {
                continue;
            }
            missing.push(UnresolvedRequest {
                name: need.file.clone(),
                requested_by: Some(number),
                outcome: RequestOutcome::Refused,
                message: format!(
                    "{}: version `{}' not found (required by {})",
                    escape::escape_bytes(&found.path),
                    escape::escape_bytes(&version.name),
                    escape::escape_bytes(&map.path)
                ),
                missing_version: Some(version.name.clone()),
                trace: Vec::new(),
            });
        }
    }
    missing
}

/// A needed version of a file that is not mapped. The loader's assertion fails and the process ends.
fn no_such_need(number: usize, map: &LinkMap, need: &VersionNeed) -> UnresolvedRequest {
    let (path, file) = (escape::escape_bytes(&map.path), escape::escape_bytes(&need.file));
    UnresolvedRequest {
        name: map.path.clone(),
        requested_by: Some(number),
        outcome: RequestOutcome::Refused,
        message: format!(
            "{path}: it needs versions of {file}, which is not in its DT_NEEDED; Inconsistency detected by ld.so: Assertion \
             `needed != NULL' failed! and the process ends"
        ),
        missing_version: None,
        trace: Vec::new(),
    }
}

fn level(maps: &LinkMaps<'_>, number: usize, map: &LinkMap) -> Option<UnresolvedRequest> {
    let lacks = map.elf().isa_needed & !maps.setup.cpu.isa_bits() != 0;
    (lacks && maps.setup.linker.arch.has_levels()).then(|| UnresolvedRequest {
        name: map.path.clone(),
        requested_by: Some(number),
        outcome: RequestOutcome::Refused,
        message: format!(
            "{}: CPU ISA level is lower than required",
            escape::escape_bytes(&map.path)
        ),
        missing_version: None,
        trace: Vec::new(),
    })
}

/// The version number in a glibc symbol version, such as `GLIBC_2.25`; `None` for others, including `GLIBC_PRIVATE`.
pub fn glibc_version(name: &[u8]) -> Option<(u32, u32)> {
    let number = std::str::from_utf8(name).ok()?.strip_prefix("GLIBC_")?;
    let mut parts = number.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::glibc_version;

    #[test]
    fn only_a_version_of_glibc_with_a_number_is_one() {
        assert_eq!(glibc_version(b"GLIBC_2.25"), Some((2, 25)));
        assert_eq!(glibc_version(b"GLIBC_2.2.5"), Some((2, 2)));
        assert_eq!(glibc_version(b"GLIBC_PRIVATE"), None);
        assert_eq!(glibc_version(b"GLIBCXX_3.4.30"), None);
        assert_eq!(glibc_version(b"libcupti.so.12"), None);
    }
}
