//! The parts of a patch that depend on all others: deleted names, the search path variable, and what is removed.

use super::Obstacle;
use super::methods::links::links_at_opened_paths;
use super::misleading_names::misleading_names;
use super::request::{PatchContext, PatchForm, PatchRequest};
use super::required_libraries::apis_newer_than_release;
use super::search_path::{changed_library_path, volume_over};
use crate::facts::{ImageFacts, unresolved_objects};
use crate::judge::plan::PlanItem;
use crate::knowledge::has_api;
use crate::make::patch::drops::paths_of;
use crate::make::patch::layer::AddedLayer;
use crate::make::patch::package::Package;
use crate::make::patch::{BroughtRelease, ImagePatch, SearchPath};
use crate::size::format_size;
use image_linkage::loader::{DynamicLoader, LdCache, Libc, RequestOutcome};
use image_linkage::path::RootPath;
use image_linkage::rootfs::Rootfs;

/// Completes the proposal of a method.
///
/// Errors: A library that libcupti needs is missing.
pub(super) fn complete(context: &PatchContext<'_>, mut patch: ImagePatch) -> Result<ImagePatch, Obstacle> {
    let target = context.request.target;
    if !patch.files.is_empty() {
        require_system_libraries(target, &patch)?;
        if context.can_link() {
            let mut names = misleading_names(target);
            names.retain(|name| !patch.uses(name));
            patch.deletes = names;
            let links = links_at_opened_paths(target, &patch.soname, &patch.library);
            patch.links.extend(links);
        }
        let version = patch.release.as_ref().and_then(BroughtRelease::cuda);
        let cuda = version.or(context.release.as_ref().map(|it| it.release.cuda));
        if let Some(cuda) = cuda {
            let newer = apis_newer_than_release(target.tables, context.request.phase, |api| has_api(cuda, api));
            patch.leaves.extend(newer);
        }
    }
    // mkdir would stop at a link that leads nowhere; a layer makes its target.
    let rootfs = &target.contexts.as_is.rootfs;
    for link in &mut patch.links {
        let folder = link.at.parent();
        if rootfs.lookup(&folder.absolute()).is_err() {
            link.at = AddedLayer::resolve_folder(rootfs, &folder)?.join(link.at.name());
        }
    }
    patch.library_path = changed_library_path(target, patch.named_folder(), &patch.deletes);
    drop_files(context, &mut patch);
    patch.rewrites_cache = rewrites_cache(context, &patch);
    Ok(patch)
}

/// Checks that the image has the libraries that CUPTI needs beside glibc. Images with apt or dnf have them; no other
/// method installs them.
fn require_system_libraries(target: &ImageFacts, patch: &ImagePatch) -> Result<(), Obstacle> {
    let mut needed = target.library.needed.iter();
    let missing = needed.find(|name| {
        let mut names = patch.files.iter().map(|file| &file.name);
        !names.any(|brought| **brought == *name.as_bytes()) && !has_library(target, name.as_bytes())
    });
    match missing {
        None => Ok(()),
        Some(name) => {
            Err(format!("libcupti needs {name}, which the image lacks: pass an image that has both with --from").into())
        }
    }
}

/// Whether a plain process finds a library, or gets it from the driver.
pub(super) fn has_library(target: &ImageFacts, name: &[u8]) -> bool {
    let opened = target.contexts.as_is.open_plain(name);
    opened.loads()
        // libcuda.so.1 belongs to the driver: the container runtime mounts it, and no image contains it.
        || unresolved_objects(&opened)
            .all(|missing| missing.outcome == RequestOutcome::ProvidedAtRuntime)
}

/// Drops the unneeded files that the patch does not use, and says which stay.
fn drop_files(context: &PatchContext<'_>, patch: &mut ImagePatch) {
    let PatchRequest {
        target,
        phase,
        plan,
        form,
        ..
    } = context.request;
    // What a build makes reachable may be any copy, and a damaged one is deleted.
    let keeps_copies = form == PatchForm::Build && context.request.lacks_cupti();
    let is_copy = |path: &RootPath| target.answers.copies.iter().any(|copy| copy.real_path == *path);
    let is_unused = |item: &&PlanItem| {
        let at = &item.path;
        !(patch.uses(at) || patch.deletes.contains(at) || keeps_copies && is_copy(at))
    };
    let drops: Vec<PlanItem> = context.drops.iter().filter(is_unused).cloned().collect();
    if form == PatchForm::Layer {
        patch.drops = drops;
        return;
    }
    let left = bytes_of(plan.drop.iter().filter(is_unused)).saturating_sub(bytes_of(&drops));
    let system = &context.system;
    if system.shell {
        // The classic builder restores files removed from a volume after the step.
        let (in_volumes, others) = drops
            .into_iter()
            .partition::<Vec<_>, _>(|item| is_in_volume(target, item));
        if !in_volumes.is_empty() {
            patch.leaves.push(format!(
                "{} unneeded files: they are in a volume of the image, where a build cannot remove them",
                in_volumes.len()
            ));
        }
        patch.drops = others;
    } else if !drops.is_empty() {
        patch.leaves.push(format!(
            "unneeded files: the image has {} to remove them; cupti-audit slim needs none",
            system.lacks
        ));
    }
    if !phase.dead_weight.removes.is_empty() && left > 0 {
        patch.leaves.push(format!(
            "{} of files that this phase does not need, such as compilers and stubs: --drop removes them",
            format_size(left)
        ));
    }
}

fn bytes_of<'i>(items: impl IntoIterator<Item = &'i PlanItem>) -> u64 {
    items.into_iter().map(|item| item.bytes).sum()
}

/// Whether a removable file, or a link to it, is in a volume of the image.
fn is_in_volume(facts: &ImageFacts, item: &PlanItem) -> bool {
    let mut paths = paths_of(item).map(ToString::to_string);
    paths.any(|path| volume_over(facts, path.trim_start_matches('/')).is_some())
}

fn rewrites_cache(context: &PatchContext<'_>, patch: &ImagePatch) -> bool {
    let is_named = matches!(patch.search, SearchPath::Configured { .. });
    match context.request.form {
        PatchForm::Build => {
            let only_deletes = patch.files.is_empty() && !patch.deletes.is_empty();
            is_named
                || matches!(patch.package, Some(Package::System(_)))
                || ((only_deletes || !patch.drops.is_empty()) && context.system.has_cache)
        }
        // musl has no cache: it reads /etc/ld-musl-ARCH.path (musl, ldso/dynlink.c).
        PatchForm::Layer => context.linker.libc != Libc::Musl && !patch.files.is_empty(),
    }
}

/// Whether the loader's cache lists one of these paths.
pub(crate) fn cache_lists(loader: &DynamicLoader, rootfs: &Rootfs, gone: impl Fn(&RootPath) -> bool) -> bool {
    let mut entries = loader.cache.as_deref().into_iter().flat_map(LdCache::iter);
    entries.any(|(_, entry)| {
        let path = RootPath::new(&entry.path);
        // The cache lists files below the folders of ld.so.conf, some of which are links, such as /lib.
        let folder = rootfs.lookup(&path.parent().absolute());
        folder.is_ok_and(|folder| gone(&folder.path.join(path.name())))
    })
}
