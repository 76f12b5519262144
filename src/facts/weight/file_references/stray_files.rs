//! Finds libraries among the dead weight that no search path, package, toolkit or distribution explains. Their users
//! probably open them by path, which may be built from parts, so such libraries are kept.

use std::collections::BTreeSet;

use super::name_index::NameIndex;
use super::reference::{FileReference, FileReferrer, ReferenceKind};
use crate::byte_search::{contains_bytes, last_part};
use crate::facts::objects::process_context::ProcessContext;
use crate::facts::objects::resolved_objects::elf_at;
use crate::facts::objects::world::ByWorld;
use crate::facts::software::file_owner::{self, FileOwner, OwnerKind};
use crate::facts::software::opened_names::imports_opener;
use crate::facts::weight::dead_weight::DeadWeightFile;
use crate::knowledge::shared_folders::SharedFolders;
use crate::knowledge::{ConsumerProfile, Knowledge};
use image_linkage::elf::ElfFacts;
use image_linkage::loader::{ProcessSetup, SimulatedProcess};
use image_linkage::path::RootPath;

/// The maximum number of libraries whose owner is looked up.
const MANY: usize = 1024;

/// References that keep the unexplained libraries.
pub(super) fn of_strays<'f>(
    contexts: &ByWorld<ProcessContext>,
    knowledge: &Knowledge,
    names: &NameIndex<'f>,
    profiles: &[ConsumerProfile],
) -> impl Iterator<Item = FileReference> + use<'f> {
    let found = [&contexts.as_is, &contexts.nvidia].map(|context| on_search_path(context, names));
    let (rootfs, shared) = (&contexts.as_is.rootfs, &knowledge.tables.shared_folders);
    let is_explained = |number: usize, file: &DeadWeightFile| {
        found.iter().any(|found| found.contains(&number))
            || shared.is_of_package(&file.path)
            || is_of_known_package(profiles, &file.path)
            || shared.is_shared(&file.path.parent())
    };
    let left = names.files.iter().enumerate();
    let left = left.filter(|(number, file)| !is_explained(*number, file));
    let mut left: Vec<_> = left.map(|(_, file)| file).collect();
    left.retain(|file| elf_at(rootfs, &file.path).is_some());
    // Each lookup reads the package lists. No real image has more files than the limit, so such an image keeps them
    // all.
    if left.len() <= MANY {
        left.retain(|file| is_unknown(&file_owner::find_owner(knowledge, rootfs, &file.path)));
    }
    left.into_iter().map(|file| FileReference {
        file: file.path.clone(),
        by: FileReferrer::Setting("its place".to_owned()),
        name: file.path.name().into(),
        how: ReferenceKind::Unexplained,
    })
}

/// Whether a file is in a Python package whose use of the library is known.
fn is_of_known_package(profiles: &[ConsumerProfile], path: &RootPath) -> bool {
    let pythons = profiles.iter().filter_map(|profile| profile.python.as_ref());
    let mut packages = pythons.flat_map(|python| &python.packages).map(String::as_bytes);
    packages.any(|package| path.parent().split_components().any(|part| part == package))
}

/// Whether the owner of a file does not provide the library for general use. Another Python package's modules may open
/// their own copy.
fn is_unknown(owner: &FileOwner) -> bool {
    let begins = |begin| owner.name.starts_with(begin);
    match owner.kind {
        OwnerKind::Unknown => true,
        OwnerKind::Pip => !begins("nvidia"),
        OwnerKind::Deb | OwnerKind::Rpm | OwnerKind::Conda | OwnerKind::Bundled => false,
    }
}

/// The prefixes of bare names that the container's program computes and opens through the search path.
pub(super) fn computed_names(context: &ProcessContext, shared: &SharedFolders) -> Vec<Vec<u8>> {
    let program = context.entry.executable.as_ref();
    let program = program.filter(|path| !shared.is_interpreter(path));
    let elf = program.and_then(|path| elf_at(&context.rootfs, path));
    let Some(elf) = elf.filter(|elf| imports_opener(elf)) else {
        return Vec::new();
    };
    let mut bare = held_names(elf).filter(|text| !text.contains(&b'/')).peekable();
    if bare.peek().is_none() && held_names(elf).next().is_none() {
        // It contains no names, so it gets them from its input.
        return vec![Vec::new()];
    }
    // `pti.so.12` is appended to something, or searched for in a name from the input.
    let is_end = |text: &[u8]| !text.starts_with(b"lib") && !text.starts_with(b"ld-");
    let computed = bare.filter(|text| known_part(text).len() < text.len() || is_end(text));
    let begin = |text| if is_end(text) { &[][..] } else { known_part(text) };
    computed.map(|text| begin(text).to_vec()).collect()
}

/// The strings of an object that may be library names or parts of them.
fn held_names(elf: &ElfFacts) -> impl Iterator<Item = &[u8]> {
    let texts = elf.mentions.iter().chain(&elf.fragments);
    // Every program contains the loader's path.
    let texts = texts.filter(|text| Some(*text) != elf.interp.as_ref());
    let texts = texts.map(|text| &**text);
    texts.filter(|text| contains_bytes(text, b".so"))
}

/// The file name in a string up to the part that a program fills in.
fn known_part(text: &[u8]) -> &[u8] {
    let is_open = |byte: &u8| b"%*?[".contains(byte);
    match last_part(text) {
        name if name.iter().any(is_open) => name.split(is_open).next().unwrap_or_default(),
        _ => text,
    }
}

/// The indices of the files that a process without its own search path finds by a bare name.
fn on_search_path(context: &ProcessContext, names: &NameIndex<'_>) -> BTreeSet<usize> {
    let search = |setup: &ProcessSetup<'_>| {
        let folders = SimulatedProcess::plain_search_path(setup).into_iter();
        let in_folders = folders.flat_map(|(_, folder)| names.numbers_in(&context.rootfs, setup, &folder));
        let cache = setup
            .linker
            .cache
            .as_deref()
            .into_iter()
            .flat_map(image_linkage::loader::LdCache::iter);
        let known = cache.filter(|(name, _)| names.by_name.contains_key(*name));
        let cached = known.filter_map(|(_, entry)| context.rootfs.lookup(&entry.path).ok());
        let cached = cached.filter_map(|found| names.number_at(&found.path));
        in_folders.chain(cached).collect()
    };
    context.with_setup(search).unwrap_or_default()
}
