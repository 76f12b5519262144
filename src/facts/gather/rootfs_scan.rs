//! Collects the facts before any simulation: one walk through the files, and the initial state of processes.

use std::sync::Arc;

use crate::facts::objects::process_context::{self, GatherOptions, ProcessContext};
use crate::facts::objects::world::ByWorld;
use crate::facts::software::cached_packages::CachedPackages;
use crate::facts::software::companions::{self, CompanionRequest};
use crate::facts::software::cupti_files::{self, CuptiFiles, ScanCase};
use crate::facts::software::package_files::{find_incomplete, is_package_list};
use crate::facts::software::related_software::RelatedSoftware;
use crate::facts::software::replaced_files::find_replaced;
use crate::facts::software::requirements::{InstalledPythons, find_unmet};
use crate::facts::weight::dead_weight::DeadWeightScan;
use crate::facts::weight::file_references::ObjectInventory;
use crate::facts::weight::gpu_code::GpuCodeObject;
use image_linkage::path::RootPath;
use image_linkage::rootfs::NodeKind;
use image_source::Image;
use python_path::{PythonEnvironment, is_interpreter_name};

/// The maximum number of files and links with a name of Python to check.
const PYTHONS: usize = 1024;

/// The results of one walk through the file system.
#[derive(Default)]
pub(super) struct RootfsScan {
    /// The files that concern CUPTI.
    pub found: CuptiFiles,
    /// The files that may be dead weight.
    pub weight: DeadWeightScan,
    /// The objects that may need such files.
    pub inventory: ObjectInventory,
    /// The objects with code for GPUs.
    pub gpu_code: Vec<GpuCodeObject>,
    /// Related software.
    pub around: RelatedSoftware,
    /// The files and links with a name of Python.
    pythons: Vec<RootPath>,
    /// The file lists of packages.
    package_lists: Vec<RootPath>,
    /// The packages in uv's cache.
    cached: CachedPackages,
}

/// An image that is ready for the simulation.
pub(super) struct ScannedImage {
    /// The facts from its files, with sorted dead weight.
    pub scan: RootfsScan,
    /// The initial state of a process in both worlds.
    pub contexts: ByWorld<ProcessContext>,
    /// The requests for companion libraries.
    pub wanted: Vec<CompanionRequest>,
}

/// Collects the facts before any simulation.
pub(super) fn scan_image(image: &Image, case: &ScanCase<'_>, conditions: &GatherOptions) -> ScannedImage {
    let (rootfs, knowledge) = (case.rootfs, case.knowledge);
    let mut contexts = process_context::build_contexts(image, rootfs, knowledge.tables, conditions);
    let mut scan = walk(case, &CachedPackages::default());
    let cached = std::mem::take(&mut scan.cached).without_environments(rootfs);
    let unused = cached.clone().unused(&scan.inventory.links);
    if !unused.is_empty() {
        scan = walk(case, &unused);
        scan.around.unused_packages = unused;
    }
    // The packages of an environment are where its links are.
    scan.around
        .distributions
        .retain(|found| !cached.contain(&found.metadata));
    scan.package_lists.retain(|list| !cached.contain(list));
    scan.found.aliases = cupti_files::find_library_aliases(knowledge.library, &scan.found, &scan.inventory.links);
    let holders = cupti_files::alias_holders(&scan.found.aliases, &scan.found, &scan.inventory.objects);
    scan.found.requesters.extend(holders);
    let settings = process_context::python_settings(image, &contexts.as_is);
    let python = PythonEnvironment::read(rootfs, &scan.pythons, &settings, &scan.around.distributions);
    scan.around.unmet = find_unmet(
        &InstalledPythons {
            rootfs,
            python: &python,
            distributions: &scan.around.distributions,
            machine: case.machine,
        },
        knowledge,
        case.profiles,
    );
    contexts.as_is.python = Arc::new(python);
    contexts.nvidia.python = Arc::clone(&contexts.as_is.python);
    let around = &mut scan.around;
    around.replaced = find_replaced(rootfs, &around.distributions);
    around.incomplete = find_incomplete(case, &scan.package_lists, &around.distributions);
    scan.weight = scan.weight.finish(image, knowledge.tables);
    // After the walk, because the files show the version number in a companion's name.
    let files: Vec<&RootPath> = scan.weight.files.iter().map(|file| &file.path).collect();
    let wanted = companions::companion_requests(rootfs, &knowledge.tables.apis, &files);
    ScannedImage { scan, contexts, wanted }
}

/// Walks through the file system once, and leaves out the `unused` packages of uv's cache.
fn walk(case: &ScanCase<'_>, unused: &CachedPackages) -> RootfsScan {
    let (rootfs, tables) = (case.rootfs, case.knowledge.tables);
    let mut scan = RootfsScan::default();
    // A single walk, because an image can have millions of files.
    rootfs.visit(|path, id, node| {
        if unused.contain(path) {
            return;
        }
        scan.cached.add(path);
        cupti_files::add_cupti_node(case, &mut scan.found, path, node);
        scan.weight.add_node(rootfs, tables, path, id);
        scan.inventory.add_node(path, node);
        scan.gpu_code.extend(GpuCodeObject::of_node(path, node));
        scan.around.add_node(case, path, node);
        let is_folder = matches!(node.kind, NodeKind::Directory(_));
        if !is_folder && is_package_list(path) {
            scan.package_lists.push(path.clone());
        }
        if scan.pythons.len() < PYTHONS && !is_folder && is_interpreter_name(path.name()) {
            scan.pythons.push(path.clone());
        }
    });
    scan.gpu_code.sort_by(|a, b| a.path.cmp(&b.path));
    scan
}
