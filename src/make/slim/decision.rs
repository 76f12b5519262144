//! The changes to an image: the added files, the removed files, and the change to each layer.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::Path;

use super::SlimError;
use super::gpu_code::{GpuDecision, GpuRequest, PruneInput, PrunedObject, prune_objects};
use super::original_image::OriginalImage;
use super::removed_files::leave_out;
use super::staging_files::open_file;
use super::supplier::CuptiSupplier;
use super::twin_files::TwinFiles;
use crate::facts::{CuptiStatus, ImageFacts};
use crate::judge::plan::{Plan, PlanItem};
use crate::knowledge::Phase;
use crate::make::remedy::copy_plan::{self, CopyPlan, CreatedLink};
use crate::make::remedy::file_ways::{find_in_place, has_files_of};
use crate::make::remedy::install_folder::{CacheUpdate, FolderDiscovery};
use crate::make::remedy::misleading_names::misleading_names;
use crate::make::remedy::opened_paths::{links_at_opened_paths, links_that_suffice};
use crate::make::remedy::search_path_setup::{ChangedLibraryPath, changed_library_path};
use image_linkage::layer::LayerCut;
use image_linkage::layer::{LayerIndex, is_installed_list};
use image_linkage::limits::Limits;
use image_linkage::path::RootPath;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DropMode {
    /// Remove files that the phase does not need.
    Drop,
    Keep,
}

/// The changes to an image.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SlimDecision {
    /// The files to copy. Without files, a search path to the image's own CUPTI. `None` if the image already serves the
    /// phase or cannot be fixed.
    pub copy_plan: Option<CopyPlan>,
    /// A search path to the image's own CUPTI, if another copy is installed on request.
    pub own: Option<CopyPlan>,
    /// CUPTI names that are dangling links or lead to another release, and that findings would still report.
    pub clears: Vec<RootPath>,
    /// Links at the paths by which programs open the library.
    pub path_links: Vec<CreatedLink>,
    /// The new `LD_LIBRARY_PATH`.
    pub library_path: Option<ChangedLibraryPath>,
    /// The removed files, each with the links to it.
    pub drop: Vec<PlanItem>,
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
        self.copy_plan.is_none() && self.path_links.is_empty() && self.cuts.is_empty() && self.library_path.is_none()
    }

    /// The removed paths, including links.
    pub(crate) fn removed_paths(&self) -> BTreeSet<RootPath> {
        let items = self.drop.iter();
        items
            .flat_map(|item| std::iter::once(&item.path).chain(&item.links))
            .cloned()
            .collect()
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
        let object = objects.find(|object| object.layer == layer && object.stored == *stored);
        let object = object.ok_or_else(|| io::Error::other("it has no new content"))?;
        Ok(Box::new(open_file(&object.content)?))
    }

    /// All removed files, visible or hidden.
    pub(crate) fn removed_items(&self) -> impl Iterator<Item = &PlanItem> {
        self.drop.iter().chain(&self.hidden)
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
        let cut = |(number, layer): (usize, &LayerIndex)| match self.cuts.get(&number) {
            Some(cut) => cut.apply(layer),
            None => layer.clone(),
        };
        layers.iter().enumerate().map(cut).collect()
    }
}

/// Decides the changes to an image; `plan` is for `phase`.
///
/// Errors: Why the missing files cannot be copied.
pub(crate) fn decide_changes(
    original: &OriginalImage,
    facts: &ImageFacts,
    phase: &Phase,
    plan: &Plan,
    supplier: Option<&CuptiSupplier>,
    dropping: DropMode,
    prune: PruneRequest<'_>,
) -> Result<SlimDecision, SlimError> {
    let mut decision = SlimDecision::default();
    // An image that meets the phase's demands needs nothing from any source. Links only suffice for a loadable library:
    // files beside a library off the search path may also be requested by name.
    let lacks_cupti = plan.lacks_cupti(facts);
    if lacks_cupti && facts.status.as_is == CuptiStatus::Loadable {
        decision.path_links = links_that_suffice(facts, plan);
    }
    if lacks_cupti && decision.path_links.is_empty() {
        decision.own = plan_in_place(facts, phase);
        decision.copy_plan = match supplier {
            // A second copy of the same files would be dead weight.
            Some(supplier)
                if decision.own.is_none() || !has_files_of(facts, phase, &supplier.facts, CacheUpdate::Cache) =>
            {
                Some(copy_plan::plan_copy(&supplier.facts, phase, facts, CacheUpdate::Cache)?)
            }
            _ => decision.own.take(),
        };
    }
    if let Some(copy_plan) = &decision.copy_plan {
        decision.clears = misleading_names(facts);
        let own = facts
            .own_copies()
            .find(|copy| copy.soname.as_ref() == Some(&copy_plan.soname));
        let brought = copy_plan.files.first().map(|file| &file.to);
        if let Some(library) = brought.or(own.map(|copy| &copy.real_path)) {
            decision.path_links = links_at_opened_paths(facts, &copy_plan.soname, library);
        }
    }
    let search = decision.copy_plan.as_ref().map(|copy_plan| &copy_plan.search);
    let named = search.filter(|search| search.by != FolderDiscovery::Default);
    let folder = named.map(|search| &search.folder);
    decision.library_path = changed_library_path(facts, folder, &decision.clears);
    let merged = &facts.contexts.as_is.rootfs;
    if dropping == DropMode::Drop {
        leave_out(&mut decision, &original.layers, merged, plan, facts.tables);
    }
    if let Some(request) = prune.request {
        let gone = decision.removed_paths();
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
        let cut = decision.cuts.entry(object.layer);
        let cut = cut.or_insert_with(|| LayerCut::new(layer, &BTreeSet::new()));
        // A copy that became a link to another file has that file's content.
        let group = cut.twins.get(&object.stored).cloned();
        cut.twins.retain(|_, file| Some(&*file) != group.as_ref());
        decision.twins.retain(|twins| Some(&twins.file) != group.as_ref());
        cut.replaced.insert(object.stored.clone(), object.replaced());
    }
}

/// A search path to the CUPTI in the image, without new files; `None` if that does not work.
fn plan_in_place(facts: &ImageFacts, phase: &Phase) -> Option<CopyPlan> {
    let plan = find_in_place(facts, phase, CacheUpdate::Cache).ok()?;
    (plan.search.by != FolderDiscovery::Default).then(|| CopyPlan {
        files: Vec::new(),
        ..plan
    })
}
