//! The facts about an image and a library, without any assessment.

use std::collections::BTreeMap;

use crate::facts::objects::host_facts::HostFacts;
use crate::facts::objects::plain_open::PlainOpen;
use crate::facts::objects::process_context::ProcessContext;
use crate::facts::objects::world::ByWorld;
use crate::facts::software::command_start::CommandFailure;
use crate::facts::software::consumers::CuptiConsumer;
use crate::facts::software::copies::CuptiCopy;
use crate::facts::software::cupti_access::CuptiProcess;
use crate::facts::software::cupti_files::DanglingLink;
use crate::facts::software::file_removals::FileRemovals;
use crate::facts::software::opened_names::UndecidedOpener;
use crate::facts::software::related_software::RelatedSoftware;
use crate::facts::weight::dead_weight::{DeadWeightFile, DeadWeightUse};
use crate::facts::weight::file_references::FileReference;
use crate::facts::weight::gpu_code::GpuCodeObject;
use crate::facts::weight::weight_groups::{ImageWeight, OpenGpuCode, weigh_files};
use crate::knowledge::{KnowledgeTables, LibraryProfile};
use container_start::Assumption;
use image_linkage::loader::RequestOutcome;
use image_linkage::path::RootPath;
use image_linkage::rootfs::ApplyProblem;
use image_source::Image;

/// Whether a process without its own search paths can open CUPTI by its soname.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CuptiStatus {
    /// It can, with all dependencies.
    Loadable,
    /// A copy exists, but the loader does not find or accept it.
    Unloadable,
    /// The library is missing; only headers or dangling links exist.
    HeadersOnly,
    /// Neither a copy nor a header exists.
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

/// A part that could not be checked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gap {
    /// The unchecked part.
    pub what: String,
    /// The reason, as part of a sentence.
    pub why: String,
}

/// The facts about an image.
pub struct ImageFacts {
    /// The library in question.
    pub library: &'static LibraryProfile,
    /// The tables used to read the facts.
    pub tables: &'static KnowledgeTables,
    /// The manifest, config and platform.
    pub image: Image,
    /// The sizes of the layers.
    pub layers: Vec<LayerSize>,
    /// The initial state of processes, in each world.
    pub contexts: ByWorld<ProcessContext>,
    /// Whether CUPTI can be opened, in each world.
    pub status: ByWorld<CuptiStatus>,
    /// Why the status in the image as it is cannot be determined statically.
    pub status_is_open: Option<String>,
    /// The result of a plain dlopen of the soname in each world. It is for the first soname that opens, else for the
    /// expected one.
    pub plain: ByWorld<PlainOpen>,
    /// The copies of libcupti.
    pub copies: Vec<CuptiCopy>,
    /// Dangling links with a name of libcupti.
    pub dangling: Vec<DanglingLink>,
    /// The CUPTI headers: the paths of `cupti.h`, with their layers.
    pub headers: Vec<(RootPath, usize)>,
    /// The consumers of CUPTI.
    pub consumers: Vec<CuptiConsumer>,
    /// Known programs that request nothing, because CUPTI is part of them or was left out.
    pub silent_programs: Vec<CuptiConsumer>,
    /// Objects that may open CUPTI under names that are not whole in their bytes.
    pub undecided: Vec<UndecidedOpener>,
    /// Why the container's own command does not start.
    pub command_failure: Option<CommandFailure>,
    /// The assumptions behind the results that the image does not show.
    pub assumptions: Vec<Assumption>,
    /// The CUPTI APIs usable in a process without search paths, then in each consumer.
    pub apis: Vec<CuptiProcess>,
    /// The files that may be dead weight, by path.
    pub dead_weight: Vec<DeadWeightFile>,
    /// The uses of such files that are not visible in an object's ELF data.
    pub dead_weight_uses: Vec<DeadWeightUse>,
    /// The links to such files, by file.
    pub dead_weight_links: BTreeMap<RootPath, Vec<RootPath>>,
    /// The references that keep such files.
    pub references: Vec<FileReference>,
    /// The objects with code for GPUs, by path.
    pub gpu_code: Vec<GpuCodeObject>,
    /// Software around CUPTI.
    pub related: RelatedSoftware,
    /// The files of packages that a layer removes.
    pub removals: FileRemovals,
    /// The first unread layer, or a path that this host does not show; all results are uncertain because of it.
    pub unread: Option<String>,
    /// The properties of the host, if the image is a running container.
    pub host: Option<HostFacts>,
    /// The parts that could not be checked.
    pub gaps: Vec<Gap>,
    /// The problems found in the layers, for `-v`.
    pub oddities: Vec<ApplyProblem>,
}

impl ImageFacts {
    /// Whether a plain dlopen or a consumer gets CUPTI in the image as it is.
    pub fn provides_cupti(&self) -> bool {
        // A program with its own search path may get CUPTI although a plain dlopen does not.
        let gets = |consumer: &CuptiConsumer| consumer.outcome.as_is.outcome == RequestOutcome::Loaded;
        self.status.as_is == CuptiStatus::Loadable || self.consumers.iter().any(gets)
    }

    /// Whether a copy with this soname satisfies a program that opens this file name. Accepted are the name without a
    /// number, the soname, and the file name of a release with the soname.
    pub fn is_name_of(&self, name: &[u8], soname: &[u8]) -> bool {
        let meant = self.library.soname_by_name(&self.tables.releases, name);
        name == self.library.stem.as_bytes() || name == soname || meant.is_some_and(|meant| meant.as_bytes() == soname)
    }

    /// Whether the result of some process cannot be determined statically.
    pub fn is_open(&self) -> bool {
        self.status_is_open.is_some() || self.consumers.iter().any(|consumer| consumer.open.is_some())
    }

    /// Whether the container's own command executes this program or interpreter.
    pub fn is_commands(&self, program: &RootPath) -> bool {
        self.contexts.as_is.entry.executable.as_ref() == Some(program)
    }

    /// The consumers, and the known programs that request nothing.
    pub fn programs(&self) -> impl Iterator<Item = &CuptiConsumer> {
        self.consumers.iter().chain(&self.silent_programs)
    }

    /// The programs that the library is part of.
    pub fn programs_with_library(&self) -> impl Iterator<Item = &CuptiConsumer> {
        let has_library = |program: &&CuptiConsumer| {
            let mut builds = self.related.builds.iter();
            builds.any(|build| build.has_library && build.object == program.object)
        };
        self.silent_programs.iter().filter(has_library)
    }

    /// Whether a consumer gets nothing because the container's own command does not start; it then has no finding of
    /// its own.
    pub fn ends_with_command(&self, consumer: &CuptiConsumer) -> bool {
        self.command_failure
            .as_ref()
            .is_some_and(|failure| failure.ends(consumer))
    }

    /// Whether the libraries of the command's own program cannot be determined statically.
    pub fn command_is_undecided(&self) -> bool {
        let mut openers = self.undecided.iter();
        openers.any(|opener| self.contexts.as_is.is_commands(&opener.object))
    }

    /// Whether the image contains a copy for general use, a dangling link, or a consumer.
    pub fn concerns_cupti(&self) -> bool {
        self.own_copies().next().is_some() || !self.dangling.is_empty() || !self.consumers.is_empty()
    }

    /// The bytes of its files by group. It walks through all files, so only the reports that show it ask for it.
    pub fn weigh(&self) -> ImageWeight {
        let open = OpenGpuCode::of_image(&self.image, self.tables);
        weigh_files(&self.contexts.as_is.rootfs, self.tables, open, &self.dead_weight_uses)
    }

    /// The copies of CUPTI for general use, without the private copies of tools.
    pub fn own_copies(&self) -> impl Iterator<Item = &CuptiCopy> {
        self.copies.iter().filter(|copy| !copy.private)
    }
}

/// The sizes of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerSize {
    /// The size of the stored blob, in bytes.
    pub compressed: u64,
    /// The size of its uncompressed tar, in bytes.
    pub bytes: u64,
}
