//! A file or link whose name says another soname than the file has.

use super::{Evidence, Kind, Location, Subject, fields, text};
use crate::judge::facts::ImageFacts;
use crate::judge::facts::misnamed_libraries::Misnamed;
use image_linkage::escape;

/// The fields of such a name.
pub(super) const FIELDS: &[&str] = &["path", "says", "soname"];

/// The names that are not true.
pub(super) fn subjects(facts: &ImageFacts) -> Vec<Subject> {
    facts.around.misnamed.iter().map(subject).collect()
}

fn subject(name: &Misnamed) -> Subject {
    let link = |target| Evidence::Words(format!("{} is a link that leads to {target}", name.path));
    Subject {
        kind: Kind::Misnamed,
        fields: fields([
            ("path", text(name.path.to_string())),
            ("says", text(escape::text(&name.says))),
            ("soname", text(escape::text(&name.soname))),
        ]),
        locations: vec![Location {
            path: name.path.clone(),
            layer: Some(name.layer),
        }],
        evidence: name.target.iter().map(link).collect(),
    }
}
