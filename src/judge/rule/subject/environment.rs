//! Variables of the loader or the driver that the container's command sets, or may set.

use super::evidence::Evidence;
use super::rule_subject::{RuleSubject, escaped, flag};
use crate::judge::facts::{ImageFacts, WorkingDirectory};
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
    // What nothing depends on is not told: a working directory matters to few.
    let is_lost = entry.working_dir == WorkingDirectory::Unknown && facts.is_open() && entry.unknown.is_empty();
    let directory = is_lost.then(|| "the working directory".to_owned());
    let unknown: Vec<String> = entry.unknown.iter().cloned().chain(directory).collect();
    [(&entry.changed, true), (&unknown, false)]
        .into_iter()
        .filter(|(variables, _)| !variables.is_empty())
        .map(|(variables, is_known)| {
            SubjectKind::Environment
                .subject([
                    ("variables", escaped(&in_words(variables))),
                    ("by", escaped(by)),
                    ("known", flag(is_known)),
                ])
                .shown_by(variables.iter().filter(|_| is_known).map(value))
        })
        .collect()
}

/// A few names in words: those that the driver and NVTX look at matter to few.
fn in_words(variables: &[String]) -> String {
    let (shown, more) = variables.split_at(variables.len().min(2));
    let more = if more.is_empty() { "" } else { " and others" };
    shown.join(if more.is_empty() { " and " } else { ", " }) + more
}
