//! Finds the references in an image's settings: environment variables, the command, and preloaded objects. Also
//! searches scripts and programs' settings for paths, and for words that show the use of a toolkit's program.

use std::collections::BTreeSet;

use super::name_index::NameIndex;
use super::named_files::NamedFiles;
use super::reference::{FileReference, FileReferrer, ObjectInventory, ReferenceCase, ReferenceKind, ReferenceList};
use crate::facts::objects::process_context::ProcessContext;
use crate::facts::objects::world::ByWorld;
use crate::facts::weight::dead_weight::{DeadWeightFile, DeadWeightUse};
use image_linkage::loader::SimulatedProcess;
use image_linkage::path::RootPath;
use image_source::Image;

/// Adds the references of preloads, of environment variables and of the command.
pub(super) fn add_settings(
    case: &ReferenceCase<'_>,
    names: &NameIndex<'_>,
    mentioned: &NamedFiles<'_>,
    references: &mut ReferenceList<'_>,
) {
    let mut left = WORDS;
    for (by, text) in setting_texts(case.image) {
        let by = FileReferrer::Setting(by.to_owned());
        mentioned.add_text(text.as_bytes(), &by, &mut left, references);
    }
    // A bare word is searched on PATH when the container starts, so the name is enough to keep a file.
    let words: BTreeSet<&[u8]> = case.image.config.command.iter().map(String::as_bytes).collect();
    let called = names.files.iter().filter(|file| words.contains(file.path.name()));
    references.extend(called.map(|file| reference(&file.path, COMMAND, file.path.name())));
    add_preloads(case.contexts, names, references);
}

/// The origin of references in the command or the health check.
const COMMAND: &str = "the command of the image";

/// The texts of an image's settings, each with its origin.
pub(super) fn setting_texts(image: &Image) -> impl Iterator<Item = (&str, String)> {
    let variables = image
        .config
        .env
        .iter()
        .map(|(key, value)| (key.as_str(), format!("{key}={value}")));
    // A health check may be a single shell text, and a path may follow an option's name.
    let check = image.config.settings.healthcheck.iter().flat_map(|check| &check.test);
    let command = check.chain(&image.config.command);
    variables.chain(command.map(|text| (COMMAND, text.clone())))
}

/// Adds the references of `LD_PRELOAD` and of `/etc/ld.so.preload`.
fn add_preloads(contexts: &ByWorld<ProcessContext>, names: &NameIndex<'_>, references: &mut ReferenceList<'_>) {
    const PRELOADED: &str = "what is preloaded";
    // Compare names only, because `$LIB`, `$ORIGIN` and DT_RPATH differ between programs.
    let words: BTreeSet<&[u8]> = contexts.as_is.preloaded_names().collect();
    let files = words
        .into_iter()
        .flat_map(|word| names.of(word).map(move |file| (word, file)));
    references.extend(files.map(|(word, file)| reference(&file.path, PRELOADED, word)));
    // A preloaded object also loads its dependencies.
    let started = contexts.map(|context| {
        let started = context.with_setup(|setup| SimulatedProcess::new(setup).start_unknown());
        started.unwrap_or_default()
    });
    let objects = [&started.as_is, &started.nvidia]
        .into_iter()
        .flat_map(|started| &started.objects);
    let of_dead_weight = objects.filter(|object| names.at(&object.real_path).is_some());
    references.extend(of_dead_weight.map(|object| reference(&object.real_path, PRELOADED, &object.name)));
}

/// The file in which `slim` records the added and removed files. It names files but uses none.
// /usr/share is for architecture-independent files of programs (FHS 3.0, section 4.11).
pub const PROVENANCE_PLACE: &str = "usr/share/cupti-audit/proof.json";
/// The label of an image that only has the GPU code for these GPUs, such as `sm_80,sm_90`.
pub const SLIM_GPU_LABEL: &str = "cupti-audit.slim.gpu";

/// Adds the references of scripts and of programs' settings.
pub(super) fn add_texts(mentioned: &NamedFiles<'_>, inventory: &ObjectInventory, references: &mut ReferenceList<'_>) {
    let mut left = WORDS;
    let proof = RootPath::from(PROVENANCE_PLACE);
    for (text, facts) in &inventory.texts {
        // Profiles contain what frameworks open.
        if *text == proof || mentioned.shared().is_of_framework(text) {
            continue;
        }
        let content = facts.kept.as_deref().unwrap_or_default();
        let by = FileReferrer::Object(text.clone());
        mentioned.add_text(content, &by, &mut left, references);
        if references.is_cut() {
            return;
        }
    }
}

/// The maximum number of occurrences to examine in scripts and settings. A PyTorch image has a few thousand.
const WORDS: usize = 200_000;

fn reference(file: &RootPath, by: &str, name: &[u8]) -> FileReference {
    FileReference {
        file: file.clone(),
        by: FileReferrer::Setting(by.to_owned()),
        name: name.into(),
        how: ReferenceKind::Names,
    }
}

/// Finds words that show the use of the kinds of `files`, in the image's settings, scripts and Python packages.
pub(super) fn find_word_uses(case: &ReferenceCase<'_>, files: &[DeadWeightFile]) -> Vec<DeadWeightUse> {
    let there: BTreeSet<&str> = files.iter().map(|file| file.kind).collect();
    let mut uses = Vec::new();
    for kind in &case.knowledge.tables.dead_weight.kinds {
        if !there.contains(kind.id.as_str()) {
            continue;
        }
        for used in kind.used_by.iter().filter(|used| !used.words.is_empty()) {
            uses.extend(place_of_word(&used.words, case).map(|by| DeadWeightUse {
                kind: &kind.id,
                by,
                why: &used.why,
            }));
        }
    }
    uses
}

/// The first origin with one of the words.
fn place_of_word(words: &[String], case: &ReferenceCase<'_>) -> Option<String> {
    let setting = setting_texts(case.image).find(|(_, text)| words.iter().any(|word| holds_word(text, word)));
    if let Some((by, _)) = setting {
        return Some(by.to_owned());
    }
    let shared = &case.knowledge.tables.shared_folders;
    let mut texts = case.inventory.texts.iter();
    let text = texts.find(|(path, facts)| {
        let is_package = path.split_components().any(|folder| folder.ends_with(b"-packages"));
        let is_of_system = shared.is_of_system(path) && !is_package;
        let mut noted = facts.noted_words.iter();
        noted.any(|noted| words.iter().any(|word| **word == **noted)) && !is_of_system && !shared.is_of_framework(path)
    });
    text.map(|(path, _)| path.to_string())
}

/// Whether a text contains the word as a whole word.
fn holds_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        let after = text.get(at + word.len()..).and_then(|after| after.chars().next());
        !before.is_some_and(is_of_word) && !after.is_some_and(is_of_word)
    })
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}
