//! All that is known of an image when it is asked about a library; nothing is judged here.

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
use crate::knowledge::{KnowledgeTables, LibraryProfile};
use container_start::Assumption;
use image_linkage::loader::RequestOutcome;
use image_linkage::path::RootPath;
use image_linkage::rootfs::ApplyProblem;
use image_source::Image;

/// Whether a process without search paths of its own can open CUPTI by its soname.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CuptiStatus {
    /// It can, with everything that the library needs.
    Loadable,
    /// A copy is there and the loader does not get to it, or refuses it.
    Unloadable,
    /// No file of the library is there: only its headers, or links that lead nowhere.
    HeadersOnly,
    /// Neither a copy nor a header is there.
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

/// Something that could not be checked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gap {
    /// What was not checked.
    pub what: String,
    /// The reason, in a fragment of a sentence.
    pub why: String,
}

/// All that is known of an image.
pub struct ImageFacts {
    /// The library that it was asked about.
    pub library: &'static LibraryProfile,
    /// What the facts were read by.
    pub tables: &'static KnowledgeTables,
    /// Its manifest, config and platform.
    pub image: Image,
    /// The digests and sizes of the layers as read.
    pub layers: Vec<LayerSize>,
    /// The loader's view, in each world.
    pub contexts: ByWorld<ProcessContext>,
    /// Whether CUPTI can be opened, in each world.
    pub status: ByWorld<CuptiStatus>,
    /// Why only a run could tell whether it can be opened in the image as it is.
    pub status_is_open: Option<String>,
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
    /// Objects that may open CUPTI by names that their bytes do not hold as a whole.
    pub undecided: Vec<UndecidedOpener>,
    /// Why the container's own command does not start.
    pub command_failure: Option<CommandFailure>,
    /// What the answers rest on and the image does not show.
    pub assumptions: Vec<Assumption>,
    /// Which APIs of CUPTI a process without search paths and each consumer can use, in this order.
    pub apis: Vec<CuptiProcess>,
    /// The files that may be dead weight, by path.
    pub dead_weight: Vec<DeadWeightFile>,
    /// What uses such files without a table of an object showing it.
    pub dead_weight_uses: Vec<DeadWeightUse>,
    /// The links that lead to such files, by file.
    pub dead_weight_links: BTreeMap<RootPath, Vec<RootPath>>,
    /// What leads to such files and so keeps them.
    pub references: Vec<FileReference>,
    /// What lies around CUPTI.
    pub related: RelatedSoftware,
    /// The files of packages that a layer takes away.
    pub removals: FileRemovals,
    /// The first of the layers that were not read: whatever is said without it may be otherwise.
    pub unread: Option<String>,
    /// What the host grants, where the image is a container that runs.
    pub host: Option<HostFacts>,
    /// What could not be checked.
    pub gaps: Vec<Gap>,
    /// Oddities of the layers, for `-v`: the layer, where and what.
    pub oddities: Vec<ApplyProblem>,
}

impl ImageFacts {
    /// Whether a plain dlopen, or a program that asks, gets CUPTI in the image as it is.
    pub fn provides_cupti(&self) -> bool {
        // A program with a search path of its own gets CUPTI where a plain dlopen does not.
        let gets = |consumer: &CuptiConsumer| consumer.outcome.as_is.outcome == RequestOutcome::Loaded;
        self.status.as_is == CuptiStatus::Loadable || self.consumers.iter().any(gets)
    }

    /// Whether a program that opens a file of this name is served by a copy with this soname: by the name without a number, the
    /// soname, or the file name of a release that has it.
    pub fn is_name_of(&self, name: &[u8], soname: &[u8]) -> bool {
        let meant = self.library.soname_by_name(&self.tables.releases, name);
        name == self.library.stem.as_bytes() || name == soname || meant.is_some_and(|meant| meant.as_bytes() == soname)
    }

    /// Whether only a run could tell what some process gets.
    pub fn is_open(&self) -> bool {
        self.status_is_open.is_some() || self.consumers.iter().any(|consumer| consumer.open.is_some())
    }

    /// Whether the container's own command ends in a program or interpreter.
    pub fn is_commands(&self, program: &RootPath) -> bool {
        self.contexts.as_is.entry.executable.as_ref() == Some(program)
    }

    /// Whether a consumer gets nothing because the container's own command does not start: it has no finding of its own.
    pub fn ends_with_command(&self, consumer: &CuptiConsumer) -> bool {
        self.command_failure
            .as_ref()
            .is_some_and(|failure| failure.ends(consumer))
    }

    /// Whether only a run could tell what the program of the container's own command opens.
    pub fn command_is_undecided(&self) -> bool {
        let mut openers = self.undecided.iter();
        openers.any(|opener| self.contexts.as_is.is_commands(&opener.object))
    }

    /// Whether a copy for everybody, a link to none, or a program that asks is in the image.
    pub fn concerns_cupti(&self) -> bool {
        self.own_copies().next().is_some() || !self.dangling.is_empty() || !self.consumers.is_empty()
    }

    /// The copies of CUPTI that are for everybody, not for one tool alone.
    pub fn own_copies(&self) -> impl Iterator<Item = &CuptiCopy> {
        self.copies.iter().filter(|copy| !copy.decoy)
    }
}

/// The sizes of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerSize {
    /// The bytes of the blob as stored.
    pub compressed: u64,
    /// The bytes of the tar that it holds.
    pub bytes: u64,
}
