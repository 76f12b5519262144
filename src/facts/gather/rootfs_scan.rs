//! What is known of an image before any process is asked: one walk through its files, and how its processes start.

use std::sync::Arc;

use crate::facts::objects::process_context::{self, GatherOptions, ProcessContext};
use crate::facts::objects::world::ByWorld;
use crate::facts::software::companions::{self, CompanionRequest};
use crate::facts::software::cupti_files::{self, CuptiFiles};
use crate::facts::software::package_files::{find_incomplete, is_package_list};
use crate::facts::software::related_software::RelatedSoftware;
use crate::facts::software::requirements::{InstalledPythons, find_unmet};
use crate::facts::weight::dead_weight::DeadWeightScan;
use crate::facts::weight::file_references::ObjectInventory;
use crate::knowledge::{ConsumerProfile, Knowledge};
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, Rootfs};
use image_source::Image;
use python_path::{PythonEnvironment, is_interpreter_name};

/// The files and links that are called as a Python is and are looked at, at most.
const PYTHONS: usize = 1024;

/// What one walk through the file system gathers.
#[derive(Default)]
pub(super) struct RootfsScan {
    /// What bears on CUPTI.
    pub found: CuptiFiles,
    /// What may be dead weight.
    pub weight: DeadWeightScan,
    /// What may need such files.
    pub inventory: ObjectInventory,
    /// What lies around CUPTI.
    pub around: RelatedSoftware,
    /// The files and links that are called as a Python is.
    pythons: Vec<RootPath>,
    /// The lists of the files of packages.
    package_lists: Vec<RootPath>,
}

/// An image whose processes can be asked.
pub(super) struct ScannedImage {
    /// What its files say; the dead weight in order.
    pub scan: RootfsScan,
    /// What a process starts with, in both worlds.
    pub contexts: ByWorld<ProcessContext>,
    /// The libraries beside the library that are asked for as well.
    pub wanted: Vec<CompanionRequest>,
}

/// Reads what is known before any process is asked. The first of `profiles` that fits an object counts.
pub(super) fn scan_image(
    image: &Image,
    rootfs: &Arc<Rootfs>,
    knowledge: &Knowledge,
    profiles: &[ConsumerProfile],
    conditions: &GatherOptions,
) -> ScannedImage {
    let mut contexts = process_context::build_contexts(image, rootfs, knowledge.tables, conditions);
    let mut scan = walk(rootfs, knowledge, profiles);
    scan.found.aliases = cupti_files::find_library_aliases(knowledge.library, &scan.found, &scan.inventory.links);
    let holders = cupti_files::alias_holders(&scan.found.aliases, &scan.found, &scan.inventory.objects);
    scan.found.askers.extend(holders);
    let settings = process_context::python_settings(image, &contexts.as_is);
    let python = PythonEnvironment::read(rootfs, &scan.pythons, &settings, &scan.around.distributions);
    scan.around.unmet = find_unmet(
        &InstalledPythons {
            rootfs,
            python: &python,
            distributions: &scan.around.distributions,
            machine: process_context::kernel_machine(image),
        },
        knowledge,
        profiles,
    );
    contexts.as_is.python = Arc::new(python);
    contexts.nvidia.python = Arc::clone(&contexts.as_is.python);
    let around = &mut scan.around;
    around.incomplete = find_incomplete(
        rootfs,
        knowledge.tables,
        profiles,
        &scan.package_lists,
        &around.distributions,
    );
    scan.weight = scan.weight.finish(image, knowledge.tables);
    // After the walk: a library whose name has a number is asked for by the files that are there.
    let files: Vec<&RootPath> = scan.weight.files.iter().map(|file| &file.path).collect();
    let wanted = companions::companion_requests(rootfs, knowledge.apis(), &files);
    ScannedImage { scan, contexts, wanted }
}

/// Goes once through the file system.
fn walk(rootfs: &Rootfs, knowledge: &Knowledge, profiles: &[ConsumerProfile]) -> RootfsScan {
    let mut scan = RootfsScan::default();
    // One walk for all: an image can have millions of files.
    rootfs.visit(|path, _, node| {
        cupti_files::add_cupti_node(rootfs, knowledge.library, profiles, &mut scan.found, path, node);
        scan.weight.add_node(knowledge.tables, path, node);
        scan.inventory.add_node(path, node);
        scan.around.add_node(rootfs, knowledge, profiles, path, node);
        let is_folder = matches!(node.kind, NodeKind::Directory(_));
        if !is_folder && is_package_list(path) {
            scan.package_lists.push(path.clone());
        }
        if scan.pythons.len() < PYTHONS && !is_folder && is_interpreter_name(path.name()) {
            scan.pythons.push(path.clone());
        }
    });
    scan
}
