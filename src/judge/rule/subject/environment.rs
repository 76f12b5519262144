//! Loader variables that the container's command sets.

use super::evidence::Evidence;
use super::rule_subject::{RuleSubject, escaped};
use crate::facts::ImageFacts;
use crate::knowledge::rule::SubjectKind;
use container_start::LOADER_VARIABLES;
use image_linkage::escape;

/// One subject, if the program's variables are known and differ from the image's.
pub(super) fn subjects(facts: &ImageFacts) -> Vec<RuleSubject> {
    let context = &facts.contexts.as_is;
    let (entry, before) = (&context.entry, &context.commands.environment);
    let is_changed =
        |name: &&str| entry.variables.get(*name) != before.get(*name) && !entry.unknown.contains_key(*name);
    let changed: Vec<&str> = LOADER_VARIABLES.into_iter().filter(is_changed).collect();
    if changed.is_empty() {
        return Vec::new();
    }
    let value = |name: &&str| {
        Evidence::Words(match entry.variables.get(*name) {
            Some(value) => escape::escape_bytes(format!("{name}={value}").as_bytes()),
            None => format!("{name} is not set"),
        })
    };
    let subject = SubjectKind::Environment.subject([("variables", escaped(&changed.join(" and ")))]);
    vec![subject.shown_by(changed.iter().map(value))]
}
