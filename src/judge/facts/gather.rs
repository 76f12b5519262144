//! From the layers of an image to its facts: one walk through the merged file system, then the loader is asked.

use std::sync::Arc;

use super::consumers::{self, Circumstances, CuptiConsumer, LibraryUsers};
use super::cupti_files::{self, CuptiFiles};
use super::dead_weight::DeadWeightScan;
use super::file_references::{ObjectInventory, find_references};
use super::image_facts::{CuptiStatus, Gap, ImageFacts, LayerSize};
use super::plain_open::{PlainOpen, open_first};
use super::process_context::{self, GatherOptions, ProcessContext};
use super::process_variants::ProcessVariants;
use super::python::{PythonEnvironment, is_interpreter_name};
use super::related_software::RelatedSoftware;
use super::world::ByWorld;
use super::{companions, copies, cupti_access, expected_soname, library_aliases};
use crate::knowledge::{ConsumerProfile, Knowledge, KnowledgeTables};
use image_linkage::layer::{LayerIndex, ProblemKind};
use image_linkage::path::RootPath;
use image_linkage::rootfs::{ApplyProblem, NodeKind, Rootfs};
use image_source::Image;

/// The files and links that are called as a Python is and are looked at, at most.
const PYTHONS: usize = 1024;

/// The layers of an image, read.
pub struct ReadLayers {
    /// One index per layer of the image, or why it was not read.
    pub layers: Vec<Result<LayerIndex, Gap>>,
}

/// A file system of layers, and what was seen of them on the way.
pub struct MergedLayers {
    /// The layers on top of each other.
    pub rootfs: Arc<Rootfs>,
    /// The sizes of the layers.
    pub sizes: Vec<LayerSize>,
    /// What is odd about them.
    pub oddities: Vec<ApplyProblem>,
    /// The layers that were not read.
    pub gaps: Vec<Gap>,
}

/// Gathers the facts of an image from its layers, about the library that `knowledge` is to be asked about.
pub fn gather_facts(image: Image, layers: ReadLayers, knowledge: &Knowledge, conditions: &GatherOptions) -> ImageFacts {
    let sizes = layers.layers.iter().map(size_of).collect();
    let unread = layers.layers.iter().filter_map(|layer| layer.as_ref().err());
    let gaps: Vec<Gap> = unread.cloned().collect();
    let (rootfs, oddities) = merged(layers);
    let layers = MergedLayers {
        rootfs: Arc::new(rootfs),
        sizes,
        oddities,
        gaps,
    };
    gather_from_rootfs(image, layers, knowledge, conditions)
}

/// Gathers the facts of an image from its merged file system.
#[expect(
    clippy::too_many_lines,
    reason = "one step behind the other, each by those before it"
)]
pub fn gather_from_rootfs(
    image: Image,
    layers: MergedLayers,
    knowledge: &Knowledge,
    conditions: &GatherOptions,
) -> ImageFacts {
    let (library, tables) = (knowledge.library, knowledge.tables);
    let MergedLayers {
        rootfs,
        sizes,
        oddities,
        mut gaps,
    } = layers;
    let mut contexts = process_context::build_contexts(&image, &rootfs, tables, conditions);
    // The first that fits an object counts.
    let profiles = &knowledge.library_consumers();
    let RootfsScan {
        mut found,
        weight,
        inventory,
        around,
        pythons,
    } = walk(&rootfs, knowledge, profiles);
    found.aliases = library_aliases::find_library_aliases(library, &found, &inventory.links);
    let holders = library_aliases::alias_holders(&found.aliases, &found, &inventory.objects);
    found.askers.extend(holders);
    let settings = process_context::python_settings(&image, &contexts.as_is);
    let python = PythonEnvironment::read(&rootfs, &pythons, &settings, &around.distributions);
    contexts.as_is.python = Arc::new(python);
    contexts.nvidia.python = Arc::clone(&contexts.as_is.python);
    let weight = weight.finish(&image, tables);
    // After the walk: a library whose name has a number is asked for by the files that are there.
    let wanted = companions::companion_requests(&rootfs, knowledge.apis(), &weight.files);
    let variants = ProcessVariants::new(&contexts.as_is, &found);
    let circumstances = Circumstances {
        wanted: &wanted,
        variants: &variants,
        users: LibraryUsers::new(&inventory.objects),
    };
    let (consumers, undecided) = consumers::find_consumers(
        &contexts,
        &found,
        knowledge,
        profiles,
        &around.distributions,
        &circumstances,
    );
    let expected = expected_soname::expected_sonames(&image, &rootfs, knowledge, &found, &consumers);
    let plain = ByWorld::map(&contexts, |context| open_first(context, library, &expected));
    let is_loadable = |plain: &PlainOpen| plain.resolution.loads();
    let status_is_open = variants.difference(is_loadable(&plain.as_is), |context| {
        is_loadable(&open_first(context, library, &expected))
    });
    let status = ByWorld::map(&plain, |plain| status_of(plain, tables, &found));
    let copies = copies::describe_copies(knowledge, &contexts, &found, &plain, &consumers);
    let apis = cupti_access::find_cupti_access(&contexts, knowledge.apis(), &consumers, &copies, &plain, &wanted);
    let asking = (&*consumers, &*undecided);
    let (links, ties) = find_references(&image, &contexts, library, &weight.files, &inventory, asking, profiles);
    gaps.extend(gaps_of(&contexts, &plain, &consumers, &oddities));
    let mut open = consumers.iter().filter_map(|consumer| consumer.open.as_ref());
    gaps.extend(open.next().or(status_is_open.as_ref()).map(|why| Gap {
        what: format!("what processes get of {}", library.name),
        why: why.clone(),
    }));
    // Both worlds tell the same problem of the same file.
    gaps.sort();
    gaps.dedup();
    ImageFacts {
        library,
        tables,
        image,
        layers: sizes,
        contexts,
        status,
        status_is_open,
        plain,
        copies,
        dangling: found.dangling,
        headers: found.headers,
        consumers,
        undecided,
        apis,
        dead_weight: weight.files,
        dead_weight_uses: weight.uses,
        dead_weight_links: links,
        references: ties,
        related: around,
        gaps,
        oddities,
    }
}

fn size_of(layer: &Result<LayerIndex, Gap>) -> LayerSize {
    let read = layer.as_ref();
    LayerSize {
        compressed: read.map_or(0, |layer| layer.compressed_bytes),
        bytes: read.map_or(0, |layer| layer.bytes),
    }
}

/// The layers on top of each other, and what is odd about them.
///
/// The indexes are taken, so that they do not lie in memory beside the merged file system.
fn merged(layers: ReadLayers) -> (Rootfs, Vec<ApplyProblem>) {
    // A layer that was not read counts as empty, so that the numbers of the others stay those of the manifest.
    let indexes: Vec<LayerIndex> = layers
        .layers
        .into_iter()
        .map(|layer| layer.unwrap_or_else(|_| LayerIndex::empty()))
        .collect();
    let (rootfs, mut oddities) = image_linkage::rootfs::merge_layers(indexes.iter());
    for (number, layer) in indexes.iter().enumerate() {
        oddities.extend(layer.problems.iter().map(|problem| ApplyProblem {
            layer: number,
            path: problem.path.clone(),
            what: problem.what.clone(),
            kind: problem.kind,
        }));
    }
    (rootfs, oddities)
}

/// What one walk through the file system gathers.
#[derive(Default)]
struct RootfsScan {
    /// What bears on CUPTI.
    found: CuptiFiles,
    /// What may be dead weight.
    weight: DeadWeightScan,
    /// What may need such files.
    inventory: ObjectInventory,
    /// What lies around CUPTI.
    around: RelatedSoftware,
    /// The files and links that are called as a Python is.
    pythons: Vec<RootPath>,
}

/// Goes once through the file system.
fn walk(rootfs: &Rootfs, knowledge: &Knowledge, profiles: &[ConsumerProfile]) -> RootfsScan {
    let mut walked = RootfsScan::default();
    // One walk for all: an image can have millions of files.
    rootfs.visit(|path, _, node| {
        cupti_files::add_cupti_node(rootfs, knowledge.library, profiles, &mut walked.found, path, node);
        walked.weight.add_node(knowledge.tables, path, node);
        walked.inventory.add_node(path, node);
        walked.around.add_node(rootfs, knowledge, path, node);
        let is_folder = matches!(node.kind, NodeKind::Directory(_));
        if walked.pythons.len() < PYTHONS && !is_folder && is_interpreter_name(path.name()) {
            walked.pythons.push(path.clone());
        }
    });
    walked
}

fn status_of(plain: &PlainOpen, tables: &KnowledgeTables, found: &CuptiFiles) -> CuptiStatus {
    match () {
        () if plain.resolution.loads() => CuptiStatus::Loadable,
        // A tool's own copy is not the image's: with Nsight alone there is no CUPTI to load.
        () if found.own(tables).next().is_some() => CuptiStatus::Unloadable,
        // Neither a header nor a link is anything that a loader could map.
        () if !found.headers.is_empty() || !found.dangling.is_empty() => CuptiStatus::HeadersOnly,
        () => CuptiStatus::Absent,
    }
}

/// What keeps a verdict open: files the loader reads that were not kept, and objects around CUPTI whose tables
/// could not be read.
fn gaps_of(
    contexts: &ByWorld<ProcessContext>,
    plain: &ByWorld<PlainOpen>,
    consumers: &[CuptiConsumer],
    oddities: &[ApplyProblem],
) -> Vec<Gap> {
    let gap = |what: String, why: &str| Gap {
        what,
        why: why.to_owned(),
    };
    let mut gaps: Vec<Gap> = contexts
        .as_is
        .problems()
        .chain(contexts.nvidia.problems())
        .map(|problem| gap("the dynamic loader".to_owned(), &problem))
        .collect();
    let of_user = contexts.as_is.user.problem.iter();
    gaps.extend(of_user.map(|problem| gap("the user of the image".to_owned(), problem)));
    gaps.extend(
        oddities
            .iter()
            // Other oddities change no verdict; a file that the loader would read and that was not kept can.
            .filter(|problem| problem.kind == ProblemKind::Unread)
            .map(|problem| gap(problem.path.to_string(), &problem.what)),
    );
    let unread = |problem: &String| gap(problem.clone(), "what it needs is not known");
    gaps.extend(plain.as_is.resolution.unread.iter().map(unread));
    gaps.extend(
        consumers
            .iter()
            .flat_map(|consumer| &consumer.outcome.as_is.unread)
            .map(unread),
    );
    gaps
}
