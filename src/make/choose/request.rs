//! What is asked of a patch, and the context that every method needs: image, phase, release and search path.

use super::copy_source::CopySource;
use super::image_system::{ImageSystem, read_image_system};
use super::required_libraries::{self, RequiredLibrary};
use super::search_path::{InstallFolder, choose_install_folder, volume_over};
use super::target::require_linker;
use super::target_release::{TargetRelease, choose_release};
use super::{Obstacle, PatchError};
use crate::facts::software::cuda_runtime::CudaVersion;
use crate::facts::{GatherOptions, ImageFacts};
use crate::judge::plan::{Plan, PlanItem, unneeded_files};
use crate::judge::rule::RuleCure;
use crate::knowledge::{Knowledge, LibraryRelease, Phase, has_api};
use crate::make::patch::BroughtRelease;
use image_linkage::loader::DynamicLoader;
use image_linkage::path::RootPath;

/// The release whose files are listed if the image's release is unknown.
const UNKNOWN_CUDA: CudaVersion = (12, 0);

/// What is asked of a patch.
#[derive(Clone, Copy)]
pub(crate) struct PatchRequest<'a> {
    pub target: &'a ImageFacts,
    pub phase: &'a Phase,
    /// The plan of the unchanged image.
    pub plan: &'a Plan,
    /// The knowledge, with the cure of each rule.
    pub knowledge: &'a Knowledge,
    /// The start conditions of the image's processes.
    pub conditions: &'a GatherOptions,
    pub form: PatchForm,
    /// The requested methods in order of preference; empty for the cheapest of all.
    pub via: &'a [MethodKind],
    /// The requested CUDA version.
    pub cuda: Option<CudaVersion>,
    /// The image to copy from, if the user named one.
    pub source: Option<CopySource<'a>>,
    pub drops: DropChoice,
    /// Whether the build adds a program that links the library and has no search path of its own.
    pub adds_linked_program: bool,
}

/// A method that the user can request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MethodKind {
    /// Debian packages: the distribution's own, or NVIDIA's.
    Apt,
    /// RPM packages from NVIDIA.
    Dnf,
    /// NVIDIA's wheel, in a Python environment of the image.
    Pip,
    /// The conda-forge package, in a conda environment of the image.
    Conda,
    /// Files of another image.
    Copy,
}

impl MethodKind {
    /// The name used on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Apt => "apt",
            Self::Dnf => "dnf",
            Self::Pip => "pip",
            Self::Conda => "conda",
            Self::Copy => "copy",
        }
    }
}

/// The unneeded files to remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DropChoice {
    Nothing,
    /// Those that the phase itself removes.
    OfPhase,
    All,
}

/// The form in which a patch is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchForm {
    /// Instructions, whose commands are programs of the image.
    Build,
    /// A layer with the files and the loader's cache.
    Layer,
}

impl PatchRequest<'_> {
    /// Whether an added program would not find the library.
    pub(super) fn added_program_lacks_cupti(&self) -> bool {
        self.adds_linked_program && !self.target.answers.plain.as_is.resolution.loads()
    }

    /// Whether CUPTI must be installed, or made reachable.
    pub(super) fn lacks_cupti(&self) -> bool {
        self.plan.lacks_cupti(self.target) || self.added_program_lacks_cupti()
    }

    /// Whether these rules include one that installing CUPTI should cure.
    pub(super) fn is_uncured(&self, because: &[String]) -> bool {
        is_uncured(self.knowledge, because)
    }

    /// The files to remove, if nothing needs them.
    pub(super) fn wanted_drops(&self) -> Vec<PlanItem> {
        match self.drops {
            DropChoice::Nothing => Vec::new(),
            DropChoice::OfPhase => unneeded_files(self.target, &self.knowledge.profilers, &self.phase.without_drop()),
            DropChoice::All => self.plan.drop.clone(),
        }
    }
}

pub(super) fn is_uncured(knowledge: &Knowledge, because: &[String]) -> bool {
    let mut rules = because.iter().filter_map(|id| knowledge.rule(id));
    rules.any(|rule| rule.cured_by == Some(RuleCure::InstallCupti))
}

/// The context in which methods propose patches. Making it reads the image, so a command makes one for each phase.
pub(crate) struct PatchContext<'a> {
    pub request: PatchRequest<'a>,
    pub linker: &'a DynamicLoader,
    pub system: ImageSystem,
    /// The release to install, if anything determines it.
    pub release: Option<TargetRelease>,
    /// The folder for new files.
    pub install: InstallFolder,
    /// The files to remove, if the patch does not use them.
    pub drops: Vec<PlanItem>,
}

impl<'a> PatchContext<'a> {
    /// Reads the facts that are needed before a method is chosen.
    ///
    /// Errors: A [`PatchError`] if the image cannot load anything.
    pub(crate) fn new(request: PatchRequest<'a>) -> Result<Self, PatchError> {
        let linker = require_linker(request.target)?;
        Ok(Self {
            request,
            linker,
            system: read_image_system(request.target),
            release: choose_release(request.target, linker, request.cuda),
            install: choose_install_folder(request.target, linker, request.form),
            drops: request.wanted_drops(),
        })
    }

    /// Whether links can be made and names deleted: by a layer, or by programs of the image.
    pub(super) fn can_link(&self) -> bool {
        self.request.form == PatchForm::Layer || self.system.shell
    }

    /// The libraries that the phase needs of this CUDA version, or of a usual one.
    pub(crate) fn needs(&self, cuda: Option<CudaVersion>) -> Vec<RequiredLibrary> {
        let ImageFacts {
            tables,
            library,
            answers,
            ..
        } = self.request.target;
        let consumers = &answers.consumers;
        let cuda = cuda.unwrap_or(UNKNOWN_CUDA);
        required_libraries::list_required_libraries(tables, library, self.request.phase, consumers, |api| {
            has_api(cuda, api)
        })
    }

    /// A version of CUPTI with the evidence for it.
    pub(super) fn brought_release(&self, version: String) -> BroughtRelease {
        BroughtRelease::new(version, self.release.as_ref().map(|release| &*release.because))
    }

    pub(super) fn release(&self) -> Result<&LibraryRelease, Obstacle> {
        let nothing = "the image does not show its CUDA version; pass --cuda";
        let release = &self.release.as_ref().ok_or(nothing)?.release;
        let (major, minor) = release.cuda;
        // Drivers of branch 565 report 12.7, but that release does not exist and has no packages.
        if !self.request.target.tables.was_released(release.cuda) {
            return Err(format!("CUDA {major}.{minor} does not exist").into());
        }
        Ok(release)
    }

    /// The processor name in NVIDIA's repositories and toolkit folders.
    pub(super) fn nvidia_machine(&self) -> &'static str {
        match self.linker.arch.name {
            // For server Arm; NVIDIA uses "aarch64" for its Jetson boards.
            "aarch64" => "sbsa",
            _ => "x86_64",
        }
    }

    /// The folder into which NVIDIA's packages put the toolkit's libraries.
    pub(super) fn toolkit_folder(&self, (major, minor): CudaVersion) -> RootPath {
        let machine = self.nvidia_machine();
        RootPath::from(format!("usr/local/cuda-{major}.{minor}/targets/{machine}-linux/lib").as_str())
    }

    /// Checks that the package manager's files persist after the build: the classic builder discards writes of a `RUN`
    /// to a volume.
    pub(super) fn require_kept(&self) -> Result<(), Obstacle> {
        let mut written = ["usr", "etc", "var/lib"].iter();
        match written.find_map(|folder| volume_over(self.request.target, folder)) {
            None => Ok(()),
            Some(volume) => Err(format!("{volume} is a volume of the image, and a build may lose files there").into()),
        }
    }

    pub(super) fn require_shell(&self) -> Result<(), Obstacle> {
        if self.system.shell {
            return Ok(());
        }
        Err(format!("the image has {}, so nothing can be installed", self.system.lacks).into())
    }

    pub(super) fn require_apt(&self) -> Result<(), Obstacle> {
        let has = self.system.apt.then_some(());
        Ok(has.ok_or("the image has no apt-get")?)
    }
}
