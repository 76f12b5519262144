//! Programs of which only a run could tell by what name they open libcupti.

use super::evidence::Evidence;
use super::rule_subject::{RuleSubject, text};
use crate::judge::facts::{ImageFacts, UndecidedOpener};
use crate::knowledge::rule::SubjectKind;
use image_linkage::escape;

/// The programs that are named in the message, at most.
const NAMED: usize = 3;
/// The places that are shown, at most.
const PLACES: usize = 20;

/// One subject for all of them: no image shows more of any.
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
    let subject = SubjectKind::Undecided.subject([("names", text(names.join(", ") + &more))]);
    vec![
        subject
            .at(shown.clone().map(|opener| (&opener.object, None)))
            .shown_by(shown.map(held)),
    ]
}

/// What an object holds of the name.
fn held(opener: &UndecidedOpener) -> Evidence {
    let texts: Vec<String> = opener.holds.iter().map(|text| escape::escape_bytes(text)).collect();
    Evidence::Words(format!("{} holds {}", opener.object, texts.join(", ")))
}
