//! The request for a recipe, and the context that every install method needs: image, phase and release.

use super::copy_source::CopySource;
use super::image_system::{ImageSystem, read_image_system};
use super::install_folder::volume_over;
use super::install_method::MethodKind;
use super::required_libraries::{self, RequiredLibrary};
use super::target::require_linker;
use super::target_release::{TargetRelease, choose_release};
use super::{MethodObstacle, RemedyError};
use crate::facts::software::cuda_runtime::CudaVersion;
use crate::facts::{GatherOptions, ImageFacts};
use crate::judge::plan::Plan;
use crate::knowledge::{Knowledge, LibraryRelease, Phase, has_api};
use image_linkage::loader::DynamicLoader;
use image_linkage::path::RootPath;

/// The request for a recipe.
#[derive(Clone, Copy)]
pub(crate) struct RecipeRequest<'a> {
    pub target: &'a ImageFacts,
    pub phase: &'a Phase,
    /// The plan of the unchanged image.
    pub plan: &'a Plan,
    /// The knowledge, with the cure of each rule.
    pub knowledge: &'a Knowledge,
    /// The start conditions of the image's processes.
    pub conditions: &'a GatherOptions,
    /// The requested methods in order of preference; empty for the cheapest of all.
    pub via: &'a [MethodKind],
    /// The requested CUDA version.
    pub cuda: Option<CudaVersion>,
    /// The image to copy from, if the user named one.
    pub source: Option<CopySource<'a>>,
    /// Whether to remove unneeded files even if the phase does not require it.
    pub drops: bool,
    /// Whether the build adds a program that links the library and has no search path of its own.
    pub adds_linked_program: bool,
}

impl RecipeRequest<'_> {
    /// Whether an added program would not find the library.
    pub(super) fn added_program_lacks_cupti(&self) -> bool {
        self.adds_linked_program && !self.target.plain.as_is.resolution.loads()
    }

    /// Whether CUPTI must be installed, or made reachable.
    pub(super) fn lacks_cupti(&self) -> bool {
        self.plan.lacks_cupti(self.target) || self.added_program_lacks_cupti()
    }
}

/// The context of an install method.
pub(crate) struct InstallContext<'a> {
    pub request: &'a RecipeRequest<'a>,
    pub linker: &'a DynamicLoader,
    pub system: ImageSystem,
    /// The release to install, if anything determines it.
    pub release: Option<TargetRelease>,
}

impl<'a> InstallContext<'a> {
    /// Reads the facts that are needed before a method is chosen.
    ///
    /// Errors: A [`RemedyError`] if the image cannot load anything.
    pub(super) fn new(request: &'a RecipeRequest<'a>) -> Result<Self, RemedyError> {
        let linker = require_linker(request.target)?;
        Ok(Self {
            request,
            linker,
            system: read_image_system(request.target),
            release: choose_release(request.target, linker, request.cuda),
        })
    }

    /// The libraries of the release that the phase needs.
    pub(super) fn needs(&self, cuda: CudaVersion) -> Vec<RequiredLibrary> {
        let ImageFacts {
            tables,
            library,
            consumers,
            ..
        } = self.request.target;
        required_libraries::list_required_libraries(tables, library, self.request.phase, consumers, |api| {
            has_api(cuda, api)
        })
    }

    pub(super) fn release(&self) -> Result<&LibraryRelease, MethodObstacle> {
        let nothing = "the image does not show its CUDA version; pass --cuda";
        let release = &self.release.as_ref().ok_or(nothing)?.release;
        let (major, minor) = release.cuda;
        // Drivers of branch 565 report 12.7, but that release does not exist and has no packages.
        if self.request.target.library.is_cuda && !self.request.target.tables.was_released(release.cuda) {
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
    pub(super) fn require_kept(&self) -> Result<(), MethodObstacle> {
        let mut written = ["usr", "etc", "var/lib"].iter();
        match written.find_map(|folder| volume_over(self.request.target, folder)) {
            None => Ok(()),
            Some(volume) => Err(format!("{volume} is a volume of the image, and a build may lose files there").into()),
        }
    }

    pub(super) fn require_shell(&self) -> Result<(), MethodObstacle> {
        if self.system.shell {
            return Ok(());
        }
        Err(format!("the image has {}, so nothing can be installed", self.system.lacks).into())
    }

    pub(super) fn require_apt(&self) -> Result<(), MethodObstacle> {
        let has = self.system.apt.then_some(());
        Ok(has.ok_or("the image has no apt-get")?)
    }
}
