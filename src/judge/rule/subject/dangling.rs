//! A link named as libcupti that leads nowhere.

use super::evidence::Evidence;
use super::rule_subject::{RuleSubject, fields, flag, text};
use crate::judge::facts::{CuptiStatus, ImageFacts};
use crate::judge::rule::FindingLocation;
use crate::knowledge::rule::SubjectKind;
use image_linkage::escape;

pub(super) fn subjects(facts: &ImageFacts) -> Vec<RuleSubject> {
    let links = facts.dangling.iter();
    links
        .map(|link| RuleSubject {
            kind: SubjectKind::DanglingLink,
            fields: fields([
                ("path", text(link.path.to_string())),
                ("target", text(escape::escape_bytes(&link.target))),
                // The name that compilers look for; no program opens it where the soname is there.
                (
                    "dev_link",
                    flag(link.path.name() == b"libcupti.so" && facts.status.as_is == CuptiStatus::Loadable),
                ),
            ]),
            locations: vec![FindingLocation {
                path: link.path.clone(),
                layer: Some(link.layer),
            }],
            evidence: vec![Evidence::Words(format!("{}: {}", link.path, link.why))],
        })
        .collect()
}
