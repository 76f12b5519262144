//! The copies of libcupti together, where there are several.

use super::rule_subject::{RuleSubject, count, escaped};
use crate::facts::{CuptiCopy, ImageFacts};
use crate::knowledge::rule::SubjectKind;

/// The copies for the image's processor that a process can map, tools' own ones left out; nothing where there
/// are fewer than two.
pub(super) fn subjects(facts: &ImageFacts) -> Vec<RuleSubject> {
    let maps = |copy: &&CuptiCopy| copy.soname.is_some() && copy.by_path.as_is.root.is_some();
    let copies: Vec<&CuptiCopy> = facts.own_copies().filter(maps).collect();
    // The rule is about which of several is found; what is wrong with a lone one is told of the copy.
    if copies.len() < 2 {
        return Vec::new();
    }
    let unknown = || "an unknown release".to_owned();
    let mut versions: Vec<String> = copies
        .iter()
        .map(|copy| {
            copy.version
                .as_ref()
                .map_or_else(unknown, |(version, _)| version.clone())
        })
        .collect();
    versions.sort();
    versions.dedup();
    let subject = SubjectKind::Copies.subject([
        ("count", count(copies.len())),
        ("versions", escaped(&versions.join(", "))),
    ]);
    let places = copies.iter().map(|copy| (&copy.real_path, Some(copy.layer)));
    vec![subject.at(places)]
}
