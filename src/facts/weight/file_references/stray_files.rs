//! The libraries among the dead weight that no search path, package, toolkit or distribution explains. Who put one there
//! opens it by a path of his own, which may be put together of parts: such a library stays.

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

/// The libraries of one image that are looked at one by one, at most.
const MANY: usize = 1024;

/// The references that keep what nothing explains.
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
    // Each is looked for in the lists of packages: of more files than any image has that is not asked.
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

/// Whether a file lies in a package of Python whose loading of the library is known.
fn is_of_known_package(profiles: &[ConsumerProfile], path: &RootPath) -> bool {
    let pythons = profiles.iter().filter_map(|profile| profile.python.as_ref());
    let mut packages = pythons.flat_map(|python| &python.packages).map(String::as_bytes);
    packages.any(|package| path.parent().split_components().any(|part| part == package))
}

/// Whether the owner of a file is none that brings the library for everybody: what another package of Python holds, its
/// own modules open.
fn is_unknown(owner: &FileOwner) -> bool {
    let begins = |begin| owner.name.starts_with(begin);
    match owner.kind {
        OwnerKind::Unknown => true,
        OwnerKind::Pip => !begins("nvidia"),
        OwnerKind::Deb | OwnerKind::Conda | OwnerKind::Bundled => false,
    }
}

/// What the bare names begin with that the container's program opens and computes: the search path leads to them.
pub(super) fn computed_names(context: &ProcessContext, shared: &SharedFolders) -> Vec<Vec<u8>> {
    let program = context.entry.executable.as_ref();
    let program = program.filter(|path| !shared.is_interpreter(path));
    let elf = program.and_then(|path| elf_at(&context.rootfs, path));
    let Some(elf) = elf.filter(|elf| imports_opener(elf)) else {
        return Vec::new();
    };
    let mut bare = held_names(elf).filter(|text| !text.contains(&b'/')).peekable();
    if bare.peek().is_none() && held_names(elf).next().is_none() {
        // It is told by what it reads.
        return vec![Vec::new()];
    }
    // `pti.so.12` is put behind something, or looked for in a name that is read.
    let is_end = |text: &[u8]| !text.starts_with(b"lib") && !text.starts_with(b"ld-");
    let computed = bare.filter(|text| known_part(text).len() < text.len() || is_end(text));
    let begin = |text| if is_end(text) { &[][..] } else { known_part(text) };
    computed.map(|text| begin(text).to_vec()).collect()
}

/// The texts of an object that may be names of libraries or parts of them.
fn held_names(elf: &ElfFacts) -> impl Iterator<Item = &[u8]> {
    let texts = elf.mentions.iter().chain(&elf.fragments);
    // The loader's own path stands in every program.
    let texts = texts.filter(|text| Some(*text) != elf.interp.as_ref());
    let texts = texts.map(|text| &**text);
    texts.filter(|text| contains_bytes(text, b".so"))
}

/// The file name in a text up to what a program fills in.
fn known_part(text: &[u8]) -> &[u8] {
    let is_open = |byte: &u8| b"%*?[".contains(byte);
    match last_part(text) {
        name if name.iter().any(is_open) => name.split(is_open).next().unwrap_or_default(),
        _ => text,
    }
}

/// The numbers of the files that a process without a search path of its own finds by a bare name.
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
