//! All copies of libcupti, if there are several.

use super::rule_subject::{RuleSubject, count, escaped};
use crate::facts::{CuptiCopy, ImageFacts};
use crate::knowledge::rule::SubjectKind;

/// The mappable copies for the image's processor, without those private to tools; none if there are fewer than two.
pub(super) fn subjects(facts: &ImageFacts) -> Vec<RuleSubject> {
    let maps = |copy: &&CuptiCopy| copy.soname.is_some() && copy.by_path.as_is.root.is_some();
    let copies: Vec<&CuptiCopy> = facts.own_copies().filter(maps).collect();
    // The rule is about which of several copies is found; a single copy has its own subject.
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
