//! Files of one weight category that nothing in the image is known to need.

use std::collections::BTreeSet;

use super::evidence::Evidence;
use super::{Hit, Value};
use crate::facts::weight::dead_weight::total_bytes;
use crate::facts::{self, DeadWeightFile, ImageFacts};
use crate::knowledge::dead_weight::{DeadWeightTable, WeightPurpose};
use crate::size::format_size;

/// Checks the files that only profiling needs, and the rest of a toolkit.
pub(super) fn check(facts: &ImageFacts) -> Vec<Hit> {
    let used = facts::retained_files(&facts.weight.files, &facts.weight.references);
    let mut unneeded: Vec<&DeadWeightFile> = facts.weight.files.iter().collect();
    unneeded.retain(|file| {
        // One use keeps the whole kind: a tool opens its own files by paths that no table shows.
        !facts.weight.uses.iter().any(|by| by.kind == file.kind) && !used.contains(&file.path)
    });
    let table = &facts.tables.dead_weight;
    // Kept separate, because a profiling phase needs the former but not the latter.
    let profiling = of_weight("profiling-dead-weight", WeightPurpose::Profiling, table, &unneeded);
    let toolkit = of_weight("toolkit-dead-weight", WeightPurpose::Toolkit, table, &unneeded);
    profiling.into_iter().chain(toolkit).collect()
}

fn of_weight(
    rule: &'static str,
    weight: WeightPurpose,
    table: &DeadWeightTable,
    unneeded: &[&DeadWeightFile],
) -> Option<Hit> {
    let mut files = unneeded.to_vec();
    files.retain(|file| table.find_kind(file.kind).is_some_and(|kind| kind.weight == weight));
    if files.is_empty() {
        return None;
    }
    let hit = Hit::new(rule)
        .value("bytes", Value::Bytes(total_bytes(files.iter().copied())))
        .value("count", files.len())
        .shown_by(by_kind(table, &files));
    Some(hit)
}

/// A line per kind, with its size and description.
fn by_kind(table: &DeadWeightTable, files: &[&DeadWeightFile]) -> Vec<Evidence> {
    let kinds: BTreeSet<&str> = files.iter().map(|file| file.kind).collect();
    let line = |id: &str| {
        let of_kind = files.iter().filter(|file| file.kind == id);
        let bytes = total_bytes(of_kind.clone().copied());
        // One path represents the kind, because a toolkit has thousands.
        let first = of_kind.clone().next()?;
        let what = &table.find_kind(id)?.what;
        let more = match of_kind.count() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        Some(format!("{}: {what}, {}{more}", format_size(bytes), first.path))
    };
    kinds.into_iter().filter_map(line).map(Evidence::Words).collect()
}
