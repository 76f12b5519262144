//! Finds the references of an image's objects: `DT_NEEDED` entries, filters, and names in strings.

use std::collections::{BTreeMap, BTreeSet};

use super::name_index::{NameIndex, is_for_processor};
use super::reference::{FileReference, FileReferrer, ObjectInventory, ReferenceCase, ReferenceKind, ReferenceList};
use crate::byte_search::contains_bytes;
use crate::facts::objects::process_context::ProcessContext;
use crate::facts::objects::resolved_objects::{elf_at, opened_object};
use crate::facts::objects::world::ByWorld;
use crate::facts::software::consumers::{self, CuptiConsumer, NeededLookup};
use crate::facts::weight::dead_weight::DeadWeightFile;
use crate::knowledge::{ConsumerProfile, LibraryProfile, opens_library};
use image_linkage::elf::{ByteString, ElfFacts};
use image_linkage::loader::SimulatedProcess;
use image_linkage::path::RootPath;

/// Adds the references through the objects' dependencies, filters and strings.
pub(super) fn add_objects(case: &ReferenceCase<'_>, names: &NameIndex<'_>, references: &mut ReferenceList<'_>) {
    let (contexts, inventory, library) = (case.contexts, case.inventory, case.knowledge.library);
    let mut by_object: BTreeMap<&RootPath, Vec<&CuptiConsumer>> = BTreeMap::new();
    for consumer in case.consumers {
        by_object.entry(&consumer.object).or_default().push(consumer);
    }
    let reached = reached(&contexts.as_is, names, inventory);
    let by_link = reached_by_link(&contexts.as_is, names, inventory);
    let search = ReferenceSearch {
        contexts,
        library,
        names,
        reached: &reached,
        by_link: &by_link,
        has_platform: names_platform(&contexts.as_is, inventory),
        consumers: &by_object,
        profiles: case.profiles,
    };
    let mut plain = BTreeMap::new();
    for (path, facts) in &inventory.objects {
        let Some(elf) = &facts.elf else { continue };
        if references.is_cut() {
            return;
        }
        // The loader loads the target of a filter like a dependency (glibc elf/dl-deps.c).
        let filtered = elf.filters.iter().map(|(name, _)| name);
        for name in elf.needed.iter().chain(filtered) {
            search.add_needed(path, name, &mut plain, references);
        }
        // Many files, including a stub, share a name such as libcuda.so, so it does not identify one.
        let texts = elf.mentions.iter().chain(&elf.fragments);
        let of_family = texts.filter(|text| library.names_family(text));
        for name in of_family.chain(&elf.dlopen_notes).flat_map(|text| names_in(text)) {
            search.add_held(path, name, references);
        }
    }
}

/// The files of dead weight on the search path of an object that is opened through a link. ld.so derives `$ORIGIN` from
/// the opened path, not from the link's target (glibc elf/dl-object.c, `_dl_new_object`).
fn reached_by_link(context: &ProcessContext, names: &NameIndex<'_>, inventory: &ObjectInventory) -> BTreeSet<usize> {
    let reached = context.with_setup(|setup| {
        let (mut known, mut reached) = (BTreeSet::new(), BTreeSet::new());
        for (link, _) in &inventory.links {
            let Ok(found) = context.rootfs.lookup(&link.absolute()) else {
                continue;
            };
            // A link beside its target, like most soname links, has the same directory.
            let is_elsewhere = found.path.parent() != link.parent();
            let elf = elf_at(&context.rootfs, &found.path);
            if !is_elsewhere || !elf.is_some_and(|elf| paths_contain(elf, b"ORIGIN")) {
                continue;
            }
            for (_, folder) in SimulatedProcess::search_path(setup, link) {
                if !context.budget.spend(2) {
                    return reached;
                }
                if known.insert(folder.clone()) {
                    reached.extend(names.numbers_in(&context.rootfs, setup, &folder));
                }
            }
        }
        reached
    });
    reached.unwrap_or_default()
}

fn paths_contain(elf: &ElfFacts, token: &[u8]) -> bool {
    let mut paths = elf.rpath.iter().chain(&elf.runpath);
    paths.any(|path| contains_bytes(path, token))
}

/// Whether a search path contains `$PLATFORM`. It expands to `haswell` on some machines and to `x86_64` on others
/// (glibc sysdeps/x86/dl-platform.c), so the simulation is not valid for all machines.
fn names_platform(context: &ProcessContext, inventory: &ObjectInventory) -> bool {
    let mut objects = inventory.objects.iter().filter_map(|(_, facts)| facts.elf.as_ref());
    let of_environment = context.entry.variables.get("LD_LIBRARY_PATH");
    of_environment.is_some_and(|value| value.contains("PLATFORM")) || objects.any(|elf| paths_contain(elf, b"PLATFORM"))
}

/// The files of dead weight that are on the search path of an object outside of their kind, but not on the default one.
fn reached(context: &ProcessContext, names: &NameIndex<'_>, inventory: &ObjectInventory) -> BTreeSet<usize> {
    let reached = context.with_setup(|setup| {
        let everywhere: BTreeSet<_> = SimulatedProcess::plain_search_path(setup).into_iter().collect();
        // Thousands of objects share a few directories, so search each only once per kind of requester.
        let mut known = BTreeSet::new();
        let mut reached = BTreeSet::new();
        for (path, _) in &inventory.objects {
            let own = names.at(path).map(|own| own.kind);
            for searched in SimulatedProcess::search_path(setup, path) {
                if !context.budget.spend(2) {
                    return reached;
                }
                // `plain` already covers the default directories, in the same order.
                if everywhere.contains(&searched) {
                    continue;
                }
                let (_, folder) = searched;
                if !known.insert((folder.clone(), own)) {
                    continue;
                }
                for number in names.numbers_in(&context.rootfs, setup, &folder) {
                    // A kind is removed or kept as a whole, so only requesters outside of it count.
                    if names.files.get(number).is_some_and(|file| own != Some(file.kind)) {
                        reached.insert(number);
                    }
                }
            }
        }
        reached
    });
    reached.unwrap_or_default()
}

/// The inputs of the search for references.
struct ReferenceSearch<'a> {
    library: &'a LibraryProfile,
    contexts: &'a ByWorld<ProcessContext>,
    names: &'a NameIndex<'a>,
    reached: &'a BTreeSet<usize>,
    by_link: &'a BTreeSet<usize>,
    /// Whether a search path contains the processor, so that it differs between machines.
    has_platform: bool,
    consumers: &'a BTreeMap<&'a RootPath, Vec<&'a CuptiConsumer>>,
    profiles: &'a [ConsumerProfile],
}

impl ReferenceSearch<'_> {
    /// Adds the references of one `DT_NEEDED` entry.
    fn add_needed(
        &self,
        path: &RootPath,
        name: &ByteString,
        plain: &mut BTreeMap<ByteString, Vec<RootPath>>,
        references: &mut ReferenceList<'_>,
    ) {
        let files = self.names.of(name);
        references.look_at(files.clone().count());
        if references.is_cut() || files.clone().next().is_none() {
            return;
        }
        let of_each = files
            .clone()
            .map(|file| by_object(path, &file.path, name, ReferenceKind::MayNeed));
        let own = self.names.at(path).map(|own| own.kind);
        if own.is_some() && files.clone().all(|file| Some(file.kind) == own) {
            // All are of one kind and are kept or removed together, so the exact file does not matter.
            return references.extend(of_each);
        }
        let unforeseen = self.unforeseen(name);
        references.extend(unforeseen.map(|file| by_object(path, &file.path, name, ReferenceKind::MayNeed)));
        // Files on an object's own search path need a simulation per object. For the others, one result per name is
        // enough.
        let by_path = self.names.numbers(name).any(|number| self.reached.contains(&number));
        let found = if self.has_platform
            || self.contexts.as_is.linker.is_none()
            || self.contexts.as_is.budget_end().is_some()
        {
            None
        } else if by_path || name.contains(&b'/') {
            self.followed(path, name)
        } else {
            let found = plain.entry(name.clone());
            Some(found.or_insert_with(|| self.plain(name)).clone())
        };
        match found {
            Some(found) => {
                // If the loader finds another file, this name needs no dead weight.
                let of_dead_weight = found.iter().filter(|found| self.names.at(found).is_some());
                references.extend(of_dead_weight.map(|found| by_object(path, found, name, ReferenceKind::Needs)));
            }
            None => references.extend(of_each),
        }
    }

    /// The files with a name that the simulation does not find but another process may get: those that a link to the
    /// object leads to, and those for a higher processor level.
    fn unforeseen(&self, name: &[u8]) -> impl Iterator<Item = &DeadWeightFile> {
        let numbers = self.names.numbers(name);
        let files = numbers.filter_map(|number| Some((number, self.names.files.get(number)?)));
        let may_be =
            |(number, file): &(usize, &DeadWeightFile)| self.by_link.contains(number) || is_for_processor(&file.path);
        files.filter(may_be).map(|(_, file)| file)
    }

    /// The results in a process without search paths, in each world.
    fn plain(&self, name: &ByteString) -> Vec<RootPath> {
        let opened = self.contexts.map(|context| {
            let resolution = context.open_plain(name);
            opened_object(&resolution).map(|object| object.real_path.clone())
        });
        opened.as_is.into_iter().chain(opened.nvidia).collect()
    }

    /// The results from `path`, in each world; `None` if unknown.
    fn followed(&self, path: &RootPath, name: &ByteString) -> Option<Vec<RootPath>> {
        let mut consumers = self.consumers.get(path).into_iter().flatten();
        let consumer = consumers.find(|consumer| consumer.requested_name == *name);
        if let Some(consumer) = consumer {
            let outcomes = [&consumer.outcome.as_is, &consumer.outcome.nvidia];
            let found: Vec<RootPath> = outcomes
                .into_iter()
                .filter_map(|outcome| outcome.answer.real_path().cloned())
                .collect();
            // A failed request does not show which file was intended, so keep all of them.
            return (!found.is_empty()).then_some(found);
        }
        let followed = ByWorld::map(self.contexts, |context| {
            consumers::follow_needed(context, self.profiles, path, name)
        });
        let mut found = Vec::new();
        for followed in [followed.as_is, followed.nvidia] {
            match followed {
                NeededLookup::To(path) => found.push(path),
                NeededLookup::Driver => {}
                NeededLookup::Unknown => return None,
            }
        }
        Some(found)
    }

    /// Adds the references of a string that may be a name for dlopen. The table of APIs contains what CUPTI opens, and
    /// profiles contain what known programs open.
    fn add_held(&self, path: &RootPath, name: &[u8], references: &mut ReferenceList<'_>) {
        let files = self.names.of(name);
        references.look_at(files.clone().count());
        if references.is_cut() || files.clone().next().is_none() {
            return;
        }
        if self.names.at(path).is_some() {
            return;
        }
        let opens = opens_library(self.profiles, path);
        let consumer = self.consumers.get(path).and_then(|consumers| consumers.first());
        let copy = consumer.and_then(|consumer| consumer.outcome.as_is.answer.real_path());
        let held = files.filter(|file| {
            // A program that gets one copy does not keep another through the same string.
            let is_explained = opens || copy.is_some_and(|copy| *copy != file.path);
            !(is_explained && self.library.is_name(file.path.name()))
        });
        references.extend(held.map(|file| by_object(path, &file.path, name, ReferenceKind::Holds)));
    }
}

fn by_object(object: &RootPath, file: &RootPath, name: &[u8], how: ReferenceKind) -> FileReference {
    FileReference {
        file: file.clone(),
        by: FileReferrer::Object(object.clone()),
        name: name.into(),
        how,
    }
}

/// The names that a text may contain: the text itself, or its JSON strings in a `.note.dlopen` (UAPI group, "ELF dlopen
/// metadata").
fn names_in(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_json = text.starts_with(b"[") || text.starts_with(b"{");
    text.split(move |&byte| is_json && byte == b'"')
}
