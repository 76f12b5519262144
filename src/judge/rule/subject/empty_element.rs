//! A search path with an empty element.

use super::rule_subject::{RuleSubject, fields, text};
use crate::judge::facts::ImageFacts;
use crate::judge::facts::search_path::{self, EmptyElement};
use crate::judge::rule::FindingLocation;
use crate::knowledge::rule::SubjectKind;
use image_linkage::escape;

/// The paths with an empty element.
pub(super) fn subjects(facts: &ImageFacts) -> Vec<RuleSubject> {
    let context = &facts.contexts.as_is;
    let found = search_path::find_empty_elements(context, &facts.consumers, &facts.copies);
    // ld.so(8) takes an empty element for the working directory, here the one that the image proposes.
    let working_dir = escape::escape_bytes(&context.environment.working_dir);
    found
        .into_iter()
        .map(|element| subject(element, &working_dir))
        .collect()
}

fn subject(element: EmptyElement, working_dir: &str) -> RuleSubject {
    let location = |path| FindingLocation { path, layer: None };
    RuleSubject {
        kind: SubjectKind::EmptyElement,
        fields: fields([
            ("of", text(element.of)),
            ("value", text(escape::escape_bytes(&element.value))),
            ("working_dir", text(working_dir)),
        ]),
        locations: element.object.map(location).into_iter().collect(),
        evidence: Vec::new(),
    }
}
