//! Programs that load libcupti, and programs that may.

use super::evidence::Evidence;
use super::failures::follows_from_command;
use super::release_mismatch::{ReleaseMismatch, find_release_mismatch};
use super::{Hit, Shown};
use crate::facts::objects::resolved_objects::elf_at;
use crate::facts::{CuptiConsumer, CuptiCopy, FailureImpact, ImageFacts, RequestKind, UndecidedOpener};
use crate::knowledge::has_ended;
use image_linkage::elf::{ByteString, SymbolRole};
use image_linkage::escape;

/// The maximum number of symbols in a message.
const SYMBOLS: usize = 5;
/// The maximum number of programs in a message.
const NAMED: usize = 3;
/// The maximum number of locations shown.
const PLACES: usize = 20;

/// Checks the programs that load a copy, and those whose request is known only at run time.
pub(super) fn check(facts: &ImageFacts) -> Vec<Hit> {
    let mut hits = Vec::new();
    for consumer in &facts.answers.consumers {
        let is_served = consumer.outcome.as_is.answer.is_loaded();
        if !is_served || follows_from_command(facts, consumer) {
            continue;
        }
        hits.extend(lacks_symbols(consumer));
        hits.extend(calls_ended(facts, consumer));
        hits.extend(linked(consumer));
        hits.extend(find_release_mismatch(facts, consumer).map(|mismatch| shadowed(consumer, &mismatch)));
    }
    hits.extend(undecided(facts));
    hits
}

/// A hit on a program that loads a copy.
fn on_consumer(rule: &'static str, consumer: &CuptiConsumer) -> Hit {
    let outcome = &consumer.outcome.as_is;
    let path = outcome.answer.real_path().map(ToString::to_string).unwrap_or_default();
    // The user has to change the search stage that found the wrong copy.
    let evidence = outcome
        .answer
        .way()
        .map(|how| Evidence::Words(format!("{} gets {path} through {how}", consumer.object)));
    Hit::new(rule)
        .value("name", Shown::known(consumer.name.clone()))
        .value("path", Shown::known(path))
        .at([(&consumer.object, None)])
        .shown_by(evidence)
}

/// A program that imports symbols which the copy does not export. With lazy binding it starts, and exits at the first
/// call of one.
fn lacks_symbols(consumer: &CuptiConsumer) -> Option<Hit> {
    let missing = &consumer.outcome.as_is.missing_symbols;
    if missing.is_empty() {
        return None;
    }
    let hit = on_consumer("cupti-symbol-mismatch", consumer)
        .value("symbols", Shown::known(first_symbols(missing)))
        .raise_if("breaks-import", breaks_import(consumer));
    Some(hit)
}

/// Whether the program links the library and cannot be imported without it.
fn breaks_import(consumer: &CuptiConsumer) -> bool {
    consumer.required == FailureImpact::Import && consumer.request_kind == RequestKind::Needed
}

/// The first names, and the number of further ones.
fn first_symbols(names: &[ByteString]) -> String {
    let first: Vec<String> = names
        .iter()
        .take(SYMBOLS)
        .map(|name| escape::escape_bytes(name))
        .collect();
    match names.len().checked_sub(SYMBOLS) {
        None | Some(0) => first.join(", "),
        Some(more) => format!("{} and {more} more", first.join(", ")),
    }
}

/// A program that imports functions which its copy still exports, although that release has removed their APIs.
fn calls_ended(facts: &ImageFacts, consumer: &CuptiConsumer) -> Option<Hit> {
    let path = consumer.outcome.as_is.answer.real_path()?;
    let copy = facts.answers.copies.iter().find(|copy| copy.real_path == *path);
    let cuda = copy.and_then(CuptiCopy::cuda)?;
    let elf = elf_at(&facts.contexts.as_is.rootfs, &consumer.object)?;
    let mut ended = Vec::new();
    for api in facts.tables.apis.iter().filter(|api| has_ended(cuda, api)) {
        let mut symbols = elf.symbols.iter();
        if symbols.any(|symbol| symbol.role == SymbolRole::Import && api.has_ended(&symbol.name)) {
            ended.push(&*api.name);
        }
    }
    if ended.is_empty() {
        return None;
    }
    Some(on_consumer("api-ended", consumer).value("ended", Shown::known(ended.join(" and "))))
}

fn linked(consumer: &CuptiConsumer) -> Option<Hit> {
    if !breaks_import(consumer) {
        return None;
    }
    Some(on_consumer("linked-cupti", consumer).value("wants", &consumer.requested_name))
}

fn shadowed(consumer: &CuptiConsumer, mismatch: &ReleaseMismatch) -> Hit {
    on_consumer("cupti-shadowed", consumer)
        .value("gets", Shown::untrusted(&mismatch.loaded))
        .value("meant", Shown::untrusted(&mismatch.meant))
        .value("meant_by", &mismatch.says)
        .raise_if("older", mismatch.older)
}

/// All programs whose request is known only at run time, because an image shows no details of any.
fn undecided(facts: &ImageFacts) -> Option<Hit> {
    let openers = &facts.answers.undecided;
    if openers.is_empty() {
        return None;
    }
    let first: Vec<String> = openers
        .iter()
        .take(NAMED)
        .map(|opener| opener.object.to_string())
        .collect();
    let names = match openers.len().saturating_sub(NAMED) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    };
    let shown = openers.iter().take(PLACES);
    let hit = Hit::new("opened-name-unknown")
        .value("names", Shown::known(names))
        .raise_if("linked", openers.iter().any(|opener| opener.after.is_some()))
        .at(shown.clone().map(|opener| (&opener.object, None)))
        .shown_by(shown.map(held));
    Some(hit)
}

/// The parts of the name that an object contains or requests, and what decides the rest.
fn held(opener: &UndecidedOpener) -> Evidence {
    let texts: Vec<String> = opener.holds.iter().map(|text| escape::escape_bytes(text)).collect();
    let list = texts.join(", ");
    Evidence::Words(match &opener.after {
        Some(after) => format!("{} needs {list}: {after}", opener.object),
        None => format!("{} holds {list}", opener.object),
    })
}
