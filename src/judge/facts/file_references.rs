//! What in the image needs the files that may be dead weight: by `DT_NEEDED`, by a name that it holds, or by a
//! setting. A plan drops nothing that one of these leads to.
//!
//! A name that is needed is followed by the loader where a file of baggage may answer to it: from the object that
//! needs it, in the process that loads it. Where no search path leads to the folder of such a file, none does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::consumers::{self, CuptiConsumer, NeededLookup};
use super::dead_weight::DeadWeightFile;
use super::file_owner::contains_bytes;
use super::opened_names::UndecidedOpener;
use super::process_context::ProcessContext;
use super::resolved_objects::{elf_at, opened_object};
use super::world::ByWorld;
use crate::knowledge::{ConsumerProfile, FailureImpact, LibraryProfile, RequestKind, opens_library};
use image_linkage::elf::ByteString;
use image_linkage::layer::FileFacts;
use image_linkage::loader::{ProcessSetup, RequestOutcome, SimulatedProcess};
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, Rootfs, RootfsNode};
use image_source::Image;

/// Something that leads to a file that may be dead weight.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileReference {
    /// The file, without links.
    pub file: RootPath,
    /// Who leads to it.
    pub by: FileReferrer,
    /// The name that is asked for.
    pub name: ByteString,
    /// By what means the loader or a program gets to the file.
    pub how: ReferenceKind,
}

/// Who leads to a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileReferrer {
    /// An object of the image.
    Object(RootPath),
    /// A setting of the image, such as a variable of its environment.
    Setting(String),
}

/// How a file is led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReferenceKind {
    /// The loader gets to it from a `DT_NEEDED` entry.
    Needs,
    /// A program opens it before it uses a GPU, and runs on the CPU alone where it is missing.
    Opens,
    /// A `DT_NEEDED` entry has its name, and where the loader gets to is not known.
    MayNeed,
    /// The object holds its name, and no profile says what for.
    Holds,
    /// It is preloaded, or named by path.
    Names,
}

/// The objects and links of an image.
#[derive(Debug, Default)]
pub(super) struct ObjectInventory {
    pub objects: Vec<(RootPath, Arc<FileFacts>)>,
    pub links: Vec<(RootPath, ByteString)>,
}

impl ObjectInventory {
    /// Takes one node of the file system.
    pub fn add_node(&mut self, path: &RootPath, node: &RootfsNode) {
        match &node.kind {
            NodeKind::File(facts) if facts.elf.is_some() => {
                self.objects.push((path.clone(), Arc::clone(facts)));
            }
            NodeKind::Symlink(target) => self.links.push((path.clone(), target.clone())),
            _ => {}
        }
    }
}

/// The files of baggage by the names under which they may be asked for.
struct NameIndex<'f> {
    files: &'f [DeadWeightFile],
    by_name: BTreeMap<ByteString, BTreeSet<usize>>,
    /// The folders in which each of them, or a link to it, lies.
    folders: BTreeMap<RootPath, BTreeSet<usize>>,
}

/// The links that lead to each file of baggage.
fn links_to(
    rootfs: &Rootfs,
    files: &[DeadWeightFile],
    inventory: &ObjectInventory,
) -> BTreeMap<RootPath, Vec<RootPath>> {
    let known: BTreeSet<&RootPath> = files.iter().map(|file| &file.path).collect();
    let mut names: BTreeSet<&[u8]> = files.iter().map(|file| file.path.name()).collect();
    let mut links: BTreeMap<RootPath, Vec<RootPath>> = BTreeMap::new();
    let mut pending: Vec<&(RootPath, ByteString)> = inventory.links.iter().collect();
    // A link may lead to another one: each round goes one link further.
    loop {
        // Walking every link of a large image is dear: a link is followed only where its target ends in a known name.
        let is_near = |target: &[u8]| {
            let mut parts = target.rsplit(|&byte| byte == b'/');
            parts.next().is_some_and(|name| names.contains(name))
        };
        let (near, far): (Vec<_>, Vec<_>) = pending.into_iter().partition(|(_, target)| is_near(target));
        if near.is_empty() {
            return links;
        }
        for (link, _) in near {
            if let Ok(found) = rootfs.lookup(&link.absolute())
                && known.contains(&found.path)
            {
                names.insert(link.name());
                links.entry(found.path).or_default().push(link.clone());
            }
        }
        // Each link is followed once, so that a circle of links ends as well.
        pending = far;
    }
}

/// The links that lead to each file of baggage, and what else leads to it.
pub(super) fn find_references(
    image: &Image,
    contexts: &ByWorld<ProcessContext>,
    library: &LibraryProfile,
    files: &[DeadWeightFile],
    inventory: &ObjectInventory,
    (consumers, undecided): (&[CuptiConsumer], &[UndecidedOpener]),
    profiles: &[ConsumerProfile],
) -> (BTreeMap<RootPath, Vec<RootPath>>, Vec<FileReference>) {
    let links = links_to(&contexts.as_is.rootfs, files, inventory);
    let names = NameIndex::new(&contexts.as_is.rootfs, files, &links);
    let mut ties = of_settings(image, contexts, &names);
    // Where no dead weight is an object, no name leads to it, and no object of the image has to be asked.
    if !names.by_name.is_empty() {
        ties.extend(of_objects(contexts, library, &names, inventory, consumers, profiles));
        ties.extend(consumers.iter().flat_map(|consumer| of_consumer(consumer, &names)));
        ties.extend(
            undecided
                .iter()
                .flat_map(|opener| of_undecided(opener, library, &names)),
        );
    }
    ties.sort();
    ties.dedup();
    (links, ties)
}

/// The files that a program opens in either world and has no GPU without, or of which nobody knows what it does without
/// them: by whatever name, of a link, a pattern or a path, it gets them.
fn of_consumer(consumer: &CuptiConsumer, names: &NameIndex<'_>) -> Vec<FileReference> {
    let is_unknown = consumer.profile.is_none() && names.at(&consumer.object).is_none();
    let how = match consumer.required {
        FailureImpact::Gpu => ReferenceKind::Opens,
        _ if is_unknown && consumer.asks == RequestKind::Dlopen => ReferenceKind::Holds,
        FailureImpact::Import | FailureImpact::Profiling => return Vec::new(),
    };
    let got = [&consumer.outcome.as_is, &consumer.outcome.nvidia].map(|gets| gets.real_path.as_ref());
    let files = got.into_iter().flatten().filter_map(|path| names.at(path));
    files
        .map(|file| FileReference {
            file: file.path.clone(),
            by: FileReferrer::Object(consumer.object.clone()),
            name: consumer.wants.clone(),
            how,
        })
        .collect()
}

/// The files that a pattern such as `libcupti.so.%d` may come to, whatever folder a program puts before it.
fn of_undecided(opener: &UndecidedOpener, library: &LibraryProfile, names: &NameIndex<'_>) -> Vec<FileReference> {
    let mut ties = Vec::new();
    for text in &opener.holds {
        let name = text.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let Some(at) = name.iter().position(|&byte| byte == b'%') else {
            continue;
        };
        let begin = name.get(..at).unwrap_or_default();
        let fits = |known: &&ByteString| library.is_name(known) && known.starts_with(begin);
        for file in names.by_name.keys().filter(fits).flat_map(|known| names.of(known)) {
            ties.push(FileReference {
                file: file.path.clone(),
                by: FileReferrer::Object(opener.object.clone()),
                name: text.clone(),
                how: ReferenceKind::Holds,
            });
        }
    }
    ties
}

/// The ties of what the objects need, are filters for, and hold as strings.
fn of_objects(
    contexts: &ByWorld<ProcessContext>,
    library: &LibraryProfile,
    names: &NameIndex<'_>,
    inventory: &ObjectInventory,
    consumers: &[CuptiConsumer],
    profiles: &[ConsumerProfile],
) -> Vec<FileReference> {
    let reached = reached(&contexts.as_is, names, inventory);
    let by_link = reached_by_link(&contexts.as_is, names, inventory);
    let search = ReferenceSearch {
        contexts,
        library,
        names,
        reached: &reached,
        by_link: &by_link,
        consumers,
        profiles,
    };
    let mut plain = BTreeMap::new();
    let mut ties = Vec::new();
    for (path, facts) in &inventory.objects {
        let Some(elf) = &facts.elf else { continue };
        // What an object is a filter for is loaded with it, as what it needs is (glibc elf/dl-deps.c).
        let filtered = elf.filters.iter().map(|(name, _)| name);
        for name in elf.needed.iter().chain(filtered) {
            ties.extend(search.needed(path, name, &mut plain));
        }
        // A name such as libcuda.so is that of many files, a stub among them: it ties no program to one.
        let mentions = elf.mentions.iter().filter(|text| library.names_family(text));
        for text in mentions.chain(&elf.dlopen_notes) {
            ties.extend(search.string_references(path, text));
        }
    }
    ties
}

impl<'f> NameIndex<'f> {
    fn new(rootfs: &Rootfs, files: &'f [DeadWeightFile], links: &BTreeMap<RootPath, Vec<RootPath>>) -> Self {
        let mut by_name: BTreeMap<ByteString, BTreeSet<usize>> = BTreeMap::new();
        let mut folders: BTreeMap<RootPath, BTreeSet<usize>> = BTreeMap::new();
        for (number, file) in files.iter().enumerate() {
            // Headers and archives are never asked for by name at run time.
            let Some(elf) = elf_at(rootfs, &file.path) else {
                continue;
            };
            let links = links.get(&file.path).map(Vec::as_slice).unwrap_or_default();
            let mut add = |name: &[u8]| {
                by_name.entry(name.into()).or_default().insert(number);
            };
            elf.soname.iter().for_each(|soname| add(soname));
            // What is built with `-lcupti` asks for the soname, a dlopen for any name that leads to the file.
            for path in links.iter().chain([&file.path]) {
                add(path.name());
                folders.entry(path.parent()).or_default().insert(number);
            }
        }
        Self {
            files,
            by_name,
            folders,
        }
    }

    fn numbers(&self, name: &[u8]) -> impl Iterator<Item = usize> {
        // A name with a slash is opened as a path, and what it leads to still has this last part.
        let last = name.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        self.by_name.get(last).into_iter().flatten().copied()
    }

    /// The files that a search in this directory can come to.
    fn numbers_in(&self, rootfs: &Rootfs, setup: &ProcessSetup<'_>, folder: &[u8]) -> Vec<usize> {
        // ld.so looks below each directory for glibc-hwcaps and the older folders of processors too.
        let below = setup.linker.subdirectories.iter().map(|below| [folder, below].concat());
        let folders = below.chain([folder.to_vec()]);
        let found = folders.filter_map(|folder| rootfs.lookup(&folder).ok());
        let numbers = found.filter_map(|found| self.folders.get(&found.path)).flatten();
        numbers.copied().collect()
    }

    fn of(&self, name: &[u8]) -> impl Iterator<Item = &'f DeadWeightFile> {
        self.numbers(name).filter_map(|number| self.files.get(number))
    }

    fn at(&self, path: &RootPath) -> Option<&'f DeadWeightFile> {
        // The files are sorted by path.
        let at = self.files.binary_search_by(|file| file.path.cmp(path)).ok()?;
        self.files.get(at)
    }
}

/// The files of baggage on the search path of an object that is opened by a link to it: ld.so takes `$ORIGIN` from the path
/// by which an object was opened, not from where the link leads (glibc elf/dl-object.c, `_dl_new_object`).
fn reached_by_link(context: &ProcessContext, names: &NameIndex<'_>, inventory: &ObjectInventory) -> BTreeSet<usize> {
    let has_origin = |path: &RootPath| {
        let elf = elf_at(&context.rootfs, path);
        let paths = elf.into_iter().flat_map(|elf| [&elf.rpath, &elf.runpath]).flatten();
        let mut paths = paths.map(|path| contains_bytes(path, b"ORIGIN"));
        paths.any(|has| has)
    };
    let search = |setup: &ProcessSetup<'_>| {
        let mut reached = BTreeSet::new();
        for (link, _) in &inventory.links {
            let found = context.rootfs.lookup(&link.absolute());
            // A link beside its file, as every soname is, gives the same folder.
            let is_elsewhere = |path: &RootPath| path.parent() != link.parent() && has_origin(path);
            if !found.is_ok_and(|found| is_elsewhere(&found.path)) {
                continue;
            }
            for (_, folder) in SimulatedProcess::search_path(setup, link) {
                reached.extend(names.numbers_in(&context.rootfs, setup, &folder));
            }
        }
        reached
    };
    context.with_setup(search).unwrap_or_default()
}

/// The files of baggage that an object outside of their kind has on its search path, and that not every process has.
fn reached(context: &ProcessContext, names: &NameIndex<'_>, inventory: &ObjectInventory) -> BTreeSet<usize> {
    let everywhere = context.environment.library_directories();
    let search = |setup: &ProcessSetup<'_>| {
        let mut known: BTreeMap<ByteString, Vec<usize>> = BTreeMap::new();
        let mut reached = BTreeSet::new();
        for (path, _) in &inventory.objects {
            let own = names.at(path).map(|own| own.kind);
            for (_, folder) in SimulatedProcess::search_path(setup, path) {
                // Where a process without search paths looks, `plain` looks too. A token in LD_LIBRARY_PATH means
                // nothing to it, so that a folder that such an element names is not among these.
                if everywhere.contains(&folder) {
                    continue;
                }
                // Thousands of objects share a few directories: each is looked up once.
                let numbers = known
                    .entry(folder)
                    .or_insert_with_key(|folder| names.numbers_in(&context.rootfs, setup, folder));
                // A kind stays or goes as a whole, so that only who is outside of it counts.
                let others = numbers.iter().filter(|&&number| {
                    let file = names.files.get(number);
                    file.is_some_and(|file| own != Some(file.kind))
                });
                reached.extend(others);
            }
        }
        reached
    };
    context.with_setup(search).unwrap_or_default()
}

/// What the search for a name has to work with.
struct ReferenceSearch<'a> {
    library: &'a LibraryProfile,
    contexts: &'a ByWorld<ProcessContext>,
    names: &'a NameIndex<'a>,
    reached: &'a BTreeSet<usize>,
    by_link: &'a BTreeSet<usize>,
    consumers: &'a [CuptiConsumer],
    profiles: &'a [ConsumerProfile],
}

impl ReferenceSearch<'_> {
    /// The ties of one `DT_NEEDED` entry.
    fn needed(
        &self,
        path: &RootPath,
        name: &ByteString,
        plain: &mut BTreeMap<ByteString, Vec<RootPath>>,
    ) -> Vec<FileReference> {
        let files: Vec<&DeadWeightFile> = self.names.of(name).collect();
        if files.is_empty() {
            return Vec::new();
        }
        let tie = |file: &RootPath, how| FileReference {
            file: file.clone(),
            by: FileReferrer::Object(path.clone()),
            name: name.clone(),
            how,
        };
        let own = self.names.at(path).map(|own| own.kind);
        if own.is_some() && files.iter().all(|file| Some(file.kind) == own) {
            // They stay or go together, so that it need not be known which is meant.
            return files
                .iter()
                .map(|file| tie(&file.path, ReferenceKind::MayNeed))
                .collect();
        }
        let mut ties = self.unforeseen(name, tie);
        // Only what lies on somebody's own search path needs the asker's process; else one answer serves each name.
        let by_path = self.names.numbers(name).any(|number| self.reached.contains(&number));
        let found = if self.contexts.as_is.linker.is_none() {
            None
        } else if by_path || name.contains(&b'/') {
            self.followed(path, name)
        } else {
            let open = || self.plain(name);
            Some(plain.entry(name.clone()).or_insert_with(open).clone())
        };
        match found {
            Some(found) => {
                // Where the loader gets elsewhere, nothing of the baggage is needed for this name.
                let of_baggage = found.iter().filter(|found| self.names.at(found).is_some());
                ties.extend(of_baggage.map(|found| tie(found, ReferenceKind::Needs)));
            }
            None => ties.extend(files.iter().map(|file| tie(&file.path, ReferenceKind::MayNeed))),
        }
        ties
    }

    /// The ties to the files of a name that a process may get, and the one that is followed here does not: those that are
    /// led to from a link to the asker, and those for a better processor than the one that is asked about.
    fn unforeseen(&self, name: &[u8], tie: impl Fn(&RootPath, ReferenceKind) -> FileReference) -> Vec<FileReference> {
        let numbers = self.names.numbers(name);
        let files = numbers.filter_map(|number| Some((number, self.names.files.get(number)?)));
        let may_be = |(number, file): &(usize, &DeadWeightFile)| {
            self.by_link.contains(number) || contains_bytes(file.path.as_bytes(), b"/glibc-hwcaps/")
        };
        let files = files.filter(may_be);
        files.map(|(_, file)| tie(&file.path, ReferenceKind::MayNeed)).collect()
    }

    /// Where a process without search paths gets to, in each world.
    fn plain(&self, name: &ByteString) -> Vec<RootPath> {
        let open = |context: &ProcessContext| {
            let resolution = context.open_plain(name);
            opened_object(&resolution).map(|object| object.real_path.clone())
        };
        let opened = ByWorld::map(self.contexts, open);
        opened.as_is.into_iter().chain(opened.nvidia).collect()
    }

    /// Where the loader gets to from `path`, in each world; `None` where that is not known.
    fn followed(&self, path: &RootPath, name: &ByteString) -> Option<Vec<RootPath>> {
        let consumer = self
            .consumers
            .iter()
            .find(|consumer| consumer.object == *path && consumer.wants == *name);
        if let Some(consumer) = consumer {
            let gets = [&consumer.outcome.as_is, &consumer.outcome.nvidia];
            let found: Vec<RootPath> = gets
                .iter()
                .filter(|gets| gets.outcome == RequestOutcome::Loaded)
                .filter_map(|gets| gets.real_path.clone())
                .collect();
            // A request that fails does not tell which of the files was meant, so that all of them are kept.
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

    /// The ties of a string that may be the name of something opened at run time. What CUPTI opens itself is in
    /// the table of its APIs, and what known programs open is in their profiles.
    fn string_references(&self, path: &RootPath, text: &ByteString) -> Vec<FileReference> {
        // The text of a `.note.dlopen` is JSON with several names in it (ELF dlopen metadata, UAPI group).
        let is_note = text.starts_with(b"[") || text.starts_with(b"{");
        let files: Vec<&DeadWeightFile> = if is_note {
            let noted = self.names.by_name.keys().filter(|name| contains_bytes(text, name));
            noted.flat_map(|name| self.names.of(name)).collect()
        } else {
            self.names.of(text).collect()
        };
        let own = self.names.at(path).map(|own| own.kind);
        let is_cupti = |file: &DeadWeightFile| self.library.is_name(file.path.name());
        let opens = opens_library(self.profiles, path);
        let explained = |file: &DeadWeightFile| own.is_some() || is_cupti(file) && opens;
        let consumer = self.consumers.iter().find(|consumer| consumer.object == *path);
        // A program that gets one copy does not keep another by the same string.
        let gets = consumer.and_then(|consumer| consumer.outcome.as_is.real_path.as_ref());
        let is_other = |file: &DeadWeightFile| is_cupti(file) && gets.is_some_and(|gets| *gets != file.path);
        files
            .iter()
            .filter(|file| !explained(file) && !is_other(file))
            .map(|file| FileReference {
                file: file.path.clone(),
                by: FileReferrer::Object(path.clone()),
                name: text.clone(),
                how: ReferenceKind::Holds,
            })
            .collect()
    }
}

/// The files of baggage that something outside of it leads to, by itself or through others.
pub fn retained_files(files: &[DeadWeightFile], ties: &[FileReference]) -> BTreeSet<RootPath> {
    let is_baggage = |path: &RootPath| files.binary_search_by(|file| file.path.cmp(path)).is_ok();
    let mut kept = BTreeSet::new();
    loop {
        let before = kept.len();
        // A file that is kept keeps what it leads to itself, which takes another round.
        let stays = |by: &FileReferrer| match by {
            FileReferrer::Object(path) => !is_baggage(path) || kept.contains(path),
            FileReferrer::Setting(_) => true,
        };
        let more: Vec<RootPath> = ties
            .iter()
            .filter(|tie| stays(&tie.by))
            .map(|tie| tie.file.clone())
            .collect();
        kept.extend(more);
        if kept.len() == before {
            return kept;
        }
    }
}

/// The ties of what is preloaded, of the variables of the environment, and of the command.
fn of_settings(image: &Image, contexts: &ByWorld<ProcessContext>, names: &NameIndex<'_>) -> Vec<FileReference> {
    let rootfs = &contexts.as_is.rootfs;
    let tie = |file: &RootPath, by: &str, name: &[u8]| FileReference {
        file: file.clone(),
        by: FileReferrer::Setting(by.to_owned()),
        name: name.into(),
        how: ReferenceKind::Names,
    };
    let mut ties = Vec::new();
    let variables = image.config.env.iter();
    for (key, value) in variables {
        for word in value
            // ld.so splits LD_PRELOAD at spaces and colons, and other variables hold lists with commas.
            .split([':', ' ', ','])
            .filter(|word| word.starts_with('/'))
        {
            if let Some(file) = rootfs
                .lookup(word.as_bytes())
                .ok()
                .and_then(|found| names.at(&found.path))
            {
                ties.push(tie(&file.path, key, word.as_bytes()));
            }
        }
    }
    for word in &image.config.command {
        let path = word
            .starts_with('/')
            .then(|| rootfs.lookup(word.as_bytes()).ok())
            .flatten();
        let by_path = path.and_then(|found| names.at(&found.path));
        // A bare word is looked for on PATH when the container starts: the name alone is enough to keep a file.
        let called = || names.files.iter().find(|file| file.path.name() == word.as_bytes());
        if let Some(file) = by_path.or_else(called) {
            ties.push(tie(&file.path, "the command of the image", word.as_bytes()));
        }
    }
    // By name alone: `$LIB`, `$ORIGIN` and a DT_RPATH in a preload's search mean what they mean to each program.
    let listed = rootfs.content(b"/etc/ld.so.preload").unwrap_or_default();
    let preload = contexts.as_is.environment.preload.as_deref().unwrap_or_default();
    let is_separator = |byte: &u8| byte.is_ascii_whitespace() || *byte == b':';
    let words = [preload, listed].into_iter().flat_map(|text| text.split(is_separator));
    for word in words.filter(|word| !word.is_empty()) {
        ties.extend(names.of(word).map(|file| tie(&file.path, "what is preloaded", word)));
    }
    // What is preloaded brings what it needs.
    let started = ByWorld::map(contexts, |context| {
        let start = |setup: &ProcessSetup<'_>| SimulatedProcess::new(setup).start_unknown();
        context.with_setup(start).unwrap_or_default()
    });
    for object in [started.as_is, started.nvidia]
        .iter()
        .flat_map(|started| &started.objects)
    {
        if names.at(&object.real_path).is_some() {
            ties.push(tie(&object.real_path, "what is preloaded", &object.name));
        }
    }
    ties
}
