//! A search path with an empty element.

use super::rule_subject::{RuleSubject, text};
use crate::facts::ImageFacts;
use crate::facts::software::search_path::{self, EmptyElement};
use crate::knowledge::rule::SubjectKind;
use image_linkage::escape;

/// The paths with an empty element.
pub(super) fn subjects(facts: &ImageFacts) -> Vec<RuleSubject> {
    let context = &facts.contexts.as_is;
    let found = search_path::find_empty_elements(context, &facts.consumers, &facts.copies);
    // ld.so(8) treats an empty element as the working directory, here the image's default.
    let working_dir = escape::escape_bytes(&context.environment.working_dir);
    found.iter().map(|element| subject(element, &working_dir)).collect()
}

fn subject(element: &EmptyElement, working_dir: &str) -> RuleSubject {
    SubjectKind::EmptyElement
        .subject([
            ("of", text(element.of.as_str())),
            ("value", text(escape::escape_bytes(&element.value))),
            ("working_dir", text(working_dir)),
        ])
        .at(element.object.iter().map(|object| (object, None)))
}
