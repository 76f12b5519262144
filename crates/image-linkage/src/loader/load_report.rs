//! Converts the objects of a process to those of a report.

use std::collections::BTreeMap;

use super::link_map::{LinkMap, LinkMaps};
use super::resolution::LoadResolution;
use super::trace::{SearchStage, SearchStep};
use crate::elf::ElfProblem;

/// Adds the objects in `order` to a resolution and replaces object numbers by report numbers.
pub(super) fn number_objects(
    maps: &LinkMaps<'_>,
    order: &[usize],
    root: usize,
    mut resolution: LoadResolution,
) -> LoadResolution {
    // The report uses the loader's order. It differs from the mapping order, because filtees precede their filter.
    let numbers: BTreeMap<usize, usize> = order.iter().enumerate().map(|(number, &map)| (map, number)).collect();
    let number = |map: usize| numbers.get(&map).copied();
    let how = |how: SearchStage| match how {
        SearchStage::Rpath(map) => SearchStage::Rpath(number(map).unwrap_or_default()),
        SearchStage::Runpath(map) => SearchStage::Runpath(number(map).unwrap_or_default()),
        other => other,
    };
    let renumber = |step: &mut SearchStep| {
        if let SearchStep::Tried { how: found, .. }
        | SearchStep::NoDirectory { how: found, .. }
        | SearchStep::OriginIgnored { how: found, .. } = step
        {
            *found = how(*found);
        }
    };
    for missing in resolution.unresolved.iter_mut().chain(&mut resolution.preload_warnings) {
        missing.requested_by = missing.requested_by.and_then(number);
        missing.trace.iter_mut().for_each(renumber);
    }
    for map in order.iter().filter_map(|&map| maps.get(map)) {
        resolution.unread.extend(unread(map));
        let Some(mut object) = map.object.clone() else {
            continue;
        };
        object.requested_by = object.requested_by.and_then(number);
        object.how = how(object.how);
        object.trace.iter_mut().for_each(renumber);
        object.needs = map
            .needs
            .iter()
            .map(|(name, answer)| (name.clone(), answer.and_then(number)))
            .collect();
        resolution.objects.push(object);
    }
    resolution.root = number(root);
    resolution
}

/// The unreadable parts of an object's tables. Truncated files are refused instead, and faults that loaders ignore do
/// not count.
fn unread(map: &LinkMap) -> impl Iterator<Item = String> {
    let problems = map.elf().problems.iter();
    let unread =
        problems.filter(|problem| !matches!(problem, ElfProblem::Truncated { .. } | ElfProblem::Unloadable(_)));
    unread.map(|problem| format!("{}: {problem}", map.real_path))
}
