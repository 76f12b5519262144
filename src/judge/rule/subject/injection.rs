//! Libraries that variables make the driver or NVTX load.

use super::rule_subject::{RuleSubject, escaped, flag, text};
use crate::facts::objects::plain_open::find_injections;
use crate::facts::{ImageFacts, RequestOutcome};
use crate::knowledge::rule::SubjectKind;

/// The libraries that cannot be loaded.
pub(super) fn subjects(facts: &ImageFacts) -> Vec<RuleSubject> {
    let found = find_injections(&facts.contexts.as_is).into_iter();
    found
        .map(|injection| {
            SubjectKind::Injection.subject([
                ("variable", text(injection.variable)),
                ("library", escaped(&injection.library)),
                ("words", text(injection.failure.message)),
                ("missing", flag(injection.failure.outcome == RequestOutcome::NotFound)),
            ])
        })
        .collect()
}
