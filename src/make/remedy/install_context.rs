//! What a recipe is asked for, and with it every way of getting CUPTI: for which image, which phase and which release.

use super::copy_source::CopySource;
use super::image_system::{ImageSystem, read_image_system};
use super::install_folder::volume_over;
use super::install_method::MethodKind;
use super::required_libraries::{self, RequiredLibrary};
use super::target::require_glibc_linker;
use super::target_release::{TargetRelease, choose_release};
use super::{MethodObstacle, RemedyError};
use crate::facts::software::cuda_runtime::CudaVersion;
use crate::facts::{GatherOptions, ImageFacts};
use crate::judge::plan::Plan;
use crate::knowledge::{Knowledge, LibraryRelease, Phase, has_api};
use image_linkage::loader::DynamicLoader;
use image_linkage::path::RootPath;

/// What a recipe is asked for.
#[derive(Clone, Copy)]
pub(crate) struct RecipeRequest<'a> {
    pub target: &'a ImageFacts,
    pub phase: &'a Phase,
    /// What the image makes of the phase now.
    pub plan: &'a Plan,
    /// What is known, each rule with what cures it.
    pub knowledge: &'a Knowledge,
    /// What the processes of the image start with.
    pub conditions: &'a GatherOptions,
    /// The ways that are asked for, the best first; none for the cheapest of all.
    pub via: &'a [MethodKind],
    /// The version of CUDA that is asked for.
    pub cuda: Option<CudaVersion>,
    /// The image to copy from, where the user names one.
    pub source: Option<CopySource<'a>>,
    /// Whether what the phase has no use for goes, also where the phase does not ask for that.
    pub drops: bool,
}

/// What a way has to bring, and into what.
pub(crate) struct InstallContext<'a> {
    pub request: &'a RecipeRequest<'a>,
    pub linker: &'a DynamicLoader,
    pub system: ImageSystem,
    /// The release that the image is to be given, where anything says it.
    pub release: Option<TargetRelease>,
}

impl<'a> InstallContext<'a> {
    /// What there is to know of the image before a way is chosen.
    ///
    /// Errors: A [`RemedyError`]: nothing can be loaded in the image.
    pub(super) fn new(request: &'a RecipeRequest<'a>) -> Result<Self, RemedyError> {
        let linker = require_glibc_linker(request.target)?;
        Ok(Self {
            request,
            linker,
            system: read_image_system(request.target),
            release: choose_release(request.target, linker, request.cuda),
        })
    }

    /// The libraries that the phase needs, of the release.
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
        // Drivers of branch 565 say 12.7, which was no release: no package is of it.
        if self.request.target.library.is_cuda && !self.request.target.tables.was_released(release.cuda) {
            return Err(format!("CUDA {major}.{minor} does not exist").into());
        }
        Ok(release)
    }

    /// The processor in NVIDIA's repositories and in the folders of its toolkit.
    pub(super) fn nvidia_machine(&self) -> &'static str {
        match self.linker.arch.name {
            // For server Arm; NVIDIA keeps "aarch64" for its Jetson boards.
            "aarch64" => "sbsa",
            _ => "x86_64",
        }
    }

    /// The folder that NVIDIA's packages put the libraries of a toolkit into.
    pub(super) fn toolkit_folder(&self, (major, minor): CudaVersion) -> RootPath {
        let machine = self.nvidia_machine();
        RootPath::from(format!("usr/local/cuda-{major}.{minor}/targets/{machine}-linux/lib").as_str())
    }

    /// That what a package manager writes is there after the build: the classic builder drops what a `RUN` writes to
    /// where a volume is.
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
