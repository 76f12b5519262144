//! Finds libraries among the dead weight that no search path, package, toolkit or distribution explains. Their users
//! probably open them by path, which may be built from parts, so such libraries are kept.

use std::collections::BTreeSet;

use super::name_index::NameIndex;
use super::reference::{FileReference, FileReferrer, ReferenceCase, ReferenceKind};
use crate::byte_search::{contains_bytes, last_part};
use crate::facts::objects::process_context::ProcessContext;
use crate::facts::objects::resolved_objects::elf_at;
use crate::facts::software::file_owner::{self, FileOwner, OwnerKind};
use crate::facts::software::opened_names::imports_opener;
use crate::knowledge::ConsumerProfile;
use crate::knowledge::shared_folders::SharedFolders;
use image_linkage::elf::ElfFacts;
use image_linkage::loader::{LdCache, SimulatedProcess};
use image_linkage::path::RootPath;

/// The maximum number of libraries whose owner is looked up.
const MANY: usize = 1024;

/// References that keep the unexplained libraries.
pub(super) fn of_strays<'f>(
    case: &ReferenceCase<'_>,
    names: &NameIndex<'f>,
) -> impl Iterator<Item = FileReference> + use<'f> {
    let (contexts, knowledge) = (case.contexts, case.knowledge);
    let found = [&contexts.as_is, &contexts.nvidia].map(|context| on_search_path(context, names));
    let (rootfs, shared) = (&contexts.as_is.rootfs, &knowledge.tables.shared_folders);
    let mut left = Vec::new();
    for (number, file) in names.files.iter().enumerate() {
        let is_explained = found.iter().any(|found| found.contains(&number))
            || shared.is_of_package(&file.path)
            || is_of_known_package(case.profiles, &file.path)
            || shared.is_shared(&file.path.parent());
        if !is_explained && elf_at(rootfs, &file.path).is_some() {
            left.push(file);
        }
    }
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
    match owner.kind {
        OwnerKind::Unknown => true,
        OwnerKind::Pip => !owner.name.starts_with("nvidia"),
        OwnerKind::Deb | OwnerKind::Rpm | OwnerKind::Conda | OwnerKind::Bundled => false,
    }
}

/// The prefixes of bare names that the container's program computes and opens through the search path.
pub(super) fn computed_names(context: &ProcessContext, shared: &SharedFolders) -> Vec<Vec<u8>> {
    let Some(program) = &context.entry.executable else {
        return Vec::new();
    };
    let elf = elf_at(&context.rootfs, program).filter(|elf| imports_opener(elf));
    let Some(elf) = elf.filter(|_| !shared.is_interpreter(program)) else {
        return Vec::new();
    };
    let mut bare = held_names(elf).filter(|text| !text.contains(&b'/')).peekable();
    if bare.peek().is_none() && held_names(elf).next().is_none() {
        // It contains no names, so it gets them from its input.
        return vec![Vec::new()];
    }
    let mut begins = Vec::new();
    for text in bare {
        let known = known_part(text);
        if !text.starts_with(b"lib") && !text.starts_with(b"ld-") {
            // `pti.so.12` is appended to something, or searched for in a name from the input.
            begins.push(Vec::new());
        } else if known.len() < text.len() {
            begins.push(known.to_vec());
        }
    }
    begins
}

/// The strings of an object that may be library names or parts of them.
fn held_names(elf: &ElfFacts) -> impl Iterator<Item = &[u8]> {
    let texts = elf.mentions.iter().chain(&elf.fragments);
    // Every program contains the loader's path.
    let held = texts.filter(|text| Some(*text) != elf.interp.as_ref() && contains_bytes(text, b".so"));
    held.map(|text| &**text)
}

/// The file name in a string up to the part that a program fills in.
fn known_part(text: &[u8]) -> &[u8] {
    let mut parts = last_part(text).split(|byte| b"%*?[".contains(byte));
    match (parts.next(), parts.next()) {
        (Some(known), Some(_)) => known,
        _ => text,
    }
}

/// The indices of the files that a process without its own search path finds by a bare name.
fn on_search_path(context: &ProcessContext, names: &NameIndex<'_>) -> BTreeSet<usize> {
    let found = context.with_setup(|setup| {
        let mut found = BTreeSet::new();
        for (_, folder) in SimulatedProcess::plain_search_path(setup) {
            found.extend(names.numbers_in(&context.rootfs, setup, &folder));
        }
        let cache = setup.linker.cache.as_deref();
        for (name, entry) in cache.into_iter().flat_map(LdCache::iter) {
            if names.by_name.contains_key(name)
                && let Ok(file) = context.rootfs.lookup(&entry.path)
            {
                found.extend(names.number_at(&file.path));
            }
        }
        found
    });
    found.unwrap_or_default()
}
