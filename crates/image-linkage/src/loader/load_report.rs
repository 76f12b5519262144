//! Turns the maps of a process into the objects of a report.

use std::collections::BTreeMap;

use super::link_map::{LinkMap, LinkMaps};
use super::resolution::LoadResolution;
use super::trace::{SearchStage, SearchStep};
use crate::elf::ElfProblem;

/// Adds the maps in `order` to a resolution in which maps are still meant by their own numbers, and gives all of them
/// their numbers in the report.
pub(super) fn number_objects(
    maps: &LinkMaps<'_>,
    order: &[usize],
    root: usize,
    mut resolution: LoadResolution,
) -> LoadResolution {
    // The report has the loader's order, which is not that of mapping: a filter puts what it names before itself.
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

/// What of an object's tables could not be read. A file that was cut short is refused, not unread, and what loaders
/// do not mind is read.
fn unread(map: &LinkMap) -> impl Iterator<Item = String> {
    let problems = map.elf().problems.iter();
    let unread =
        problems.filter(|problem| !matches!(problem, ElfProblem::Truncated { .. } | ElfProblem::Unloadable(_)));
    unread.map(|problem| format!("{}: {problem}", map.real_path))
}
