//! A program that loads libcupti.

use super::evidence::Evidence;
use super::rule_subject::{RuleSubject, escaped, flag, text};
use crate::facts::objects::resolved_objects::elf_at;
use crate::facts::{CuptiConsumer, CuptiCopy, ImageFacts, RequestOutcome};
use crate::judge::rule::subject::release_mismatch::{self, ReleaseMismatch};
use crate::knowledge::api::CuptiApi;
use crate::knowledge::has_ended;
use crate::knowledge::rule::SubjectKind;
use image_linkage::elf::{ByteString, SymbolRole};
use image_linkage::escape;

/// The maximum number of symbols in a message.
const SYMBOLS: usize = 5;

/// The programs that load a copy.
pub(super) fn subjects(facts: &ImageFacts) -> Vec<RuleSubject> {
    let served = facts
        .consumers
        .iter()
        .filter(|consumer| consumer.outcome.as_is.outcome == RequestOutcome::Loaded);
    served
        .map(|consumer| {
            let shadowed = release_mismatch::find_release_mismatch(facts, consumer);
            subject(consumer, shadowed, &ended_apis(facts, consumer))
        })
        .collect()
}

/// The APIs whose functions a program imports and its copy still exports, although that release has removed them.
fn ended_apis<'f>(facts: &'f ImageFacts, consumer: &CuptiConsumer) -> Vec<&'f str> {
    let got = consumer.outcome.as_is.real_path.as_ref();
    let copy = facts.copies.iter().find(|copy| got == Some(&copy.real_path));
    let Some(cuda) = copy.and_then(CuptiCopy::cuda) else {
        return Vec::new();
    };
    let elf = elf_at(&facts.contexts.as_is.rootfs, &consumer.object);
    let imports = |api: &CuptiApi| {
        let mut symbols = elf.iter().flat_map(|elf| &elf.symbols);
        symbols.any(|symbol| symbol.role == SymbolRole::Import && api.has_ended(&symbol.name))
    };
    let ended = facts
        .tables
        .apis
        .iter()
        .filter(|api| has_ended(cuda, api) && imports(api));
    ended.map(|api| &*api.name).collect()
}

fn subject(consumer: &CuptiConsumer, shadowed: Option<ReleaseMismatch>, ended: &[&str]) -> RuleSubject {
    let gets = &consumer.outcome.as_is;
    let real_path = gets.real_path.iter().map(ToString::to_string).next();
    let is_shadowed = shadowed.is_some();
    let shadowed = shadowed.unwrap_or_default();
    let how = gets.how.map(|how| how.text(&gets.objects));
    // The user has to change the search stage that found the wrong copy.
    let evidence = how.map(|how| {
        let path = real_path.clone().unwrap_or_default();
        Evidence::Words(format!("{} gets {path} through {how}", consumer.object))
    });
    SubjectKind::Consumer
        .subject([
            ("name", text(consumer.name.clone())),
            ("object", text(consumer.object.to_string())),
            ("asks", text(consumer.asks.name())),
            ("wants", text(escape::escape_bytes(&consumer.wants))),
            ("required", text(consumer.required.name())),
            ("path", text(real_path.unwrap_or_default())),
            // With lazy binding such a program starts, and exits at the first call of a missing symbol.
            ("lacks_symbols", flag(!gets.missing_symbols.is_empty())),
            ("symbols", text(list(&gets.missing_symbols))),
            ("calls_ended", flag(!ended.is_empty())),
            ("ended", text(ended.join(" and "))),
            ("shadowed", flag(is_shadowed)),
            ("older", flag(shadowed.older)),
            ("gets", escaped(&shadowed.gets)),
            ("meant", escaped(&shadowed.meant)),
            ("meant_by", text(shadowed.says.to_string())),
        ])
        .at([(&consumer.object, None)])
        .shown_by(evidence)
}

/// The first names, and the number of further ones.
fn list(names: &[ByteString]) -> String {
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
