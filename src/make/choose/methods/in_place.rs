//! The CUPTI in the image, which only needs a search path.

use std::sync::Arc;

use super::copy::plan_copy;
use crate::byte_search::contains_bytes;
use crate::facts::ImageFacts;
use crate::make::choose::Obstacle;
use crate::make::choose::request::{PatchContext, PatchForm};
use crate::make::choose::search_path::reads_folder;
use crate::make::choose::target::file_facts_at;
use crate::make::patch::{FileOrigin, ImagePatch, NEW_FILES, OTHER_LIBRARIES, PatchedLink, SearchPath};
use image_linkage::path::RootPath;

/// Names the folder of the files, or one with links to them if it cannot be named or lacks a name.
///
/// Errors: Why this does not work.
pub(in crate::make::choose) fn propose(context: &PatchContext<'_>) -> Result<Vec<ImagePatch>, Obstacle> {
    let mut patch = find_files(context)?;
    let file = &patch.library;
    patch.title = format!("lead the loader to {file}, which is in the image");
    let because = "the image contains it, but no search path leads to it";
    let links: Vec<PatchedLink> = patch.links.drain(..).filter(|link| link.to == patch.soname).collect();
    let line = context.install.line();
    let is_named = line.is_some();
    if is_named && links.is_empty() && !is_shared(context.request.target, &patch) {
        patch.search = SearchPath::Configured {
            folder: file.parent(),
            line,
            because: match context.request.form {
                PatchForm::Build => context.install.because.clone(),
                PatchForm::Layer => because.to_owned(),
            },
        };
        return Ok(vec![patch]);
    }
    for file in &patch.files {
        let at = context.install.folder.join(&file.name);
        // A file in a default folder is at its place.
        if at != file.at {
            patch.links.push(PatchedLink {
                at,
                to: file.at.absolute().into(),
                because: format!("{because}; links keep the other libraries beside it off the search path"),
            });
        }
    }
    patch.links.extend(links);
    if let SearchPath::Configured { because, .. } = &mut patch.search
        && context.request.form == PatchForm::Build
    {
        OTHER_LIBRARIES.clone_into(because);
    }
    Ok(vec![patch])
}

/// Runs `ldconfig`, which reads the folder of the files.
///
/// Errors: Why this does not work.
pub(in crate::make::choose) fn propose_refresh(context: &PatchContext<'_>) -> Result<Vec<ImagePatch>, Obstacle> {
    let mut patch = find_files(context)?;
    let (file, folder) = (&patch.library, patch.library.parent());
    if !reads_folder(&context.request.target.contexts.as_is.rootfs, &folder) {
        return Err(format!("ldconfig does not read {folder}").into());
    }
    if context.install.conf.is_none() {
        return Err(context.install.because.clone().into());
    }
    patch.title = format!("run ldconfig: it knows the folder of {file}, and has not been run since the file came");
    patch.links = Vec::new();
    patch.search = SearchPath::Configured {
        folder,
        line: None,
        because: NEW_FILES.to_owned(),
    };
    Ok(vec![patch])
}

/// The files of the image that the phase needs, at their paths.
fn find_files(context: &PatchContext<'_>) -> Result<ImagePatch, Obstacle> {
    let target = context.request.target;
    if target.own_copies().next().is_none() {
        return Err("the image contains no libcupti".into());
    }
    // Use the image as its own source: if a copy would be refused, it does not work in place either.
    let mut patch = plan_copy(context, target)?;
    for file in &mut patch.files {
        if let FileOrigin::Source(from) = std::mem::replace(&mut file.origin, FileOrigin::Present) {
            file.facts = Arc::new(file_facts_at(target, &from).cloned().unwrap_or_default());
            file.at = from;
        }
    }
    patch.library = patch.files.first().map(|file| file.at.clone()).unwrap_or_default();
    // The files may have missing dependencies, which a search path does not add.
    let copy = target.own_copies().find(|copy| copy.real_path == patch.library);
    if let Some(copy) = copy.filter(|copy| !copy.by_path.as_is.loads()) {
        let failure = crate::facts::unresolved_objects(&copy.by_path.as_is).next();
        let words = failure.map(|failure| failure.message.as_str());
        return Err(format!("its copy cannot be loaded: {}", words.unwrap_or_default()).into());
    }
    Ok(patch)
}

/// Whether the folder also contains other libraries.
fn is_shared(target: &ImageFacts, patch: &ImagePatch) -> bool {
    let rootfs = &target.contexts.as_is.rootfs;
    let folders: Vec<RootPath> = patch.files.iter().map(|file| file.at.parent()).collect();
    let Some(first) = folders.first() else {
        return false;
    };
    // Files in several folders need links, like files in a shared folder.
    if folders.iter().any(|folder| folder != first) {
        return true;
    }
    let own: Vec<&str> = target.library.companions().chain([&*target.library.stem]).collect();
    let found = rootfs.lookup(&first.absolute()).ok();
    let mut children = found.iter().flat_map(|found| rootfs.children(found.node));
    children.any(|(name, _)| contains_bytes(name, b".so") && !own.iter().any(|stem| name.starts_with(stem.as_bytes())))
}
