//! A library that objects of the image need but do not get.

use super::evidence::Evidence;
use super::rule_subject::{RuleSubject, flag, text};
use crate::facts::RequestOutcome;
use crate::facts::object_links::{LackedLibrary, ObjectLinks};
use crate::knowledge::rule::SubjectKind;
use image_linkage::escape;

/// One subject per missing library.
pub fn link_subjects(links: &ObjectLinks) -> Vec<RuleSubject> {
    links.lacks.iter().map(subject).collect()
}

fn subject(lack: &LackedLibrary) -> RuleSubject {
    let version = lack.version.as_deref().map(escape::escape_bytes);
    let elsewhere: Vec<String> = lack.elsewhere.iter().map(ToString::to_string).collect();
    let places = lack.needed_by.iter().map(|(path, layer)| (path, Some(*layer)));
    let searched = lack.searched.iter().cloned().map(Evidence::Searched);
    let words = Evidence::Words(lack.message.clone());
    SubjectKind::Link
        .subject([
            ("name", text(escape::escape_bytes(&lack.name))),
            ("version", text(version.unwrap_or_default())),
            ("refused", flag(lack.outcome == RequestOutcome::Refused)),
            ("in_image", flag(!lack.elsewhere.is_empty())),
            ("elsewhere", text(elsewhere.join(", "))),
            ("stops_program", flag(lack.stops_programs > 0)),
            ("count", text(count_words(lack))),
            ("words", text(lack.message.clone())),
        ])
        .at(places)
        .shown_by(std::iter::once(words).chain(searched))
}

/// The number of objects that request it directly, and of those that fail to load without it.
fn count_words(lack: &LackedLibrary) -> String {
    let asks = match lack.needed_by.len() {
        1 => "1 object needs it".to_owned(),
        asks => format!("{asks} objects need it"),
    };
    // Objects that need it also fail to load, except those that find it in another process.
    match (lack.stops, lack.stops_programs) {
        (1, 0) if lack.needed_by.len() == 1 => asks,
        (1, 1) if lack.needed_by.len() == 1 => format!("{asks}, a program"),
        (stops, 0) => format!("{asks}, and {stops} do not load without it"),
        (stops, programs) => format!("{asks}, and {stops} do not load without it, {programs} of them programs"),
    }
}
