//! Files of one kind of weight that nothing in the image is known to need.

use std::collections::BTreeSet;

use super::{Evidence, Kind, Subject, fields, text};
use crate::facts::{Asks, Baggage, ImageFacts, Outcome};
use crate::path::RootPath;
use crate::profile::baggage::{self, Weight};
use crate::size::size;

/// The fields of the files.
pub(super) const FIELDS: &[&str] = &[
    // `profiling` or `toolkit`.
    "weight", "bytes", "count",
];

/// One subject for what profiling alone needs, one for the rest of a toolkit.
pub(super) fn subjects(facts: &ImageFacts) -> Vec<Subject> {
    let used = used(facts);
    [Weight::Profiling, Weight::Toolkit]
        .into_iter()
        .filter_map(|weight| {
            let of_weight = |file: &&Baggage| {
                baggage::by_id(file.kind).is_some_and(|kind| kind.weight == weight)
                    && !facts.baggage_uses.iter().any(|by| by.kind == file.kind)
                    && !used.contains(&file.path)
            };
            let files: Vec<&Baggage> = facts.baggage.iter().filter(of_weight).collect();
            (!files.is_empty()).then(|| subject(weight, &files))
        })
        .collect()
}

fn subject(weight: Weight, files: &[&Baggage]) -> Subject {
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    Subject {
        kind: Kind::Baggage,
        fields: fields([
            ("weight", text(weight.name())),
            ("bytes", text(size(bytes))),
            ("count", text(files.len().to_string())),
        ]),
        locations: Vec::new(),
        evidence: by_kind(files),
    }
}

/// A line for each kind: its size and what it is.
fn by_kind(files: &[&Baggage]) -> Vec<Evidence> {
    let kinds: BTreeSet<&str> = files.iter().map(|file| file.kind).collect();
    let line = |id: &str| {
        let of_kind = files.iter().filter(|file| file.kind == id);
        let bytes: u64 = of_kind.clone().map(|file| file.bytes).sum();
        let first = of_kind.clone().next()?;
        let what = &baggage::by_id(id)?.what;
        let more = match of_kind.count() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        Some(format!("{}: {what}, {}{more}", size(bytes), first.path))
    };
    kinds
        .into_iter()
        .filter_map(line)
        .map(Evidence::Words)
        .collect()
}

/// The files that stay whatever is not profiled: the libcupti that a program links, and any other library that
/// an object needs.
fn used(facts: &ImageFacts) -> BTreeSet<RootPath> {
    let needed = &facts.around.needed;
    let links = facts
        .consumers
        .iter()
        .filter(|consumer| consumer.asks == Asks::Needed)
        .flat_map(|consumer| [&consumer.outcome.as_is, &consumer.outcome.nvidia])
        .filter(|gets| gets.outcome == Outcome::Loaded)
        .filter_map(|gets| gets.real_path.clone());
    let rootfs = &facts.grounds.as_is.rootfs;
    let is_needed = |file: &&Baggage| {
        let elf = rootfs
            .file(&file.path.absolute())
            .and_then(|found| found.elf.as_ref());
        let soname = elf.and_then(|elf| elf.soname.as_deref());
        file.kind != "cupti"
            && file.kind != "triton-cupti"
            && (needed.contains(file.path.name())
                || soname.is_some_and(|soname| needed.contains(soname)))
    };
    let others = facts.baggage.iter().filter(is_needed);
    links.chain(others.map(|file| file.path.clone())).collect()
}
