//! Finds references to files that may be dead weight: a `DT_NEEDED` entry, a name in a string, or a setting. A plan
//! keeps every referenced file.
//!
//! If such a file may satisfy a needed name, the loader simulation resolves the name, from the object that needs it and
//! in the process that loads it. If no search path contains the directory of such a file, no object can need it.

mod name_index;
mod named_files;
mod object_references;
mod reference;
mod settings;
mod stray_files;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub use self::name_index::is_for_processor;
use self::name_index::{NameIndex, is_below, links_to};
use self::named_files::NamedFiles;
use self::object_references::add_objects;
use self::reference::ReferenceList;
pub use self::reference::{FileReference, FileReferrer, ReferenceKind};
pub(crate) use self::reference::{ObjectInventory, ReferenceCase};
pub use self::settings::{PROVENANCE_PLACE, SLIM_GPU_LABEL};
use self::settings::{add_settings, add_texts, find_word_uses};
use self::stray_files::of_strays;
use crate::byte_search::{contains_bytes, last_part};
use crate::facts::objects::process_context::ProcessContext;
use crate::facts::software::consumers::CuptiConsumer;
use crate::facts::software::cuda_runtime::site_packages_of;
use crate::facts::software::opened_names::UndecidedOpener;
use crate::facts::weight::dead_weight::{DeadWeightFile, DeadWeightScan, DeadWeightUse};
use crate::knowledge::file_interest::LIBRARY_PATH;
use crate::knowledge::shared_folders::SharedFolders;
use crate::knowledge::{FailureImpact, LibraryProfile, RequestKind};
use image_linkage::elf::ByteString;
use image_linkage::path::RootPath;
use python_path::is_source;

/// The files that may be dead weight, and what keeps them.
pub struct WeightFacts {
    /// The files, by path.
    pub files: Vec<DeadWeightFile>,
    /// The uses of such files that are not visible in an object's ELF data.
    pub uses: Vec<DeadWeightUse>,
    /// The links to such files, by file.
    pub links: BTreeMap<RootPath, Vec<RootPath>>,
    /// The references that keep such files.
    pub references: Vec<FileReference>,
}

impl WeightFacts {
    pub(crate) fn find(case: &ReferenceCase<'_>, found: DeadWeightScan) -> Self {
        let DeadWeightScan { files, mut uses, .. } = found;
        let links = links_to(&case.contexts.as_is.rootfs, &files, case.inventory);
        uses.extend(find_word_uses(case, &files));
        uses.sort();
        Self {
            references: find_references(case, &files, &links),
            files,
            uses,
            links,
        }
    }
}

fn find_references(
    case: &ReferenceCase<'_>,
    files: &[DeadWeightFile],
    links: &BTreeMap<RootPath, Vec<RootPath>>,
) -> Vec<FileReference> {
    let (context, library) = (&case.contexts.as_is, case.knowledge.library);
    let names = NameIndex::new(&context.rootfs, files, links);
    let mentioned = NamedFiles::new(&context.rootfs, &names, case.knowledge);
    let mut references = ReferenceList::new(files);
    add_settings(case, &names, &mentioned, &mut references);
    add_texts(&mentioned, case.inventory, &mut references);
    references.extend(of_unknown_environment(context, library, files));
    // If no dead weight is an ELF object, no name can lead to it, so skip all objects.
    if !names.by_name.is_empty() {
        add_objects(case, &names, &mut references);
        for consumer in case.consumers {
            references.extend(of_consumer(consumer, &names));
        }
        for opener in case.undecided {
            add_undecided(opener, library, &names, &mut references);
        }
        references.extend(of_strays(case, &names));
        let shared = &case.knowledge.tables.shared_folders;
        references.extend(of_command(context, shared, &names));
        add_other_processors(&mut references, &names);
    }
    references.finish()
}

/// The copies that an unknown search path may lead to.
fn of_unknown_environment<'f>(
    context: &ProcessContext,
    library: &'f LibraryProfile,
    files: &'f [DeadWeightFile],
) -> impl Iterator<Item = FileReference> + 'f {
    let is_unknown = context.entry.unknown.contains_key(LIBRARY_PATH);
    let copies = files
        .iter()
        .filter(move |file| is_unknown && library.is_name(file.path.name()));
    copies.map(|file| FileReference {
        file: file.path.clone(),
        by: FileReferrer::Setting(format!("{LIBRARY_PATH}, whose value is known only when the image runs")),
        name: file.path.name().into(),
        how: ReferenceKind::Names,
    })
}

/// The files that a consumer opens in either world under any name, if it has no GPU without them or if their purpose is
/// unknown.
fn of_consumer(consumer: &CuptiConsumer, names: &NameIndex<'_>) -> Vec<FileReference> {
    let is_unknown = consumer.profile.is_none() && names.at(&consumer.object).is_none();
    let how = match consumer.required {
        FailureImpact::Gpu => ReferenceKind::Opens,
        _ if is_unknown && consumer.request_kind == RequestKind::Dlopen => ReferenceKind::Holds,
        FailureImpact::Import | FailureImpact::Profiling => return Vec::new(),
    };
    let copies = [&consumer.outcome.as_is, &consumer.outcome.nvidia].map(|outcome| outcome.answer.real_path());
    let files = copies.into_iter().flatten().filter_map(|path| names.at(path));
    files
        .map(|file| FileReference {
            file: file.path.clone(),
            by: FileReferrer::Object(consumer.object.clone()),
            name: consumer.requested_name.clone(),
            how,
        })
        .collect()
}

/// Adds the other files that share a referenced name, if one is for a higher processor level. The machine that runs the
/// image then selects the file.
fn add_other_processors(references: &mut ReferenceList<'_>, names: &NameIndex<'_>) {
    let mut led_to: BTreeMap<(ByteString, FileReferrer), BTreeSet<RootPath>> = BTreeMap::new();
    for reference in references.as_slice() {
        let FileReference { file, by, name, .. } = reference;
        if names.has_levels(name) {
            led_to
                .entry((name.clone(), by.clone()))
                .or_default()
                .insert(file.clone());
        }
    }
    for ((name, by), led_to) in &led_to {
        let others = names.of(name).filter(|file| !led_to.contains(&file.path));
        references.extend(others.map(|file| FileReference {
            file: file.path.clone(),
            by: by.clone(),
            name: name.clone(),
            how: ReferenceKind::OtherProcessor,
        }));
    }
}

/// Adds the files that may match a pattern such as `libcupti.so.%d`, in any directory that a program may prepend.
fn add_undecided(
    opener: &UndecidedOpener,
    library: &LibraryProfile,
    names: &NameIndex<'_>,
    references: &mut ReferenceList<'_>,
) {
    // A module computes the directory, usually its own or one beside its package.
    let packages = is_source(opener.object.name()).then(|| packages_around(&opener.object));
    for text in &opener.holds {
        if references.is_cut() {
            return;
        }
        let name = last_part(text);
        let begin = match name
            .iter()
            .position(|byte| *byte == b'%' || packages.is_some() && b"*?[{".contains(byte))
        {
            None if packages.is_none() => continue,
            at => name.get(..at.unwrap_or(name.len())).unwrap_or_default(),
        };
        let known = names.names_beginning_with(begin);
        references.look_at(known.clone().count());
        let files = known
            .filter(|(known, _)| library.is_name(known))
            .flat_map(|(known, _)| names.of(known));
        let near = files.filter(|file| {
            let folder = packages.as_ref();
            folder.is_none_or(|folder| is_below(&file.path, folder))
        });
        references.extend(near.map(|file| FileReference {
            file: file.path.clone(),
            by: FileReferrer::Object(opener.object.clone()),
            name: text.clone(),
            how: ReferenceKind::Holds,
        }));
    }
}

/// The files that the container's program may open under a computed name.
fn of_command(context: &ProcessContext, shared: &SharedFolders, names: &NameIndex<'_>) -> Vec<FileReference> {
    let by = match &context.entry.executable {
        Some(program) => FileReferrer::Object(program.clone()),
        None => FileReferrer::Setting("the command of the image".to_owned()),
    };
    let mut begins = stray_files::computed_names(context, shared);
    if begins.len() > NAMES {
        begins = vec![Vec::new()];
    }
    let mut references = Vec::new();
    for file in begins.into_iter().flat_map(|begin| names.beginning_with(begin)) {
        if contains_bytes(file.path.name(), b".so") {
            references.push(FileReference {
                file: file.path.clone(),
                by: by.clone(),
                name: file.path.name().into(),
                how: ReferenceKind::Holds,
            });
        }
    }
    references
}

/// The maximum number of computed names of the container's program to follow individually.
const NAMES: usize = 16;

/// The package directory that contains a module, else the parent of the module's package.
fn packages_around(module: &RootPath) -> RootPath {
    site_packages_of(module).unwrap_or_else(|| module.parent().parent())
}

/// The files of dead weight with a reference from outside, direct or through other files.
pub fn retained_files<'f>(files: &[DeadWeightFile], references: &'f [FileReference]) -> BTreeSet<&'f RootPath> {
    let mut kept = BTreeMap::new();
    keep_referenced(
        references,
        &mut kept,
        |path| files.binary_search_by(|file| file.path.cmp(path)).is_ok(),
        |reference| reference,
    );
    kept.into_keys().collect()
}

/// Adds the referenced files to `kept`, each with `why`. A reference counts if it comes from a setting, from an object
/// that `may_go` rejects, or from a kept file.
pub fn keep_referenced<'f, W>(
    references: &'f [FileReference],
    kept: &mut BTreeMap<&'f RootPath, W>,
    may_go: impl Fn(&RootPath) -> bool,
    why: impl Fn(&'f FileReference) -> W,
) {
    let mut by_file: BTreeMap<&RootPath, Vec<&FileReference>> = BTreeMap::new();
    let mut pending: VecDeque<&FileReference> = VecDeque::new();
    for reference in references {
        match &reference.by {
            FileReferrer::Object(path) if may_go(path) && !kept.contains_key(path) => {
                by_file.entry(path).or_default().push(reference);
            }
            _ => pending.push_back(reference),
        }
    }
    while let Some(reference) = pending.pop_front() {
        // A kept file keeps the files that it references, once.
        kept.entry(&reference.file).or_insert_with(|| why(reference));
        pending.extend(by_file.remove(&reference.file).unwrap_or_default());
    }
}
