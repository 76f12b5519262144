//! Files of another image, a wheel or a folder: the real files, the links by soname, their dependencies, and the search
//! path.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::links::bare_link;
use crate::facts::{CuptiCopy, ImageFacts, opened_object};
use crate::knowledge::api::CuptiApi;
use crate::make::choose::complete::has_library;
use crate::make::choose::copy_source::{CopySource, choose_source_copy};
use crate::make::choose::request::{PatchContext, PatchForm};
use crate::make::choose::required_libraries::{self, RequiredLibrary};
use crate::make::choose::target::{elf_at, file_facts_at, require_glibc_linker};
use crate::make::choose::{Obstacle, PatchError};
use crate::make::patch::reason::{LibraryReason, LibraryReasons};
use crate::make::patch::{BroughtRelease, FileOrigin, ImagePatch, PatchedFile, PatchedLink};
use image_linkage::elf::{ByteString, ElfFacts, SymbolRole};
use image_linkage::escape;
use image_linkage::layer::FileFacts;
use image_linkage::loader::{Libc, glibc_version};
use image_linkage::path::RootPath;
use image_linkage::rootfs::NodeKind;

/// Copies the files of the requested source.
///
/// Errors: Why none of them helps.
pub(in crate::make::choose) fn propose(context: &PatchContext<'_>) -> Result<Vec<ImagePatch>, Obstacle> {
    let source = context.request.source;
    let CopySource { name: from, facts } = source.ok_or("no image to copy from (--from)")?;
    let mut patch = plan_copy(context, facts)?;
    if !context.can_link() {
        // Nothing creates links here, and the files have their requested names.
        patch.links.clear();
        require_no_links(context, &patch)?;
    }
    let has = patch.release.as_ref().and_then(BroughtRelease::cuda);
    if let (Some(has), Some(asked)) = (has, context.request.cuda)
        && has != asked
    {
        let (has, asked) = (format!("{}.{}", has.0, has.1), format!("{}.{}", asked.0, asked.1));
        return Err(format!("{from} has CUPTI of CUDA {has}, but you asked for {asked}").into());
    }
    patch.title = format!("copy {} from {from}", escape::escape_bytes(&patch.soname));
    patch.source = Some(from.to_owned());
    Ok(vec![patch])
}

/// Whether the image already has each file that the requested source would supply, compared by hash.
pub(in crate::make::choose) fn has_files_of_source(context: &PatchContext<'_>) -> bool {
    let hashes = |source| -> Option<Vec<_>> {
        let files = plan_copy(context, source).ok()?.files.into_iter();
        files
            .map(|file| Some((file.name, file.facts.sha256.clone()?)))
            .collect()
    };
    let theirs = context.request.source.and_then(|source| hashes(source.facts));
    theirs.is_some() && theirs == hashes(context.request.target)
}

/// The CUPTI files of `source` that the image needs for the phase.
///
/// Errors: A [`PatchError`] if the image cannot load CUPTI at all, or the source lacks a needed file.
pub(in crate::make::choose) fn plan_copy(
    context: &PatchContext<'_>,
    source: &ImageFacts,
) -> Result<ImagePatch, PatchError> {
    let (target, phase) = (context.request.target, context.request.phase);
    let linker = require_glibc_linker(target)?;
    let copy = choose_source_copy(source, target, linker)?;
    let elf = elf_at(source, &copy.real_path);
    let ImageFacts {
        tables,
        library,
        answers,
        ..
    } = target;
    let consumers = &answers.consumers;
    let needs = required_libraries::list_required_libraries(tables, library, phase, consumers, |api| shows(elf, api));
    if needs.is_empty() {
        return Err(PatchError::NothingNeeded {
            image: target.image.reference.clone(),
            phase: phase.name.clone(),
        });
    }
    let mut files = Vec::new();
    for need in &needs {
        let from = place(source, copy, need)?;
        files.push(copied_file(context, source, from, need.because.clone()));
    }
    // Appended, because libcupti must stay the first.
    files.extend(dependencies(context, source, &files));
    for file in &files {
        fits_glibc(context, file)?;
    }
    let soname = copy.soname.clone().unwrap_or_default();
    let version = copy.version.as_ref().map(|(version, _)| version.clone());
    // The files show their release; a guess from the soname does not apply to them.
    let certain = context.release.as_ref().filter(|release| !release.is_guess);
    Ok(ImagePatch {
        links: links(context, &files, &soname),
        library: files.first().map(|file| file.at.clone()).unwrap_or_default(),
        release: version.map(|version| BroughtRelease::new(version, certain.map(|release| &*release.because))),
        soname,
        search: context.install.search_path(),
        files,
        ..ImagePatch::default()
    })
}

/// Rejects a copy over a link: COPY writes through the link (observed with both builders), and without a shell nothing
/// can remove it first.
fn require_no_links(context: &PatchContext<'_>, patch: &ImagePatch) -> Result<(), Obstacle> {
    let rootfs = &context.request.target.contexts.as_is.rootfs;
    for path in patch.files.iter().map(|file| &file.at) {
        if let Ok(found) = rootfs.lookup_link(&path.absolute())
            && matches!(rootfs.node(found.node).kind, NodeKind::Symlink(_))
        {
            let lacks = &context.system.lacks;
            let why = "to remove it; cupti-audit slim can replace it";
            return Err(format!("{path} is a link, and the image has {lacks} {why}").into());
        }
    }
    Ok(())
}

/// Whether a libcupti has an API. Assumed if its symbols could not be read.
fn shows(elf: Option<&ElfFacts>, api: &CuptiApi) -> bool {
    let symbols = elf.map(|elf| elf.symbols.as_slice()).unwrap_or_default();
    let mut exports = symbols
        .iter()
        .filter(|symbol| symbol.role == SymbolRole::Export)
        .peekable();
    api.exports.is_none() || exports.peek().is_none() || exports.any(|symbol| api.is_shown_by(&symbol.name))
}

/// The path of a library in the source: beside the chosen libcupti, with links resolved.
fn place(source: &ImageFacts, copy: &CuptiCopy, need: &RequiredLibrary) -> Result<RootPath, PatchError> {
    if need.stem == source.library.stem {
        return Ok(copy.real_path.clone());
    }
    let rootfs = &source.contexts.as_is.rootfs;
    // Libraries of one release belong together; another folder may contain another release.
    let folder = copy.real_path.parent();
    let found = rootfs.lookup(&folder.absolute()).ok();
    let names = (found.iter()).flat_map(|found| rootfs.children_with(found.node, need.stem.as_bytes()));
    let mut places = names
        .filter_map(|(name, _)| Some(rootfs.lookup(&folder.join(name).absolute()).ok()?.path))
        // A matching name may be a static archive or a dangling link.
        .filter(|path| elf_at(source, path).is_some());
    places.next().ok_or_else(|| PatchError::NoCompanion {
        from: source.image.reference.clone(),
        library: need.stem.to_owned(),
        because: format!("needed for {}", need.because),
    })
}

/// A file of the source, in the folder for new files.
fn copied_file(
    context: &PatchContext<'_>,
    source: &ImageFacts,
    from: RootPath,
    because: LibraryReasons,
) -> PatchedFile {
    let facts = file_facts_at(source, &from).cloned().unwrap_or_default();
    let soname = facts.elf.as_ref().and_then(|elf| elf.soname.clone());
    let name = soname.unwrap_or_else(|| from.name().into());
    let library = context.request.target.library;
    let mut stems = library.companions().chain([&*library.stem]);
    // A build of an image without programs for links gives each file its requested name.
    let is_alone = context.request.form == PatchForm::Build && context.install.conf.is_none();
    PatchedFile {
        at: context.install.folder.join(if is_alone { &name } else { from.name() }),
        stem: stems.find(|stem| name.starts_with(stem.as_bytes())),
        name,
        facts: Arc::new(FileFacts {
            // Readable by all and writable by the owner, whatever the source has. This drops set-user-ID.
            mode: facts.mode & 0o755 | 0o444,
            uid: 0,
            gid: 0,
            capabilities: None,
            access_list: None,
            ..facts
        }),
        origin: FileOrigin::Source(from),
        because,
    }
}

/// Dependencies that the image lacks and the source has. Small images lack `libgcc_s`.
fn dependencies(context: &PatchContext<'_>, source: &ImageFacts, files: &[PatchedFile]) -> Vec<PatchedFile> {
    let mut found: BTreeMap<ByteString, PatchedFile> = BTreeMap::new();
    let mut pending: Vec<PatchedFile> = files.to_vec();
    while let Some(file) = pending.pop() {
        let needed = file.facts.elf.as_ref().map(|elf| elf.needed.as_slice());
        for name in needed.unwrap_or_default() {
            // A second library of the same soname could shadow the image's own for programs that do not use CUPTI.
            if found.contains_key(name) || has_library(context.request.target, name) {
                continue;
            }
            let there = source.contexts.as_is.open_plain(name);
            // The check at the end of the build reports a dependency that the source lacks too.
            let Some(object) = opened_object(&there).filter(|_| there.loads()) else {
                continue;
            };
            let because = LibraryReason::NeededBy(file.name.clone()).into();
            let file = copied_file(context, source, object.real_path.clone(), because);
            found.insert(name.clone(), file.clone());
            pending.push(file);
        }
    }
    found.into_values().collect()
}

/// Checks that the image's C library has the versions that a file needs.
fn fits_glibc(context: &PatchContext<'_>, file: &PatchedFile) -> Result<(), PatchError> {
    // An unknown version is accepted.
    let Libc::Glibc(Some(has)) = context.linker.libc else {
        return Ok(());
    };
    let needs = file.facts.elf.as_ref().map(|elf| elf.verneed.as_slice());
    let versions = needs.unwrap_or_default().iter().flat_map(|need| &need.versions);
    // Versions of other libraries, such as GLIBCXX_3.4.21, do not start with GLIBC_ and are ignored.
    let highest = versions
        .filter_map(|version| Some((glibc_version(&version.name)?, version)))
        .max_by_key(|(version, _)| *version);
    match highest {
        Some((needs, version)) if needs > has => Err(PatchError::OldGlibc {
            image: context.request.target.image.reference.clone(),
            file: escape::escape_bytes(file.copied_from().unwrap_or(&file.at).name()),
            needs: escape::escape_bytes(&version.name),
            has: format!("{}.{}", has.0, has.1),
        }),
        _ => Ok(()),
    }
}

/// The links by soname, and one by the bare name if a program needs it.
fn links(context: &PatchContext<'_>, files: &[PatchedFile], soname: &ByteString) -> Vec<PatchedLink> {
    let folder = &context.install.folder;
    // ldconfig creates such links too, but only if it is run, and some images lack it.
    let named = files.iter().filter(|file| *file.name != *file.at.name());
    let links = named.map(|file| PatchedLink {
        at: folder.join(&file.name),
        to: file.at.name().into(),
        because: "the soname, which programs ask for".to_owned(),
    });
    links.chain(bare_link(context, folder, soname)).collect()
}
