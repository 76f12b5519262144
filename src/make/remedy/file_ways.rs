//! The methods without a package: files in the image, or copied from another image.

use super::MethodObstacle;
use super::copy_plan::{CopiedFile, CopyPlan, CreatedLink, plan_copy};
use super::copy_source::CopySource;
use super::image_system::ImageSystem;
use super::install_context::InstallContext;
use super::install_folder::{CacheUpdate, FolderDiscovery, choose_install_folder, reads_folder};
use super::install_method::InstallMethod;
use super::required_libraries::RequiredLibrary;
use crate::byte_search::contains_bytes;
use crate::facts::ImageFacts;
use crate::facts::software::cuda_runtime::{CudaVersion, parse_cuda_version};
use crate::knowledge::{LibraryRelease, Phase};
use image_linkage::path::RootPath;
use image_linkage::rootfs::NodeKind;

pub(super) fn place(question: &InstallContext<'_>) -> Result<InstallMethod, MethodObstacle> {
    let found = find_in_place(question.request.target, question.request.phase, CacheUpdate::Build)?;
    Ok(InstallMethod::Place(found))
}

/// The CUPTI in the image that only needs a search path: the files at their paths, and the folder that leads to them.
/// The folder is their own or one with links to them.
///
/// Errors: Why this does not work.
pub(crate) fn find_in_place(
    target: &ImageFacts,
    phase: &Phase,
    means: CacheUpdate,
) -> Result<CopyPlan, MethodObstacle> {
    if target.own_copies().next().is_none() {
        return Err("the image contains no libcupti".into());
    }
    // Use the image as its own source: if a copy would be refused, it does not work in place either.
    let mut copy_plan = plan_copy(target, phase, target, means)?;
    let cupti = copy_plan.files.first().map(|file| &file.from);
    // The files may have missing dependencies, which a search path does not add.
    let copy = target.own_copies().find(|copy| Some(&copy.real_path) == cupti);
    if let Some(copy) = copy.filter(|copy| !copy.by_path.as_is.loads()) {
        let failure = crate::facts::unresolved_objects(&copy.by_path.as_is).next();
        let words = failure.map(|failure| failure.message.as_str());
        return Err(format!("its copy cannot be loaded: {}", words.unwrap_or_default()).into());
    }
    lead_to_files(target, &mut copy_plan);
    Ok(copy_plan)
}

/// The same for files in a folder that `ldconfig` reads: it only needs to run.
pub(super) fn refresh(question: &InstallContext<'_>) -> Result<InstallMethod, MethodObstacle> {
    let target = question.request.target;
    let mut found = find_in_place(target, question.request.phase, CacheUpdate::Build)?;
    let folder = found.files.first().map(|file| file.from.parent()).unwrap_or_default();
    if !reads_folder(&target.contexts.as_is.rootfs, &folder) {
        return Err(format!("ldconfig does not read {folder}").into());
    }
    if found.search.by == FolderDiscovery::Default {
        return Err(found.search.because.into());
    }
    found.links = Vec::new();
    found.search.folder = folder;
    Ok(InstallMethod::Place(found))
}

/// Puts the files' own folder on the search path. Uses links if the folder cannot be configured or lacks a name.
fn lead_to_files(target: &ImageFacts, copy_plan: &mut CopyPlan) {
    let because = "the image contains it, but no search path leads to it";
    let is_named = copy_plan.search.by != FolderDiscovery::Default;
    let soname = &copy_plan.soname;
    let bare = copy_plan.links.drain(..).find(|link| link.to == *soname);
    if is_named && bare.is_none() && !is_shared(target, copy_plan) {
        let first = copy_plan.files.first();
        copy_plan.search.folder = first.map(|file| file.from.parent()).unwrap_or_default();
        because.clone_into(&mut copy_plan.search.because);
        return;
    }
    let link = |file: &CopiedFile| {
        let at = if is_named {
            copy_plan.search.folder.join(&file.name)
        } else {
            file.to.clone()
        };
        // A file in a default folder is at its place.
        (at != file.from).then(|| CreatedLink {
            at,
            to: file.from.absolute().into(),
            because: format!("{because}; links keep the other libraries beside it off the search path"),
        })
    };
    copy_plan.links = copy_plan.files.iter().filter_map(link).chain(bare).collect();
}

/// Whether the image already has each file that would be copied, compared by hash.
pub(super) fn has_files_of_source(question: &InstallContext<'_>) -> bool {
    let source = question.request.source.map(|source| source.facts);
    source.is_some_and(|source| {
        has_files_of(
            question.request.target,
            question.request.phase,
            source,
            CacheUpdate::Build,
        )
    })
}

/// Whether the image already has each file that `source` would supply, compared by hash.
pub(crate) fn has_files_of(target: &ImageFacts, phase: &Phase, source: &ImageFacts, means: CacheUpdate) -> bool {
    let hashes = |source| -> Option<Vec<_>> {
        let files = plan_copy(source, phase, target, means).ok()?.files.into_iter();
        files.map(|file| Some((file.name, file.sha256?))).collect()
    };
    let theirs = hashes(source);
    theirs.is_some() && theirs == hashes(target)
}

/// Whether the folder also contains other libraries.
fn is_shared(target: &ImageFacts, copy_plan: &CopyPlan) -> bool {
    let rootfs = &target.contexts.as_is.rootfs;
    let folders: Vec<RootPath> = copy_plan.files.iter().map(|file| file.from.parent()).collect();
    let Some(first) = folders.first() else {
        return false;
    };
    let of_cupti = |name: &[u8]| {
        let companions = target.library.companions();
        companions
            .chain([&*target.library.stem])
            .any(|stem| name.starts_with(stem.as_bytes()))
    };
    let found = rootfs.lookup(&first.absolute()).ok();
    let mut names = found
        .iter()
        .flat_map(|found| rootfs.children(found.node))
        .map(|(name, _)| name);
    let is_library = |name: &[u8]| contains_bytes(name, b".so");
    // Files in several folders need links, like files in a shared folder.
    folders.iter().any(|folder| folder != first) || names.any(|name| is_library(name) && !of_cupti(name))
}

pub(super) fn copy(question: &InstallContext<'_>) -> Result<InstallMethod, MethodObstacle> {
    let source = question.request.source;
    let CopySource { name: from, facts } = source.ok_or("no image to copy from (--from)")?;
    let mut copy_plan = plan_copy(
        facts,
        question.request.phase,
        question.request.target,
        CacheUpdate::Build,
    )?;
    if !question.system.shell {
        // Nothing creates links here, and the files have their requested names.
        copy_plan.links.clear();
        require_no_links(question.request.target, &question.system, &copy_plan)?;
    }
    let has = copy_plan.release.as_deref().and_then(parse_cuda_version);
    if let (Some(has), Some(asked)) = (has, question.request.cuda)
        && has != asked
    {
        let (has, asked) = (format!("{}.{}", has.0, has.1), format!("{}.{}", asked.0, asked.1));
        return Err(format!("{from} has CUPTI of CUDA {has}, but you asked for {asked}").into());
    }
    Ok(InstallMethod::Copy {
        from: from.to_owned(),
        copy_plan,
        is_read: true,
    })
}

/// Rejects a copy over a link: COPY writes through the link (observed with both builders), and without a shell nothing
/// can remove it first.
fn require_no_links(target: &ImageFacts, system: &ImageSystem, copy_plan: &CopyPlan) -> Result<(), MethodObstacle> {
    let rootfs = &target.contexts.as_is.rootfs;
    let is_link = |path: &&RootPath| {
        let found = rootfs.lookup_link(&path.absolute());
        found.is_ok_and(|found| matches!(rootfs.node(found.node).kind, NodeKind::Symlink(_)))
    };
    let mut places = copy_plan.files.iter().map(|file| &file.to);
    match places.find(is_link) {
        Some(link) => Err(format!(
            "{link} is a link, and the image has {} to remove it; cupti-audit slim can replace it",
            system.lacks
        )
        .into()),
        None => Ok(()),
    }
}

/// The machine in the addresses of NVIDIA's repositories, by the architecture of an image.
fn nvidia_machine(architecture: &str) -> &'static str {
    if architecture == "arm64" { "sbsa" } else { "x86_64" }
}

/// The name of NVIDIA's devel image for an image; `None` if its distribution or its exact CUDA version is unknown.
pub(super) fn devel_image_name(target: &ImageFacts, system: &ImageSystem, cuda: CudaVersion) -> Option<String> {
    let machine = nvidia_machine(target.image.platform.architecture.as_str());
    let known = target
        .tables
        .packages
        .nvidia_repository(&system.id, &system.version, machine)?;
    let exact = target.image.config.env("CUDA_VERSION")?;
    // The value comes from the image and becomes part of a FROM name.
    let is_number = exact.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let suffix = known
        .devel
        .as_ref()
        .filter(|_| is_number && parse_cuda_version(exact) == Some(cuda) && known.has(cuda))?;
    Some(format!("nvidia/cuda:{exact}-devel-{suffix}"))
}

pub(super) fn devel(question: &InstallContext<'_>) -> Result<InstallMethod, MethodObstacle> {
    if question.request.source.is_some() {
        return Err("pass the image to copy from with --from".into());
    }
    let release = question.release()?;
    let from = devel_image_name(question.request.target, &question.system, release.cuda);
    let which = "no matching devel image of NVIDIA is known; pass one with --from";
    let from = from.ok_or(which)?;
    let folder = question.toolkit_folder(release.cuda);
    Ok(unread_copy(question, from, release, &folder))
}

/// The files of a release, copied from `folder` of `from`, an image that was not read.
pub(super) fn unread_copy(
    question: &InstallContext<'_>,
    from: String,
    release: &LibraryRelease,
    folder: &RootPath,
) -> InstallMethod {
    let search = choose_install_folder(question.request.target, question.linker, CacheUpdate::Build);
    // By soname: `COPY` follows links, so each becomes a file of that name.
    let file = |need: RequiredLibrary| {
        let library = question.request.target.library;
        let name = library.loaded_name(need.stem, &release.soname).as_bytes();
        CopiedFile::unread(folder.join(name), &search.folder, need.because)
    };
    InstallMethod::Copy {
        from,
        copy_plan: CopyPlan {
            soname: release.soname.as_bytes().into(),
            release: None,
            files: question.needs(release.cuda).into_iter().map(file).collect(),
            links: Vec::new(),
            search: search.clone(),
        },
        is_read: false,
    }
}
