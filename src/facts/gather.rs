//! Gathers the facts of an image from its layers: one walk through the merged file system, then the loader simulation.

pub(crate) mod answers;
pub(crate) mod gaps;
mod rootfs_scan;

use self::answers::Answers;
use self::gaps::find_gaps;
use self::rootfs_scan::{ScannedImage, scan_image};
use crate::facts::image_facts::ImageFacts;
use crate::facts::merged_layers::{MergedLayers, ReadLayers};
use crate::facts::objects::process_context::{GatherOptions, kernel_machine};
use crate::facts::software::cupti_files::ScanCase;
use crate::facts::weight::file_references::{ReferenceCase, WeightFacts};
use crate::knowledge::Knowledge;
use image_source::Image;

/// Gathers the facts of an image from its layers, for the library in `knowledge`.
pub fn gather_facts(image: Image, layers: ReadLayers, knowledge: &Knowledge, conditions: &GatherOptions) -> ImageFacts {
    gather_from_rootfs(image, MergedLayers::merge(layers), knowledge, conditions)
}

/// Gathers the facts of an image from its merged file system.
pub fn gather_from_rootfs(
    mut image: Image,
    layers: MergedLayers,
    knowledge: &Knowledge,
    conditions: &GatherOptions,
) -> ImageFacts {
    conditions.start.apply(&mut image.config);
    let profiles = &knowledge.consumers;
    let scan_case = ScanCase {
        rootfs: &layers.rootfs,
        knowledge,
        profiles,
        machine: kernel_machine(&image),
    };
    let scanned = scan_image(&image, &scan_case, conditions);
    let mut answers = Answers::ask(&image, &scanned, knowledge, profiles);
    let gaps = find_gaps(&scanned, knowledge.library, &answers, &layers);
    if let Some(why) = layers.why_uncertain() {
        answers.leave_open(&why);
    }
    let ScannedImage { scan, contexts, .. } = scanned;
    let reference_case = ReferenceCase {
        image: &image,
        contexts: &contexts,
        knowledge,
        profiles,
        inventory: &scan.inventory,
        consumers: &answers.consumers,
        undecided: &answers.undecided,
    };
    let weight = WeightFacts::find(&reference_case, scan.weight);
    ImageFacts {
        library: knowledge.library,
        tables: knowledge.tables,
        image,
        layers,
        contexts,
        answers,
        dangling: scan.found.dangling,
        headers: scan.found.headers,
        weight,
        gpu_code: scan.gpu_code,
        related: scan.around,
        host: None,
        gaps,
    }
}
