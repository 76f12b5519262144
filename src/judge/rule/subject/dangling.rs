//! A broken link with a name of libcupti.

use super::evidence::Evidence;
use super::rule_subject::{RuleSubject, flag, text};
use crate::facts::{CuptiStatus, ImageFacts};
use crate::knowledge::rule::SubjectKind;
use image_linkage::escape;

pub(super) fn subjects(facts: &ImageFacts) -> Vec<RuleSubject> {
    let links = facts.dangling.iter();
    links
        .map(|link| {
            SubjectKind::DanglingLink
                .subject([
                    ("path", text(link.path.to_string())),
                    ("target", text(escape::escape_bytes(&link.target))),
                    // Only linkers use this name; no program opens it if the soname exists.
                    (
                        "dev_link",
                        flag(
                            link.path.name() == facts.library.stem.as_bytes()
                                && facts.status.as_is == CuptiStatus::Loadable,
                        ),
                    ),
                ])
                .at([(&link.path, Some(link.layer))])
                .shown_by([Evidence::Words(format!("{}: {}", link.path, link.why))])
        })
        .collect()
}
