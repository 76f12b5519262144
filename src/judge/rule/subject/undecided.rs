//! Programs of which only a run could tell whether they get libcupti.

use super::evidence::Evidence;
use super::rule_subject::{RuleSubject, fields, flag, text};
use crate::judge::facts::{ImageFacts, UndecidedOpener};
use crate::judge::rule::FindingLocation;
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
    let place = |opener: &UndecidedOpener| FindingLocation {
        path: opener.object.clone(),
        layer: None,
    };
    vec![RuleSubject {
        kind: SubjectKind::Undecided,
        fields: fields([
            ("names", text(names.join(", ") + &more)),
            ("linked", flag(openers.iter().any(|opener| opener.after.is_some()))),
        ]),
        locations: openers.iter().take(PLACES).map(place).collect(),
        evidence: openers.iter().take(PLACES).map(held).collect(),
    }]
}

/// What an object holds of the name, or asks for, and what decides on it.
fn held(opener: &UndecidedOpener) -> Evidence {
    let texts: Vec<String> = opener.holds.iter().map(|text| escape::escape_bytes(text)).collect();
    let texts = texts.join(", ");
    Evidence::Words(match &opener.after {
        Some(after) => format!("{} needs {texts}: {after}", opener.object),
        None => format!("{} holds {texts}", opener.object),
    })
}
