//! What the settings of an image lead to: variables of its environment, its command, and what is preloaded; and
//! what its scripts and the settings of its programs name.

use std::collections::{BTreeMap, BTreeSet};

use super::super::library_aliases::last_part;
use super::super::process_context::ProcessContext;
use super::super::world::ByWorld;
use super::name_index::NameIndex;
use super::reference::{FileReference, FileReferrer, ObjectInventory, ReferenceKind};
use image_linkage::loader::{ProcessSetup, SimulatedProcess};
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;
use image_source::Image;

/// The references of what is preloaded, of the variables of the environment, and of the command.
pub(super) fn of_settings(
    image: &Image,
    contexts: &ByWorld<ProcessContext>,
    names: &NameIndex<'_>,
) -> Vec<FileReference> {
    let rootfs = &contexts.as_is.rootfs;
    let at = |path: &str| {
        let found = path.starts_with('/').then(|| rootfs.lookup(path.as_bytes()).ok());
        names.at(&found.flatten()?.path)
    };
    let mut references = Vec::new();
    for (key, value) in &image.config.env {
        // ld.so splits LD_PRELOAD at spaces and colons, and other variables hold lists with commas.
        for word in value.split([':', ' ', ',']) {
            references.extend(at(word).map(|file| reference(&file.path, key, word.as_bytes())));
        }
    }
    // The words of a health check may be one text for a shell, and a path may stand behind an option's name.
    let check = image.config.settings.healthcheck.iter().flat_map(|check| &check.test);
    for text in check.chain(&image.config.command) {
        for word in text.split([' ', '=', '"', '\'', ';']) {
            references.extend(at(word).map(|file| reference(&file.path, "the command of the image", word.as_bytes())));
        }
    }
    for word in &image.config.command {
        // A bare word is looked for on PATH when the container starts: the name alone is enough to keep a file.
        let called = names.files.iter().find(|file| file.path.name() == word.as_bytes());
        references.extend(called.map(|file| reference(&file.path, "the command of the image", word.as_bytes())));
    }
    references.extend(of_preload(contexts, names));
    references
}

/// The references of `LD_PRELOAD` and of `/etc/ld.so.preload`.
fn of_preload(contexts: &ByWorld<ProcessContext>, names: &NameIndex<'_>) -> Vec<FileReference> {
    const PRELOADED: &str = "what is preloaded";
    // By name alone: `$LIB`, `$ORIGIN` and a DT_RPATH in a preload's search mean what they mean to each program.
    let words = contexts.as_is.preloaded_names();
    let mut references: Vec<FileReference> = words
        .flat_map(|word| names.of(word).map(move |file| reference(&file.path, PRELOADED, word)))
        .collect();
    // What is preloaded brings what it needs.
    let started = ByWorld::map(contexts, |context| {
        let start = |setup: &ProcessSetup<'_>| SimulatedProcess::new(setup).start_unknown();
        context.with_setup(start).unwrap_or_default()
    });
    let objects = [&started.as_is, &started.nvidia]
        .into_iter()
        .flat_map(|started| &started.objects);
    let of_dead_weight = objects.filter(|object| names.at(&object.real_path).is_some());
    references.extend(of_dead_weight.map(|object| reference(&object.real_path, PRELOADED, &object.name)));
    references
}

/// Where `slim` says in an image what it brought and took: it names files, and reads none.
// /usr/share is for files of programs that are the same on every processor (FHS 3.0, section 4.11).
pub const PROVENANCE_PLACE: &str = "usr/share/cupti-audit/proof.json";

/// The references of the scripts and settings of programs that name a file by an absolute path.
pub(super) fn of_texts(
    rootfs: &Rootfs,
    names: &NameIndex<'_>,
    links: &BTreeMap<RootPath, Vec<RootPath>>,
    inventory: &ObjectInventory,
) -> Vec<FileReference> {
    let files = names.files.iter().map(|file| &file.path);
    let known: BTreeSet<&[u8]> = files.chain(links.values().flatten()).map(RootPath::name).collect();
    let is_path = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._+-".contains(byte);
    let mut references = Vec::new();
    let proof = RootPath::from(PROVENANCE_PLACE);
    for (text, facts) in inventory.texts.iter().filter(|(text, _)| *text != proof) {
        let words = facts.kept.as_deref().unwrap_or_default().split(|byte| !is_path(byte));
        // A path is looked up only where its name is that of such a file: most lines name others.
        let paths = words.filter(|word| word.starts_with(b"/") && known.contains(last_part(word)));
        for path in paths.collect::<BTreeSet<_>>() {
            let file = rootfs.lookup(path).ok().and_then(|found| names.at(&found.path));
            references.extend(file.map(|file| FileReference {
                by: FileReferrer::Object(text.clone()),
                ..reference(&file.path, "", path)
            }));
        }
    }
    references
}

fn reference(file: &RootPath, by: &str, name: &[u8]) -> FileReference {
    FileReference {
        file: file.clone(),
        by: FileReferrer::Setting(by.to_owned()),
        name: name.into(),
        how: ReferenceKind::Names,
    }
}
