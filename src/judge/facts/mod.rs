//! What the image says of CUPTI: copies, headers, who asks for it, and what each gets.
//!
//! Everything is computed from the merged file system and the loader; nothing is judged here.

mod consumers;
mod copies;
pub mod cuda_runtime;
mod cupti_access;
mod dead_weight;
mod expected_soname;
mod file_owner;
mod file_references;
pub mod installed_tools;
pub mod ld_cache;
pub mod misnamed_libraries;
mod missing_symbols;
mod process_context;
pub mod python_distributions;
mod related_software;
pub mod release_mismatch;
pub mod search_path;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use consumers::{ConsumerOutcome, ConsumerProfile, CuptiConsumer, FailureImpact, RequestKind};
pub use copies::{CuptiCopy, DanglingLink, VersionSource};
pub use cupti_access::{ApiAvailability, CompanionLookup, CuptiAccess, CuptiProcess};
pub use dead_weight::{DeadWeightFile, DeadWeightUse};
pub use file_owner::{FileOwner, OwnerKind};
pub use file_references::{FileReference, FileReferrer, ReferenceKind, retained_files};
pub use process_context::ProcessContext;
pub use related_software::RelatedSoftware;

use crate::knowledge::{Knowledge, KnowledgeTables, LibraryProfile};
use image_linkage::elf::ByteString;
use image_linkage::layer::{LayerIndex, ProblemKind};
pub use image_linkage::loader::RequestOutcome;
use image_linkage::loader::{
    CpuLevel, LoadResolution, LoadedObject, LoaderEnvironment, UnresolvedRequest, World,
};
use image_linkage::path::RootPath;
use image_linkage::rootfs::{ApplyProblem, Rootfs};
use image_source::Image;

/// Whether a process without search paths of its own can open CUPTI by its soname.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CuptiStatus {
    /// It can.
    Loadable,
    /// A copy, or a link to none, is there and the loader does not get to it, or refuses it.
    Unloadable,
    /// The headers are there, the library is not.
    HeadersOnly,
    /// Nothing is there.
    Absent,
}

impl CuptiStatus {
    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loadable => "loadable",
            Self::Unloadable => "unloadable",
            Self::HeadersOnly => "headers-only",
            Self::Absent => "absent",
        }
    }
}

/// A value for each world.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ByWorld<T> {
    /// The image as it is.
    pub as_is: T,
    /// Under the NVIDIA container runtime.
    pub nvidia: T,
}

impl<T> ByWorld<T> {
    /// The value of one world.
    pub fn get(&self, world: World) -> &T {
        match world {
            World::AsIs => &self.as_is,
            World::Nvidia => &self.nvidia,
        }
    }

    /// Computes the value in both worlds.
    pub fn map<'g>(
        grounds: &'g ByWorld<ProcessContext>,
        compute: impl Fn(&'g ProcessContext) -> T,
    ) -> Self {
        Self {
            as_is: compute(&grounds.as_is),
            nvidia: compute(&grounds.nvidia),
        }
    }
}

/// What a plain dlopen of one name gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainOpen {
    /// The name.
    pub name: ByteString,
    /// What the loader does.
    pub resolution: LoadResolution,
}

/// Something that could not be checked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gap {
    /// What was not checked.
    pub what: String,
    /// Why not.
    pub why: String,
}

/// All that is known of an image.
pub struct ImageFacts {
    /// The library that it was asked about.
    pub library: &'static LibraryProfile,
    /// What the facts were read by.
    pub tables: &'static KnowledgeTables,
    /// The image.
    pub image: Image,
    /// The digests and sizes of the layers as read.
    pub layers: Vec<LayerSize>,
    /// The loader's view, in each world.
    pub grounds: ByWorld<ProcessContext>,
    /// Whether CUPTI can be opened, in each world.
    pub status: ByWorld<CuptiStatus>,
    /// What a plain dlopen of the soname gets, in each world: of the first soname that can be opened, else
    /// of the one that is expected.
    pub plain: ByWorld<PlainOpen>,
    /// The copies of libcupti.
    pub copies: Vec<CuptiCopy>,
    /// Links named as libcupti that lead nowhere.
    pub dangling: Vec<DanglingLink>,
    /// The CUPTI headers: the places of `cupti.h`.
    pub headers: Vec<(RootPath, usize)>,
    /// Who asks for CUPTI.
    pub consumers: Vec<CuptiConsumer>,
    /// Which APIs of CUPTI a process without search paths and each consumer can use, in this order.
    pub apis: Vec<CuptiProcess>,
    /// The files that may be dead weight, by path.
    pub baggage: Vec<DeadWeightFile>,
    /// What uses such files without a table of an object showing it.
    pub baggage_uses: Vec<DeadWeightUse>,
    /// The links that lead to such files, by file.
    pub baggage_links: BTreeMap<RootPath, Vec<RootPath>>,
    /// What leads to such files and so keeps them.
    pub ties: Vec<FileReference>,
    /// What lies around CUPTI.
    pub around: RelatedSoftware,
    /// What could not be checked.
    pub gaps: Vec<Gap>,
    /// Oddities of the layers, for `-v`: the layer, where and what.
    pub oddities: Vec<ApplyProblem>,
}

impl ImageFacts {
    /// Whether a plain dlopen, or a program that asks, gets CUPTI in the image as it is.
    pub fn provides_cupti(&self) -> bool {
        let gets =
            |consumer: &CuptiConsumer| consumer.outcome.as_is.outcome == RequestOutcome::Loaded;
        self.status.as_is == CuptiStatus::Loadable || self.consumers.iter().any(gets)
    }

    /// Whether a copy for everybody, a link to none, or a program that asks is in the image.
    pub fn concerns_cupti(&self) -> bool {
        self.own_copies().next().is_some()
            || !self.dangling.is_empty()
            || !self.consumers.is_empty()
    }

    /// The copies of CUPTI that are for everybody, not for one tool alone.
    pub fn own_copies(&self) -> impl Iterator<Item = &CuptiCopy> {
        self.copies.iter().filter(|copy| !copy.decoy)
    }
}

/// The sizes of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerSize {
    /// As stored.
    pub compressed: u64,
    /// Uncompressed.
    pub bytes: u64,
}

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
    let wanted = cupti_access::companion_requests(&rootfs, knowledge.apis(), &weight.files);
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
    found: copies::CuptiFiles,
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
        copies::add_cupti_node(
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
    found: &copies::CuptiFiles,
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

/// The environment of the image config with what was asked for over it, as the loader sees it.
pub(crate) fn process_environment(image: &Image, conditions: &GatherOptions) -> LoaderEnvironment {
    let value = |key: &str| {
        let over = conditions
            .environment
            .iter()
            .rev()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.as_str());
        over.or_else(|| image.config.env(key))
            .map(|value| ByteString::from(value.as_bytes()))
    };
    LoaderEnvironment {
        library_path: value("LD_LIBRARY_PATH"),
        preload: value("LD_PRELOAD"),
        working_dir: image
            .config
            .working_dir
            .as_deref()
            .unwrap_or("/")
            .as_bytes()
            .into(),
    }
}

/// What did not resolve, but for the driver's libraries.
pub fn unresolved_objects(resolution: &LoadResolution) -> impl Iterator<Item = &UnresolvedRequest> {
    resolution
        .unresolved
        .iter()
        .filter(|missing| missing.outcome != RequestOutcome::ProvidedAtRuntime)
}

/// The object that was opened.
pub fn opened_object(resolution: &LoadResolution) -> Option<&LoadedObject> {
    resolution.objects.get(resolution.root?)
}
