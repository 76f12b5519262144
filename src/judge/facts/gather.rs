//! From the layers of an image to its facts: one walk through the merged file system, then the loader is asked.

use std::sync::Arc;

use super::{
    ByWorld, CuptiConsumer, CuptiStatus, Gap, ImageFacts, LayerSize, PlainOpen, ProcessContext,
    RelatedSoftware, companions, consumers, copies, cupti_access, cupti_files, dead_weight,
    expected_soname, file_references, process_context,
};
use crate::knowledge::{ConsumerProfile, Knowledge, KnowledgeTables, LibraryProfile};
use image_linkage::elf::ByteString;
use image_linkage::layer::{LayerIndex, ProblemKind};
use image_linkage::loader::CpuLevel;
use image_linkage::rootfs::{ApplyProblem, Rootfs};
use image_source::Image;

/// The layers of an image, read.
pub struct ReadLayers {
    /// One index per layer of the image, or why it was not read.
    pub layers: Vec<Result<LayerIndex, Gap>>,
}

/// How the loader is to be set up, beyond what the image says.
#[derive(Debug, Clone)]
pub struct GatherOptions {
    /// `KEY=VALUE` over the environment of the image config.
    pub environment: Vec<(String, String)>,
    /// The processor's level.
    pub cpu: CpuLevel,
}

/// Gathers the facts of an image from its layers, about the library that `knowledge` is to be asked about.
pub fn gather_facts(
    image: Image,
    layers: ReadLayers,
    knowledge: &Knowledge,
    conditions: &GatherOptions,
) -> ImageFacts {
    let (library, tables) = (knowledge.library, knowledge.tables);
    let mut gaps: Vec<Gap> = layers
        .layers
        .iter()
        .filter_map(|layer| layer.as_ref().err().cloned())
        .collect();
    let empty = LayerIndex::empty();
    let sizes = layers.layers.iter().map(size_of).collect();
    let indexes: Vec<&LayerIndex> = layers
        .layers
        .iter()
        .map(|layer| layer.as_ref().unwrap_or(&empty))
        .collect();
    let (rootfs, oddities) = merged(&indexes);
    drop(layers);
    let rootfs = Arc::new(rootfs);
    let grounds = process_context::build_contexts(&image, &rootfs, tables, conditions);
    // The first that fits an object counts.
    let profiles = knowledge.library_consumers();
    let profiles = profiles.as_slice();
    let RootfsScan {
        found,
        weight,
        inventory,
        around,
    } = walk(&rootfs, knowledge, profiles);
    let weight = weight.finish(&image, tables);
    let wanted = companions::companion_requests(&rootfs, knowledge.apis(), &weight.files);
    let consumers = consumers::find_consumers(&grounds, &found, knowledge, profiles, &wanted);
    let expected =
        expected_soname::expected_sonames(&image, &rootfs, knowledge, &found, &consumers);
    let plain = ByWorld::map(&grounds, |ground| plain_open(ground, library, &expected));
    let status = ByWorld {
        as_is: status_of(&plain.as_is, tables, &found),
        nvidia: status_of(&plain.nvidia, tables, &found),
    };
    let copies = copies::describe_copies(knowledge, &grounds, &found, &plain, &consumers);
    let apis =
        cupti_access::find_cupti_access(&grounds, knowledge.apis(), &consumers, &plain, &wanted);
    let files = &weight.files;
    let (links, ties) = file_references::find_references(
        &image, &grounds, library, files, &inventory, &consumers, profiles,
    );
    gaps.extend(gaps_of(&grounds, &plain, &consumers, &oddities));
    gaps.sort();
    gaps.dedup();
    ImageFacts {
        library,
        tables,
        image,
        layers: sizes,
        grounds,
        status,
        plain,
        copies,
        dangling: found.dangling,
        headers: found.headers,
        consumers,
        apis,
        baggage: weight.files,
        baggage_uses: weight.uses,
        baggage_links: links,
        ties,
        around,
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
fn merged(indexes: &[&LayerIndex]) -> (Rootfs, Vec<ApplyProblem>) {
    let (rootfs, mut oddities) = image_linkage::rootfs::merge_layers(indexes.iter().copied());
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
    found: cupti_files::CuptiFiles,
    /// What may be dead weight.
    weight: dead_weight::DeadWeightScan,
    /// What may need such files.
    inventory: file_references::ObjectInventory,
    /// What lies around CUPTI.
    around: RelatedSoftware,
}

/// Goes once through the file system.
fn walk(rootfs: &Rootfs, knowledge: &Knowledge, profiles: &[ConsumerProfile]) -> RootfsScan {
    let mut walked = RootfsScan::default();
    rootfs.visit(|path, _, node| {
        cupti_files::add_cupti_node(
            rootfs,
            knowledge.library,
            profiles,
            &mut walked.found,
            path,
            node,
        );
        walked.weight.add_node(knowledge.tables, path, node);
        walked.inventory.add_node(path, node);
        walked.around.add_node(rootfs, knowledge, path, node);
    });
    walked
}

/// Opens the sonames one after the other, as a process without search paths would; the first that opens
/// counts, else the first that is expected.
fn plain_open(
    ground: &ProcessContext,
    library: &LibraryProfile,
    sonames: &[ByteString],
) -> PlainOpen {
    let open = |name: &ByteString| PlainOpen {
        name: name.clone(),
        resolution: ground.open_plain(name),
    };
    let mut opened = sonames.iter().map(open);
    let first = opened
        .next()
        .unwrap_or_else(|| open(&library.stem.as_bytes().into()));
    if first.resolution.loads() {
        return first;
    }
    opened
        .find(|plain| plain.resolution.loads())
        .unwrap_or(first)
}

fn status_of(
    plain: &PlainOpen,
    tables: &KnowledgeTables,
    found: &cupti_files::CuptiFiles,
) -> CuptiStatus {
    match () {
        () if plain.resolution.loads() => CuptiStatus::Loadable,
        () if found.own(tables).next().is_some() || !found.dangling.is_empty() => {
            CuptiStatus::Unloadable
        }
        () if !found.headers.is_empty() => CuptiStatus::HeadersOnly,
        () => CuptiStatus::Absent,
    }
}

/// What keeps a verdict open: files the loader reads that were not kept, and objects around CUPTI whose tables
/// could not be read.
fn gaps_of(
    grounds: &ByWorld<ProcessContext>,
    plain: &ByWorld<PlainOpen>,
    consumers: &[CuptiConsumer],
    oddities: &[ApplyProblem],
) -> Vec<Gap> {
    let gap = |what: String, why: &str| Gap {
        what,
        why: why.to_owned(),
    };
    let mut gaps: Vec<Gap> = grounds
        .as_is
        .problems()
        .chain(grounds.nvidia.problems())
        .map(|problem| gap("the dynamic loader".to_owned(), &problem))
        .collect();
    gaps.extend(
        oddities
            .iter()
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
