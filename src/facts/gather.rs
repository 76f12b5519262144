//! Gathers the facts of an image from its layers: one walk through the merged file system, then the loader simulation.

use std::sync::Arc;

mod asked_processes;
pub(crate) mod gaps;
mod rootfs_scan;

use self::asked_processes::{AskedProcesses, ask_processes};
use self::gaps::{find_gaps, flood_gaps};
use self::rootfs_scan::{ScannedImage, scan_image};
use crate::facts::image_facts::{Gap, ImageFacts, LayerSize};
use crate::facts::objects::process_context::GatherOptions;
use crate::facts::software::file_removals::{FileRemovals, find_removals};
use crate::facts::weight::file_references::{find_references, find_word_uses};
use crate::knowledge::Knowledge;
use image_linkage::layer::{LayerIndex, ProblemKind};
use image_linkage::rootfs::{ApplyProblem, Rootfs};
use image_source::Image;

/// The layers of an image after reading.
pub struct ReadLayers {
    /// One index per layer, or the reason why the layer was not read.
    pub layers: Vec<Result<LayerIndex, Gap>>,
}

/// The merged file system, with facts about the layers.
pub struct MergedLayers {
    /// The merged file system.
    pub rootfs: Arc<Rootfs>,
    /// The sizes of the layers.
    pub sizes: Vec<LayerSize>,
    /// The problems found in them.
    pub oddities: Vec<ApplyProblem>,
    /// The files of packages that a layer removes.
    pub removals: FileRemovals,
    /// The first unread layer, or a path that this host does not show.
    pub unread: Option<String>,
    /// Other parts that were not checked.
    pub gaps: Vec<Gap>,
}

/// Gathers the facts of an image from its layers, for the library in `knowledge`.
pub fn gather_facts(image: Image, layers: ReadLayers, knowledge: &Knowledge, conditions: &GatherOptions) -> ImageFacts {
    let sizes = layers.layers.iter().map(size_of).collect();
    let unread = layers.layers.iter().filter_map(|layer| layer.as_ref().err());
    let gaps: Vec<Gap> = unread.cloned().collect();
    let known: Vec<Option<&LayerIndex>> = layers.layers.iter().map(|layer| layer.as_ref().ok()).collect();
    let removals = find_removals(&known);
    let (rootfs, oddities) = merged(layers);
    let unread = gaps.first().map(|gap| gap.what.clone());
    let hidden = oddities.iter().find(|oddity| oddity.kind == ProblemKind::Hidden);
    let layers = MergedLayers {
        rootfs: Arc::new(rootfs),
        sizes,
        unread: unread.or_else(|| hidden.map(|oddity| oddity.path.to_string())),
        oddities,
        removals,
        gaps,
    };
    gather_from_rootfs(image, layers, knowledge, conditions)
}

/// Gathers the facts of an image from its merged file system.
pub fn gather_from_rootfs(
    mut image: Image,
    layers: MergedLayers,
    knowledge: &Knowledge,
    conditions: &GatherOptions,
) -> ImageFacts {
    conditions.start.apply(&mut image.config);
    let MergedLayers {
        rootfs,
        sizes,
        oddities,
        removals,
        unread,
        mut gaps,
    } = layers;
    let profiles = &knowledge.library_consumers();
    let scanned = scan_image(&image, &rootfs, knowledge, profiles, conditions);
    let mut asked = ask_processes(&image, &rootfs, &scanned, knowledge, profiles);
    gaps.extend(find_gaps(&scanned.contexts, knowledge.library, &asked, &oddities));
    gaps.extend(flood_gaps(&scanned.scan, knowledge.library));
    // Both worlds report the same problem of the same file.
    gaps.sort();
    gaps.dedup();
    if let Some(layer) = &unread {
        asked.leave_open(&format!("{layer} was not read, and it may change everything"));
    }
    if let Some(layer) = oddities.iter().find(|oddity| oddity.kind == ProblemKind::Refused) {
        asked.leave_open(&format!("no engine unpacks layer {}", layer.layer + 1));
    }
    let layers = MergedLayers {
        rootfs,
        sizes,
        oddities,
        removals,
        unread,
        gaps,
    };
    join_facts(image, layers, scanned, asked, knowledge)
}

/// Combines all facts, and adds the references to dead weight.
fn join_facts(
    image: Image,
    layers: MergedLayers,
    scanned: ScannedImage,
    asked: AskedProcesses,
    knowledge: &Knowledge,
) -> ImageFacts {
    let ScannedImage { scan, contexts, .. } = scanned;
    let asking = (&*asked.consumers, &*asked.undecided);
    let profiles = &knowledge.library_consumers();
    let files = &scan.weight.files;
    let (dead_weight_links, references) =
        find_references(&image, &contexts, knowledge, files, &scan.inventory, asking, profiles);
    let mut uses = scan.weight.uses;
    uses.extend(find_word_uses(&image, knowledge.tables, files, &scan.inventory));
    uses.sort();
    ImageFacts {
        library: knowledge.library,
        tables: knowledge.tables,
        image,
        layers: layers.sizes,
        contexts,
        status: asked.status,
        status_is_open: asked.status_is_open,
        plain: asked.plain,
        copies: asked.copies,
        dangling: scan.found.dangling,
        headers: scan.found.headers,
        consumers: asked.consumers,
        silent_programs: asked.silent_programs,
        undecided: asked.undecided,
        command_failure: asked.command_failure,
        assumptions: asked.assumptions,
        apis: asked.apis,
        dead_weight: scan.weight.files,
        dead_weight_uses: uses,
        dead_weight_links,
        references,
        gpu_code: scan.gpu_code,
        related: scan.around,
        removals: layers.removals,
        unread: layers.unread,
        host: None,
        gaps: layers.gaps,
        oddities: layers.oddities,
    }
}

fn size_of(layer: &Result<LayerIndex, Gap>) -> LayerSize {
    let read = layer.as_ref();
    LayerSize {
        compressed: read.map_or(0, |layer| layer.compressed_bytes),
        bytes: read.map_or(0, |layer| layer.bytes),
    }
}

/// Merges the layers, and collects their problems.
///
/// Consumes the indexes, so that they do not stay in memory beside the merged file system.
fn merged(layers: ReadLayers) -> (Rootfs, Vec<ApplyProblem>) {
    // An unread layer counts as empty, so that the other layers keep their index in the manifest.
    let indexes = layers
        .layers
        .into_iter()
        .map(|layer| layer.unwrap_or_else(|_| LayerIndex::empty()));
    let mut of_layers = Vec::new();
    let indexes = indexes.enumerate().map(|(number, layer)| {
        of_layers.extend(layer.problems.iter().map(|problem| ApplyProblem {
            layer: number,
            path: problem.path.clone(),
            what: problem.what.clone(),
            kind: problem.kind,
        }));
        layer
    });
    let (rootfs, mut oddities) = image_linkage::rootfs::merge_layers(indexes);
    oddities.extend(of_layers);
    (rootfs, oddities)
}
