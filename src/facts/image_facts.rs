//! The facts about an image and a library, without any assessment.

use crate::facts::gather::answers::{Answers, CuptiStatus};
use crate::facts::merged_layers::{Gap, MergedLayers};
use crate::facts::objects::host_facts::HostFacts;
use crate::facts::objects::process_context::ProcessContext;
use crate::facts::objects::world::ByWorld;
use crate::facts::software::consumers::CuptiConsumer;
use crate::facts::software::copies::CuptiCopy;
use crate::facts::software::cupti_files::DanglingLink;
use crate::facts::software::related_software::RelatedSoftware;
use crate::facts::weight::file_references::WeightFacts;
use crate::facts::weight::gpu_code::GpuCodeObject;
use crate::facts::weight::weight_groups::{ImageWeight, OpenGpuCode, weigh_files};
use crate::knowledge::{KnowledgeTables, LibraryProfile};
use image_linkage::path::RootPath;
use image_source::Image;

/// The facts about an image.
pub struct ImageFacts {
    /// The library in question.
    pub library: &'static LibraryProfile,
    /// The tables used to read the facts.
    pub tables: &'static KnowledgeTables,
    /// The manifest, config and platform.
    pub image: Image,
    /// The merged layers.
    pub layers: MergedLayers,
    /// The initial state of processes, in each world.
    pub contexts: ByWorld<ProcessContext>,
    /// The results of all requests for CUPTI.
    pub answers: Answers,
    /// Dangling links with a name of libcupti.
    pub dangling: Vec<DanglingLink>,
    /// The CUPTI headers: the paths of `cupti.h`, with their layers.
    pub headers: Vec<(RootPath, usize)>,
    /// The files that may be dead weight, and what keeps them.
    pub weight: WeightFacts,
    /// The objects with code for GPUs, by path.
    pub gpu_code: Vec<GpuCodeObject>,
    /// Software around CUPTI.
    pub related: RelatedSoftware,
    /// The properties of the host, if the image is a running container.
    pub host: Option<HostFacts>,
    /// The parts that could not be checked.
    pub gaps: Vec<Gap>,
}

impl ImageFacts {
    /// Whether a plain dlopen or a consumer gets CUPTI in the image as it is.
    pub fn provides_cupti(&self) -> bool {
        // A program with its own search path may get CUPTI although a plain dlopen does not.
        let mut consumers = self.answers.consumers.iter();
        self.answers.status.as_is == CuptiStatus::Loadable
            || consumers.any(|consumer| consumer.outcome.as_is.answer.is_loaded())
    }

    /// Whether a copy with this soname satisfies a program that opens this file name. Accepted are the name without a
    /// number, the soname, and the file name of a release with the soname.
    pub fn is_name_of(&self, name: &[u8], soname: &[u8]) -> bool {
        let meant = self.library.soname_by_name(&self.tables.releases, name);
        name == self.library.stem.as_bytes() || name == soname || meant.is_some_and(|meant| meant.as_bytes() == soname)
    }

    /// Whether the result of some process cannot be determined statically.
    pub fn is_open(&self) -> bool {
        self.answers.status_is_open.is_some() || self.answers.consumers.iter().any(|consumer| consumer.open.is_some())
    }

    /// Whether the container's own command executes this program or interpreter.
    pub fn is_commands(&self, program: &RootPath) -> bool {
        self.contexts.as_is.entry.executable.as_ref() == Some(program)
    }

    /// The consumers, and the known programs that request nothing.
    pub fn programs(&self) -> impl Iterator<Item = &CuptiConsumer> {
        self.answers.consumers.iter().chain(&self.answers.silent_programs)
    }

    /// The programs that the library is part of.
    pub fn programs_with_library(&self) -> impl Iterator<Item = &CuptiConsumer> {
        self.answers.silent_programs.iter().filter(|program| {
            let mut builds = self.related.builds.iter();
            builds.any(|build| build.has_library && build.object == program.object)
        })
    }

    /// Whether a consumer gets nothing because the container's own command does not start; it then has no finding of
    /// its own.
    pub fn ends_with_command(&self, consumer: &CuptiConsumer) -> bool {
        self.answers
            .command_failure
            .as_ref()
            .is_some_and(|failure| failure.ends(consumer))
    }

    /// Whether the libraries of the command's own program cannot be determined statically.
    pub fn command_is_undecided(&self) -> bool {
        let mut openers = self.answers.undecided.iter();
        openers.any(|opener| self.contexts.as_is.is_commands(&opener.object))
    }

    /// Whether the image contains a copy for general use, a dangling link, or a consumer.
    pub fn concerns_cupti(&self) -> bool {
        self.own_copies().next().is_some() || !self.dangling.is_empty() || !self.answers.consumers.is_empty()
    }

    /// The bytes of its files by group. It walks through all files, so only the reports that show it ask for it.
    pub fn weigh(&self) -> ImageWeight {
        let open = OpenGpuCode::of_image(&self.image, self.tables);
        weigh_files(&self.contexts.as_is.rootfs, self.tables, open, &self.weight.uses)
    }

    /// The copies of CUPTI for general use, without the private copies of tools.
    pub fn own_copies(&self) -> impl Iterator<Item = &CuptiCopy> {
        self.answers.copies.iter().filter(|copy| !copy.private)
    }
}
