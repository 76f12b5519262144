//! Programs whose request for libcupti is known only at run time.

use super::evidence::Evidence;
use super::rule_subject::{RuleSubject, flag, text};
use crate::facts::{ImageFacts, UndecidedOpener};
use crate::knowledge::rule::SubjectKind;
use image_linkage::escape;

/// The maximum number of programs in the message.
const NAMED: usize = 3;
/// The maximum number of locations shown.
const PLACES: usize = 20;

/// One subject for all of them, because an image shows no details of any.
pub(super) fn subjects(facts: &ImageFacts) -> Vec<RuleSubject> {
    let openers = &facts.undecided;
    if openers.is_empty() {
        return Vec::new();
    }
    let names = openers.iter().take(NAMED).map(|opener| opener.object.to_string());
    let names: Vec<String> = names.collect();
    let more = match openers.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let shown = openers.iter().take(PLACES);
    let subject = SubjectKind::Undecided.subject([
        ("names", text(names.join(", ") + &more)),
        ("linked", flag(openers.iter().any(|opener| opener.after.is_some()))),
    ]);
    vec![
        subject
            .at(shown.clone().map(|opener| (&opener.object, None)))
            .shown_by(shown.map(held)),
    ]
}

/// The parts of the name that an object contains or requests, and what decides the rest.
fn held(opener: &UndecidedOpener) -> Evidence {
    let texts: Vec<String> = opener.holds.iter().map(|text| escape::escape_bytes(text)).collect();
    let texts = texts.join(", ");
    Evidence::Words(match &opener.after {
        Some(after) => format!("{} needs {texts}: {after}", opener.object),
        None => format!("{} holds {texts}", opener.object),
    })
}
