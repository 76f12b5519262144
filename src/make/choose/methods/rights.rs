//! Rights on CUPTI's files that the image's user lacks.

use crate::facts::objects::credentials::{chmod_mode, closed_places};
use crate::facts::{CuptiCopy, ImageFacts};
use crate::make::choose::Obstacle;
use crate::make::choose::request::{PatchContext, PatchForm};
use crate::make::patch::{GrantedRight, ImagePatch};
use image_linkage::rootfs::FileUse;

/// Leads the user to a copy of the library and the libraries beside it; one patch for each closed copy.
///
/// Errors: No copy is closed, or a layer cannot open it.
pub(in crate::make::choose) fn propose(context: &PatchContext<'_>) -> Result<Vec<ImagePatch>, Obstacle> {
    let target = context.request.target;
    if context.request.form == PatchForm::Layer {
        return Err("a layer would have to bring the files again".into());
    }
    let closed = target.answers.copies.iter().filter(|copy| copy.denial.is_some());
    let patches: Vec<ImagePatch> = closed.map(|copy| patch(rights_of_copy(target, copy))).collect();
    if patches.is_empty() {
        return Err("the user may read each copy".into());
    }
    Ok(patches)
}

fn patch(rights: Vec<GrantedRight>) -> ImagePatch {
    let paths: Vec<String> = rights.iter().map(|right| right.path.to_string()).collect();
    ImagePatch {
        title: format!("let the image's user access {}", paths.join(" and ")),
        rights,
        ..ImagePatch::default()
    }
}

fn rights_of_copy(target: &ImageFacts, copy: &CuptiCopy) -> Vec<GrantedRight> {
    let context = &target.contexts.as_is;
    let folder = copy.real_path.parent();
    let found = context.rootfs.lookup(&folder.absolute()).ok();
    let names = found.iter().flat_map(|found| context.rootfs.children(found.node));
    let companions = names.filter(|(name, _)| target.library.is_family(name));
    let files = companions
        .map(|(name, _)| folder.join(name))
        .chain([copy.real_path.clone()]);
    let mut rights: Vec<GrantedRight> = Vec::new();
    for file in files {
        for (path, usage) in closed_places(&context.rootfs, &context.user.credentials, &file, FileUse::Read) {
            if rights.iter().all(|right| right.path != path) {
                let (mode, bits) = (chmod_mode(usage), if usage == FileUse::Pass { 0o555 } else { 0o444 });
                rights.push(GrantedRight { path, mode, bits });
            }
        }
    }
    rights
}
