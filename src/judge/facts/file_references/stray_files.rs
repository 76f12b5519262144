//! The libraries among the dead weight that no search path, package, toolkit or distribution explains. Who put one there
//! opens it by a path of his own, which may be put together of parts: what names a part of it, or opens libraries by names
//! that only a run could tell, keeps it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::dead_weight::DeadWeightFile;
use super::super::file_owner::{self, FileOwner, OwnerKind};
use super::super::library_aliases::last_part;
use super::super::opened_names::imports_opener;
use super::super::process_context::ProcessContext;
use super::super::resolved_objects::elf_at;
use super::super::world::ByWorld;
use super::name_index::{NameIndex, is_below};
use super::reference::{FileReference, FileReferrer, ObjectInventory, ReferenceKind};
use crate::byte_search::contains_bytes;
use crate::knowledge::file_interest::FOLDER_READERS;
use crate::knowledge::shared_folders::SharedFolders;
use crate::knowledge::{ConsumerProfile, Knowledge};
use image_linkage::elf::{ElfFacts, SymbolRole};
use image_linkage::layer::FileFacts;
use image_linkage::loader::{ProcessSetup, SimulatedProcess};
use image_linkage::path::RootPath;

/// The libraries of one image that are looked at one by one, at most.
const MANY: usize = 1024;

/// The libraries that nothing explains, by the parts of their paths.
#[derive(Default)]
pub(super) struct StrayFiles<'f> {
    files: BTreeSet<&'f RootPath>,
    /// Those whose name some object of the image needs or holds.
    asked: BTreeSet<&'f RootPath>,
    /// Each with the path of the file or of a link that leads to it.
    places: Vec<(RootPath, &'f DeadWeightFile)>,
    /// The places by their file name and by the name of their folder.
    by_part: BTreeMap<Vec<u8>, Vec<usize>>,
}

impl<'f> StrayFiles<'f> {
    pub(super) fn find(
        contexts: &ByWorld<ProcessContext>,
        knowledge: &Knowledge,
        names: &NameIndex<'f>,
        links: &BTreeMap<RootPath, Vec<RootPath>>,
        inventory: &ObjectInventory,
        profiles: &[ConsumerProfile],
    ) -> Self {
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
        let mut left: Vec<_> = left.filter(|(_, file)| elf_at(rootfs, &file.path).is_some()).collect();
        // Each is looked for in the lists of packages: of more files than any image has that is not asked.
        if left.len() <= MANY {
            left.retain(|(_, file)| is_unknown(&file_owner::find_owner(knowledge, rootfs, &file.path)));
        }
        let mut stray = Self::default();
        for (_, file) in left {
            stray.files.insert(&file.path);
            let links = links.get(&file.path).into_iter().flatten();
            for place in links.chain([&file.path]) {
                for part in [place.name(), place.parent().name()] {
                    let alike = stray.by_part.entry(part.to_vec()).or_default();
                    alike.push(stray.places.len());
                }
                stray.places.push((place.clone(), file));
            }
        }
        let objects = inventory.objects.iter().filter_map(|(_, facts)| facts.elf.as_ref());
        // A name once: thousands of files of one name that ask for it are their square.
        let asked: BTreeSet<_> = objects.flat_map(|elf| elf.needed.iter().chain(&elf.mentions)).collect();
        let asked = asked.into_iter().flat_map(|name| names.of(name)).map(|file| &file.path);
        stray.asked = asked.filter(|path| stray.files.contains(path)).collect();
        stray
    }

    /// Whether a word may name one of them.
    pub(super) fn may_be_named(&self, word: &[u8]) -> bool {
        self.by_part.contains_key(last_part(without_slash(word)))
    }

    /// Those of whose path a word is the end, or of whose folder.
    pub(super) fn named_by(&self, word: &[u8]) -> impl Iterator<Item = &'f DeadWeightFile> {
        let word = without_slash(word);
        // What begins with a variable, or in a folder that is not known, is told by its last part.
        let end = if word.starts_with(b"/") { word } else { last_part(word) };
        let ends = move |path: &RootPath| {
            let rest = path.as_bytes().strip_suffix(end.strip_prefix(b"/").unwrap_or(end));
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with(b"/"))
        };
        let alike = self.by_part.get(last_part(word)).map(Vec::as_slice).unwrap_or_default();
        let places = alike.iter().filter_map(|&number| self.places.get(number));
        let is_it = move |place: &RootPath| alike.len() > MANY || ends(place) || ends(&place.parent());
        places.filter(move |(place, _)| is_it(place)).map(|(_, file)| *file)
    }

    /// Those that lie below a folder, or, where there is none, whose path begins so; none of the root, which everybody
    /// names. Of too many, all of them.
    pub(super) fn below(&self, begin: &RootPath, is_folder: bool) -> impl Iterator<Item = &'f DeadWeightFile> {
        let is_root = begin.as_bytes().is_empty();
        let is_it = move |place: &RootPath| {
            if is_folder {
                is_below(place, begin)
            } else {
                place.as_bytes().starts_with(begin.as_bytes())
            }
        };
        let places = self.places.iter().filter(move |_| !is_root);
        let places = places.filter(move |(place, _)| self.places.len() > MANY || is_it(place));
        places.map(|(_, file)| *file)
    }

    /// Whether a file is one of them.
    pub(super) fn has(&self, file: &DeadWeightFile) -> bool {
        self.files.contains(&file.path)
    }

    /// Whether a file is one of them, and something would get it that is given its folder as a search path.
    pub(super) fn is_asked(&self, file: &DeadWeightFile) -> bool {
        self.asked.contains(&file.path)
    }

    /// The references of somebody who opens libraries by names that only a run could tell.
    pub(super) fn opened_by(&self, by: &FileReferrer) -> impl Iterator<Item = FileReference> {
        self.places.iter().map(move |(_, file)| FileReference {
            file: file.path.clone(),
            by: by.clone(),
            name: file.path.name().into(),
            how: ReferenceKind::MayOpen,
        })
    }

    /// The references of a program of the image's own that opens what it finds in a folder, or by a name that it computes;
    /// of several, the first.
    pub(super) fn of_program(
        &self,
        context: &ProcessContext,
        shared: &SharedFolders,
        inventory: &ObjectInventory,
    ) -> Vec<FileReference> {
        // What the container starts is the image's own, wherever it lies.
        let command = context.entry.executable.as_ref();
        let is_own =
            |path: &RootPath| (command == Some(path) || !shared.is_of_system(path)) && !shared.is_interpreter(path);
        let opens = |(path, facts): &&(RootPath, Arc<FileFacts>)| {
            let elf = facts
                .elf
                .as_ref()
                .filter(|_| is_own(path) && !self.files.contains(path));
            elf.is_some_and(|elf| opens_unknown_names(elf))
        };
        let found = inventory.objects.iter().find(opens).filter(|_| !self.places.is_empty());
        found.map_or_else(Vec::new, |(path, _)| {
            self.opened_by(&FileReferrer::Object(path.clone())).collect()
        })
    }
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

/// Whether an object opens libraries, and lists folders or holds but a part of a name.
fn opens_unknown_names(elf: &ElfFacts) -> bool {
    let mut imports = elf.symbols.iter().filter(|symbol| symbol.role != SymbolRole::Export);
    let lists = |name: &[u8]| FOLDER_READERS.iter().any(|reader| name.starts_with(reader.as_bytes()));
    let mut parts = held_names(elf).filter(|text| text.starts_with(b".so") || known_part(text).len() < text.len());
    imports_opener(elf) && (imports.any(|symbol| lists(&symbol.name)) || parts.next().is_some())
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

fn without_slash(word: &[u8]) -> &[u8] {
    let slashes = word.iter().rev().take_while(|&&byte| byte == b'/').count();
    word.get(..word.len() - slashes).unwrap_or_default()
}
