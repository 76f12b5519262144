//! Names of CUPTI in the image that must not stay beside an installed one.

use super::Obstacle;
use super::request::PatchContext;
use crate::facts::{CuptiConsumer, ImageFacts};
use crate::make::patch::ImagePatch;
use image_linkage::path::RootPath;

/// Misleading CUPTI names in the image: dangling links, names of another release, and files that are not libraries.
pub(crate) fn misleading_names(target: &ImageFacts) -> Vec<RootPath> {
    // Only linkers use libcupti.so, and no finding mentions it once CUPTI is found.
    let links = target
        .dangling
        .iter()
        .map(|link| &link.path)
        .filter(|path| path.name() != target.library.stem.as_bytes());
    let misnamed = target.related.misnamed.iter().map(|name| &name.path);
    // glibc stops its search at a file that is not a library.
    let damaged = target
        .own_copies()
        .filter(|copy| !copy.problems.is_empty())
        .map(|copy| &copy.real_path);
    let mut all: Vec<RootPath> = links.chain(misnamed).chain(damaged).cloned().collect();
    all.sort();
    all.dedup();
    all
}

/// Removes all of them, so that programs find the right library behind them.
///
/// Errors: The image has none.
pub(super) fn propose_deletion(context: &PatchContext<'_>) -> Result<Vec<ImagePatch>, Obstacle> {
    let deletes = misleading_names(context.request.target);
    if deletes.is_empty() {
        return Err("no name misleads".into());
    }
    let paths: Vec<String> = deletes.iter().map(ToString::to_string).collect();
    Ok(vec![ImagePatch {
        title: format!(
            "remove {}, so that programs find the library of the right release",
            paths.join(" and ")
        ),
        deletes,
        ..ImagePatch::default()
    }])
}

/// Whether a program gets the library through a misleading name.
pub(crate) fn is_misled(target: &ImageFacts, consumer: &CuptiConsumer) -> bool {
    let path = consumer.outcome.as_is.answer.file().map(|file| &file.path);
    let found = path.and_then(|path| target.contexts.as_is.rootfs.lookup(path).ok());
    let misleading = misleading_names(target);
    found.is_some_and(|found| {
        let mut names = found.links.iter().chain([&found.path]);
        names.any(|name| misleading.contains(name))
    })
}
