//! Variables of the loader or the driver that the container's command sets, or may set.

use super::evidence::Evidence;
use super::rule_subject::{RuleSubject, escaped, flag};
use crate::judge::facts::ImageFacts;
use crate::knowledge::rule::SubjectKind;

/// One subject for what is set, and one for what only a run could tell.
pub(super) fn subjects(facts: &ImageFacts) -> Vec<RuleSubject> {
    let entry = &facts.contexts.as_is.entry;
    let by = entry.by.as_deref().unwrap_or_default();
    let value = |name: &String| {
        Evidence::Words(match entry.values.get(name) {
            Some(value) => image_linkage::escape::escape_bytes(format!("{name}={value}").as_bytes()),
            None => format!("{name} is not set"),
        })
    };
    [(&entry.changed, true), (&entry.unknown, false)]
        .into_iter()
        .filter(|(variables, _)| !variables.is_empty())
        .map(|(variables, is_known)| {
            SubjectKind::Environment
                .subject([
                    ("variables", escaped(&variables.join(" and "))),
                    ("by", escaped(by)),
                    ("known", flag(is_known)),
                ])
                .shown_by(variables.iter().filter(|_| is_known).map(value))
        })
        .collect()
}
