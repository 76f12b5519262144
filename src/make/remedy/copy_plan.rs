//! The CUPTI files that a source supplies: the real files, the links by soname, their dependencies, and the search
//! path.
//!
//! This module only plans; a Dockerfile and a layer are both made from the same list.

use std::collections::BTreeMap;

use serde::Serialize;

use super::RemedyError;
use super::copy_source::choose_source_copy;
use super::install_folder::{CacheUpdate, FolderDiscovery, InstallFolder, choose_install_folder};
use super::library_reason::{LibraryReason, LibraryReasons};
use super::opened_paths::plain_link;
use super::required_libraries::{self, RequiredLibrary};
use super::target::{elf_at, file_facts_at, require_glibc_linker};
use crate::facts::{CuptiCopy, ImageFacts, opened_object, unresolved_objects};
use crate::knowledge::Phase;
use crate::knowledge::api::CuptiApi;
use crate::make::quote;
use image_linkage::elf::{ByteString, ElfFacts, SymbolRole};
use image_linkage::escape;
use image_linkage::loader::{DynamicLoader, Libc, RequestOutcome, glibc_version};
use image_linkage::path::RootPath;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct CopyPlan {
    #[serde(skip)]
    pub soname: ByteString,
    /// The release of libcupti, if known.
    pub release: Option<String>,
    /// The files; libcupti is the first.
    pub files: Vec<CopiedFile>,
    /// The links, all in the folder on the search path.
    pub links: Vec<CreatedLink>,
    /// The search path that leads to the files.
    pub search: InstallFolder,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct CopiedFile {
    /// The file in the source, with links resolved.
    #[serde(serialize_with = "quote::serialize_path")]
    pub from: RootPath,
    /// Its path in the image.
    #[serde(serialize_with = "quote::serialize_path")]
    pub to: RootPath,
    /// The name that programs request from the loader.
    #[serde(serialize_with = "quote::serialize_escaped")]
    pub name: ByteString,
    pub mode: u16,
    pub bytes: u64,
    /// The hexadecimal SHA-256 of a file of a CUPTI release.
    pub sha256: Option<String>,
    pub because: LibraryReasons,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct CreatedLink {
    #[serde(serialize_with = "quote::serialize_path")]
    pub at: RootPath,
    /// The target: a name in the same folder, or a path.
    #[serde(serialize_with = "quote::serialize_link_target")]
    pub to: ByteString,
    pub because: String,
}

/// The CUPTI files of `source` that the image needs for `phase`.
///
/// Errors: A [`RemedyError`] if the image cannot load CUPTI at all, or the source lacks a needed file.
pub(crate) fn plan_copy(
    source: &ImageFacts,
    phase: &Phase,
    target: &ImageFacts,
    means: CacheUpdate,
) -> Result<CopyPlan, RemedyError> {
    let linker = require_glibc_linker(target)?;
    let copy = choose_source_copy(source, target, linker)?;
    let elf = elf_at(source, &copy.real_path);
    let ImageFacts {
        tables,
        library,
        consumers,
        ..
    } = target;
    let needs = required_libraries::list_required_libraries(tables, library, phase, consumers, |api| shows(elf, api));
    if needs.is_empty() {
        return Err(RemedyError::NothingNeeded {
            image: target.image.reference.clone(),
            phase: phase.name.clone(),
        });
    }
    let search = choose_install_folder(target, linker, means);
    let mut files = Vec::new();
    for need in &needs {
        let from = place(source, copy, need)?;
        files.push(file(source, from, &search.folder, need.because.clone()));
    }
    // Appended, because libcupti must stay the first.
    files.extend(dependencies(source, target, &files, &search.folder));
    for file in &mut files {
        fits_glibc(source, target, linker, file)?;
        if means == CacheUpdate::Build && search.by == FolderDiscovery::Default {
            // The image has no program that creates links, so each file gets its requested name.
            file.to = search.folder.join(&file.name);
        }
    }
    let soname = copy.soname.clone().unwrap_or_default();
    Ok(CopyPlan {
        links: links(&files, &soname, target, phase, &search),
        release: copy.version.as_ref().map(|(version, _)| version.clone()),
        soname,
        files,
        search,
    })
}

/// Whether a libcupti has an API. Assumed if its symbols could not be read.
fn shows(elf: Option<&ElfFacts>, api: &CuptiApi) -> bool {
    let symbols = elf.map(|elf| elf.symbols.as_slice()).unwrap_or_default();
    let exported = |role| role == SymbolRole::Export;
    let mut exports = symbols.iter().filter(|symbol| exported(symbol.role)).peekable();
    api.exports.is_none() || exports.peek().is_none() || exports.any(|symbol| api.is_shown_by(&symbol.name))
}

/// The path of a library in the source: beside the chosen libcupti, with links resolved.
fn place(source: &ImageFacts, copy: &CuptiCopy, need: &RequiredLibrary) -> Result<RootPath, RemedyError> {
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
    places.next().ok_or_else(|| RemedyError::NoCompanion {
        from: source.image.reference.clone(),
        library: need.stem.to_owned(),
        because: format!("needed for {}", need.because),
    })
}

impl CopiedFile {
    /// A file with unknown content, which keeps its name in `folder`.
    pub(crate) fn unread(from: RootPath, folder: &RootPath, because: LibraryReasons) -> Self {
        Self {
            to: folder.join(from.name()),
            name: from.name().into(),
            mode: 0o644,
            bytes: 0,
            sha256: None,
            because,
            from,
        }
    }
}

fn file(source: &ImageFacts, from: RootPath, folder: &RootPath, because: LibraryReasons) -> CopiedFile {
    let unread = CopiedFile::unread(from, folder, because);
    let Some(facts) = file_facts_at(source, &unread.from) else {
        return unread;
    };
    let soname = facts.elf.as_ref().and_then(|elf| elf.soname.clone());
    CopiedFile {
        name: soname.unwrap_or(unread.name),
        // Readable by all and writable by the owner, whatever the source has. This drops set-user-ID.
        mode: facts.mode & 0o755 | 0o444,
        bytes: facts.bytes,
        sha256: facts.sha256.as_deref().map(str::to_owned),
        ..unread
    }
}

/// Dependencies that the image lacks and the source has. Small images lack `libgcc_s`.
fn dependencies(source: &ImageFacts, target: &ImageFacts, files: &[CopiedFile], folder: &RootPath) -> Vec<CopiedFile> {
    let mut found: BTreeMap<ByteString, CopiedFile> = BTreeMap::new();
    let mut pending: Vec<CopiedFile> = files.to_vec();
    while let Some(file_) = pending.pop() {
        let needed = elf_at(source, &file_.from).map(|elf| elf.needed.as_slice());
        for name in needed.unwrap_or_default() {
            // A second library of the same soname could shadow the image's own for programs that do not use CUPTI.
            if found.contains_key(name) || has_library(target, name) {
                continue;
            }
            let there = source.contexts.as_is.open_plain(name);
            // The check at the end of the build reports a dependency that the source lacks too.
            let Some(object) = opened_object(&there).filter(|_| there.loads()) else {
                continue;
            };
            let because = LibraryReason::NeededBy(file_.name.clone()).into();
            let file = file(source, object.real_path.clone(), folder, because);
            found.insert(name.clone(), file.clone());
            pending.push(file);
        }
    }
    found.into_values().collect()
}

pub(super) fn has_library(target: &ImageFacts, name: &[u8]) -> bool {
    let opened = target.contexts.as_is.open_plain(name);
    opened.loads()
        // libcuda.so.1 belongs to the driver: the container runtime mounts it, and no image contains it.
        || unresolved_objects(&opened)
            .all(|missing| missing.outcome == RequestOutcome::ProvidedAtRuntime)
}

/// Checks that the image's C library has the versions that a file needs.
fn fits_glibc(
    source: &ImageFacts,
    target: &ImageFacts,
    linker: &DynamicLoader,
    file: &CopiedFile,
) -> Result<(), RemedyError> {
    // An unknown version is accepted.
    let Libc::Glibc(Some(has)) = linker.libc else {
        return Ok(());
    };
    let needs = elf_at(source, &file.from).map(|elf| elf.verneed.as_slice());
    let versions = needs.unwrap_or_default().iter().flat_map(|need| &need.versions);
    // Versions of other libraries, such as GLIBCXX_3.4.21, do not start with GLIBC_ and are ignored.
    let highest = versions
        .filter_map(|version| Some((glibc_version(&version.name)?, version)))
        .max_by_key(|(version, _)| *version);
    match highest {
        Some((needs, version)) if needs > has => Err(RemedyError::OldGlibc {
            image: target.image.reference.clone(),
            file: escape::escape_bytes(file.from.name()),
            needs: escape::escape_bytes(&version.name),
            has: format!("{}.{}", has.0, has.1),
        }),
        _ => Ok(()),
    }
}

/// The links by soname, and one by the bare name if a program needs it.
fn links(
    files: &[CopiedFile],
    soname: &ByteString,
    target: &ImageFacts,
    phase: &Phase,
    search: &InstallFolder,
) -> Vec<CreatedLink> {
    let folder = &search.folder;
    // ldconfig creates such links too, but only if it is run, and some images lack it.
    let named = files.iter().filter(|file| *file.name != *file.to.name());
    let mut links: Vec<CreatedLink> = named
        .map(|file| CreatedLink {
            at: folder.join(&file.name),
            to: file.to.name().into(),
            because: "the soname, which programs ask for".to_owned(),
        })
        .collect();
    links.extend(plain_link(target, phase, folder, soname));
    links
}
