//! The image as a whole.

use super::evidence;
use super::failure::c_library;
use super::rule_subject::{RuleSubject, StoppedWork, flag, text};
use crate::facts::{CuptiStatus, ImageFacts};
use crate::knowledge::rule::SubjectKind;

/// The image, unless an unread part of it may contain the missing library.
pub(super) fn subjects(facts: &ImageFacts) -> Vec<RuleSubject> {
    if facts.unread.is_some() && matches!(facts.status.as_is, CuptiStatus::HeadersOnly | CuptiStatus::Absent) {
        return Vec::new();
    }
    let broken = facts
        .consumers
        .iter()
        .any(|consumer| consumer.required.breaks_program() && consumer.misses_library());
    // Headers next to a library do not matter; alone they look like CUPTI but are not.
    let headers = if facts.status.as_is == CuptiStatus::HeadersOnly {
        facts.headers.as_slice()
    } else {
        &[]
    };
    let subject = SubjectKind::Image.subject([
        ("status", text(facts.status.as_is.name())),
        ("has_headers", flag(!facts.headers.is_empty())),
        ("status_nvidia", text(facts.status.nvidia.name())),
        ("import_broken", flag(broken)),
        (
            "built_in",
            flag(facts.consumers.is_empty() && facts.programs_with_library().next().is_some()),
        ),
        ("concerns_cupti", flag(facts.concerns_cupti())),
        ("libc", text(c_library(facts).0)),
        ("glibc_only", flag(facts.library.glibc)),
    ]);
    let headers = headers.iter().map(|(path, layer)| (path, Some(*layer)));
    let subject = if broken {
        subject.stopping(StoppedWork::Program)
    } else {
        subject
    };
    let evidence = evidence::plain_open_evidence(&facts.plain.as_is);
    vec![subject.at(headers).shown_by(evidence)]
}
