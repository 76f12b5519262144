//! A file or link whose name says another soname than the file has.

use super::evidence::Evidence;
use super::rule_subject::{RuleSubject, text};
use crate::facts::ImageFacts;
use crate::facts::software::related_software::MisnamedLibrary;
use crate::knowledge::rule::SubjectKind;
use image_linkage::escape;

/// The names that are not true.
pub(super) fn subjects(facts: &ImageFacts) -> Vec<RuleSubject> {
    facts.related.misnamed.iter().map(subject).collect()
}

fn subject(name: &MisnamedLibrary) -> RuleSubject {
    // The finding lies at the link; to mend it one has to know the file behind it, too.
    let link = |target| Evidence::Words(format!("{} is a link that leads to {target}", name.path));
    SubjectKind::Misnamed
        .subject([
            ("path", text(name.path.to_string())),
            ("says", text(escape::escape_bytes(&name.says))),
            ("soname", text(escape::escape_bytes(&name.soname))),
        ])
        .at([(&name.path, Some(name.layer))])
        .shown_by(name.target.iter().map(link))
}
