//! The changes to an image: the added files, the removed files, and the change to each layer.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::Path;

use super::SlimError;
use super::gpu_code::{GpuDecision, GpuRequest, PruneInput, PrunedObject, prune_objects};
use super::original_image::OriginalImage;
use super::removed_files::leave_out;
use super::staging_files::open_file;
use super::twin_files::TwinFiles;
use crate::judge::plan::PlanItem;
use crate::make::choose::Obstacle;
use crate::make::choose::complete::cache_lists;
use crate::make::choose::layer_choice::choose_layer;
use crate::make::choose::request::{DropChoice, PatchRequest};
use crate::make::patch::ImagePatch;
use crate::make::patch::drops::paths_of;
use image_linkage::layer::LayerCut;
use image_linkage::layer::{LayerIndex, is_installed_list};
use image_linkage::limits::Limits;
use image_linkage::loader::Libc;
use image_linkage::path::RootPath;

/// The changes to an image.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct SlimDecision {
    /// The added layer, the variable of the search path, and the removed files.
    pub patch: ImagePatch,
    /// A search path to the image's own CUPTI, if another copy is installed on request.
    pub own: Option<ImagePatch>,
    /// Why the image's own CUPTI does not help.
    pub own_obstacle: Option<Obstacle>,
    /// Files that an upper layer hides: invisible, but their bytes are still pulled.
    pub hidden: Vec<PlanItem>,
    /// Removable files that stay, each with the reason.
    pub stays: Vec<(RootPath, String)>,
    /// Copies of one file that are stored once.
    pub twins: Vec<TwinFiles>,
    /// The removals from each layer, by layer number; unchanged layers have no entry.
    pub cuts: BTreeMap<usize, LayerCut>,
    /// The changes to GPU code, if they were asked for.
    pub gpu_code: Option<GpuDecision>,
}

impl SlimDecision {
    pub(crate) fn is_nothing(&self) -> bool {
        !self.patch.brings_library() && self.cuts.is_empty() && self.patch.library_path.is_none()
    }

    /// The removed paths, including links.
    pub(crate) fn removed_paths(&self) -> BTreeSet<RootPath> {
        self.patch.drops.iter().flat_map(paths_of).cloned().collect()
    }

    /// The label of the new image, if GPU code was removed.
    pub(crate) fn gpu_label(&self) -> Option<&str> {
        let gpu_code = self.gpu_code.as_ref().filter(|gpu_code| !gpu_code.pruned.is_empty());
        gpu_code.map(|gpu_code| &*gpu_code.gpus)
    }

    /// The rewritten objects.
    pub(crate) fn pruned_objects(&self) -> impl Iterator<Item = &PrunedObject> {
        self.gpu_code.iter().flat_map(|gpu_code| &gpu_code.pruned)
    }

    /// Opens the new content of a file of a layer.
    pub(crate) fn open_replacement(&self, layer: usize, stored: &RootPath) -> io::Result<Box<dyn Read>> {
        let mut objects = self.pruned_objects();
        match objects.find(|object| object.layer == layer && object.stored == *stored) {
            Some(object) => Ok(Box::new(open_file(&object.content)?)),
            None => Err(io::Error::other("it has no new content")),
        }
    }

    /// All removed files, visible or hidden.
    pub(crate) fn removed_items(&self) -> impl Iterator<Item = &PlanItem> {
        self.patch.drops.iter().chain(&self.hidden)
    }

    /// The paths removed from one layer.
    pub(super) fn removed_from(&self, number: usize) -> BTreeSet<RootPath> {
        let hidden = self.hidden.iter().filter(|item| item.layer == number);
        let mut gone = self.removed_paths();
        gone.extend(hidden.map(|item| item.path.clone()));
        gone
    }

    /// The lists of installed files that may lose lines.
    pub(crate) fn changed_lists<'l>(&'l self, layers: &'l [LayerIndex]) -> impl Iterator<Item = RootPath> {
        let cut = self.cuts.keys().filter_map(|&number| layers.get(number));
        let paths = cut.flat_map(|layer| layer.entries.iter().map(|(path, _)| path));
        paths.filter(is_installed_list)
    }

    /// The contents of the layers afterwards, without the added layer.
    pub(crate) fn apply(&self, layers: &[LayerIndex]) -> Vec<LayerIndex> {
        let mut layers = layers.to_vec();
        for (number, cut) in &self.cuts {
            if let Some(layer) = layers.get_mut(*number) {
                *layer = cut.apply(layer);
            }
        }
        layers
    }
}

/// Decides the changes to an image.
///
/// Errors: Why the missing files cannot be copied.
pub(crate) fn decide_changes(
    original: &OriginalImage,
    request: &PatchRequest<'_>,
    prune: PruneRequest<'_>,
) -> Result<SlimDecision, SlimError> {
    let facts = request.target;
    let merged = &facts.contexts.as_is.rootfs;
    let chosen = choose_layer(*request).map_err(|why| SlimError::Cannot(why.to_string()))?;
    let mut decision = SlimDecision {
        patch: chosen.patch,
        own: chosen.own,
        own_obstacle: chosen.own_obstacle,
        ..SlimDecision::default()
    };
    if request.drops == DropChoice::All {
        leave_out(&mut decision, &original.layers, merged, facts.tables);
    }
    let gone = decision.removed_paths();
    // musl has no cache: it reads /etc/ld-musl-ARCH.path (musl, ldso/dynlink.c).
    if let Some(loader) = facts
        .contexts
        .as_is
        .linker
        .as_ref()
        .filter(|loader| loader.libc != Libc::Musl)
    {
        decision.patch.rewrites_cache |= cache_lists(loader, merged, |path| gone.contains(path));
    }
    if let Some(request) = prune.request {
        let place = PruneInput {
            original,
            merged,
            gone: &gone,
            table: &facts.tables.gpu_code,
            limits: prune.limits,
            folder: prune.folder,
        };
        let gpu_code = prune_objects(request, &place)?;
        replace_objects(&mut decision, &original.layers, &gpu_code);
        decision.gpu_code = Some(gpu_code);
    }
    Ok(decision)
}

/// The GPU code to remove, and what that needs.
#[derive(Clone, Copy)]
pub(crate) struct PruneRequest<'a> {
    pub request: Option<&'a GpuRequest>,
    pub limits: &'a Limits,
    /// A folder for temporary files.
    pub folder: &'a Path,
}

/// Adds the rewritten objects to the changes of their layers.
fn replace_objects(decision: &mut SlimDecision, layers: &[LayerIndex], gpu_code: &GpuDecision) {
    for object in &gpu_code.pruned {
        let Some(layer) = layers.get(object.layer) else {
            continue;
        };
        let cuts = decision.cuts.entry(object.layer);
        let cut = cuts.or_insert_with(|| LayerCut::new(layer, &BTreeSet::new()));
        // A copy that became a link to another file has that file's content.
        let group = cut.twins.get(&object.stored).cloned();
        cut.twins.retain(|_, file| Some(&*file) != group.as_ref());
        decision.twins.retain(|twins| Some(&twins.file) != group.as_ref());
        cut.replaced.insert(object.stored.clone(), object.replaced());
    }
}
