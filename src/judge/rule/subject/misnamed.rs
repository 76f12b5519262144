//! A file or link whose name claims another soname than the file has.

use super::evidence::Evidence;
use super::rule_subject::{RuleSubject, text};
use crate::facts::ImageFacts;
use crate::facts::software::related_software::MisnamedLibrary;
use crate::knowledge::rule::SubjectKind;
use image_linkage::escape;

/// The misleading names.
pub(super) fn subjects(facts: &ImageFacts) -> Vec<RuleSubject> {
    facts.related.misnamed.iter().map(subject).collect()
}

fn subject(name: &MisnamedLibrary) -> RuleSubject {
    // The finding is at the link, but a fix also needs the file behind it.
    let link = |target| Evidence::Words(format!("{} is a link that leads to {target}", name.path));
    SubjectKind::Misnamed
        .subject([
            ("path", text(name.path.to_string())),
            ("says", text(escape::escape_bytes(name.path.name()))),
            ("soname", text(escape::escape_bytes(&name.soname))),
        ])
        .at([(&name.path, Some(name.layer))])
        .shown_by(name.target.iter().map(link))
}
