//! Files of one weight category that nothing in the image is known to need.

use std::collections::BTreeSet;

use super::evidence::Evidence;
use super::rule_subject::{RuleSubject, count, text};
use crate::facts::weight::dead_weight::total_bytes;
use crate::facts::{self, DeadWeightFile, ImageFacts};
use crate::knowledge::dead_weight::{DeadWeightTable, WeightPurpose};
use crate::knowledge::rule::{FieldValue, SubjectKind};
use crate::size::format_size;

/// One subject for files that only profiling needs, and one for the rest of a toolkit.
pub(super) fn subjects(facts: &ImageFacts) -> Vec<RuleSubject> {
    let used = facts::retained_files(&facts.dead_weight, &facts.references);
    // Kept separate, because a profiling phase needs the former but not the latter.
    [WeightPurpose::Profiling, WeightPurpose::Toolkit]
        .into_iter()
        .filter_map(|weight| {
            let of_weight = |file: &&DeadWeightFile| {
                facts
                    .tables
                    .dead_weight
                    .find_kind(file.kind)
                    .is_some_and(|kind| kind.weight == weight)
                    // One use keeps the whole kind: a tool opens its own files by paths that no table shows.
                    && !facts.dead_weight_uses.iter().any(|by| by.kind == file.kind)
                    && !used.contains(&file.path)
            };
            let files: Vec<&DeadWeightFile> = facts.dead_weight.iter().filter(of_weight).collect();
            (!files.is_empty()).then(|| subject(&facts.tables.dead_weight, weight, &files))
        })
        .collect()
}

fn subject(table: &DeadWeightTable, weight: WeightPurpose, files: &[&DeadWeightFile]) -> RuleSubject {
    let bytes = total_bytes(files.iter().copied());
    SubjectKind::DeadWeight
        .subject([
            ("weight", text(weight.name())),
            ("bytes", FieldValue::Bytes(bytes)),
            ("count", count(files.len())),
        ])
        .shown_by(by_kind(table, files))
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
