//! Who says a word that stands for a program of a toolkit, such as a compiler's name: what runs one finds it by `PATH`,
//! and that finds its parts itself, so that no path of them stands anywhere.

use std::collections::BTreeSet;

use super::super::dead_weight::{DeadWeightFile, DeadWeightUse};
use super::reference::ObjectInventory;
use super::settings::setting_texts;
use crate::knowledge::KnowledgeTables;
use image_source::Image;

/// The uses that words show of the kinds of `files`: those of the image's settings, its scripts, and packages of Python.
pub(in super::super) fn find_word_uses(
    image: &Image,
    tables: &'static KnowledgeTables,
    files: &[DeadWeightFile],
    inventory: &ObjectInventory,
) -> Vec<DeadWeightUse> {
    let there: BTreeSet<&str> = files.iter().map(|file| file.kind).collect();
    let kinds = tables.dead_weight.kinds.iter();
    let kinds = kinds.filter(|kind| there.contains(kind.id.as_str()));
    let uses = kinds.flat_map(|kind| kind.used_by.iter().map(move |used| (kind, used)));
    let uses = uses.filter(|(_, used)| !used.words.is_empty());
    let uses = uses.filter_map(|(kind, used)| {
        let by = who_says(&used.words, image, tables, inventory)?;
        let (kind, why) = (kind.id.as_str(), used.why.as_str());
        Some(DeadWeightUse { kind, by, why })
    });
    uses.collect()
}

/// The first that says one of the words.
fn who_says(words: &[String], image: &Image, tables: &KnowledgeTables, inventory: &ObjectInventory) -> Option<String> {
    let says = |text: &str, ends: WordEnds| words.iter().any(|word| holds_word(text, word, ends));
    let setting = setting_texts(image).find(|(_, text)| says(text, WordEnds::Needed));
    if let Some((by, _)) = setting {
        return Some(by.to_owned());
    }
    let shared = &tables.shared_folders;
    let mut texts = inventory.texts.iter();
    let text = texts.find(|(path, facts)| {
        let is_package = path.split_components().any(|folder| folder.ends_with(b"-packages"));
        if shared.is_of_system(path) && !is_package || shared.is_of_framework(path) {
            return false;
        }
        let content = String::from_utf8_lossy(facts.kept.as_deref().unwrap_or_default());
        let is_compiled = path.name().ends_with(b".pyc");
        let ends = if is_compiled { WordEnds::Any } else { WordEnds::Needed };
        says(&content, ends)
    });
    text.map(|(path, _)| path.to_string())
}

/// Whether a word has to end where the text says it does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WordEnds {
    Needed,
    /// In a compiled module words run into each other.
    Any,
}

fn holds_word(text: &str, word: &str, ends: WordEnds) -> bool {
    let goes_on = |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    let around = |at: usize| (text.get(..at), text.get(at + word.len()..));
    let mut found = text.match_indices(word).map(|(at, _)| around(at));
    found.any(|(before, after)| {
        let before = before.and_then(|before| before.chars().next_back());
        ends == WordEnds::Any || !goes_on(before) && !goes_on(after.and_then(|after| after.chars().next()))
    })
}
