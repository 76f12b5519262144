//! The ways of getting CUPTI into an image, and what each would take.

use super::copy_plan::{CopiedFile, CopyPlan};
use super::image_system::{CondaEnvironment, SystemInstaller};
use super::install_folder::FolderDiscovery;
use crate::judge::facts::cuda_runtime::{CudaVersion, parse_cuda_version};
use crate::knowledge::LibraryRelease;
use image_linkage::escape;
use image_linkage::path::RootPath;

/// A way that can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MethodKind {
    /// Packages of Debian's kind: the distribution's own, or NVIDIA's.
    Apt,
    /// Packages of Red Hat's kind: NVIDIA's.
    Dnf,
    /// NVIDIA's wheel, in a Python environment of the image.
    Pip,
    /// conda-forge's package, in a conda environment of the image.
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

/// A way, with all that is needed to go it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum InstallMethod {
    /// What is needed is in the image, and is only put on the search path.
    Place(InPlaceFiles),
    /// Files are copied out of an image that was read.
    Copy {
        /// The name of the image, as `FROM` takes it.
        from: String,
        copy_plan: CopyPlan,
    },
    /// Files are copied out of NVIDIA's devel image, which was not read: they are known by the table.
    Devel {
        from: String,
        folder: RootPath,
        release: LibraryRelease,
    },
    Package(PackageInstall),
    Pip(PipInstall),
    Conda(CondaInstall),
}

/// Files that are in the image already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InPlaceFiles {
    /// The files as they lie there, and the folder that would lead to them.
    pub copy_plan: CopyPlan,
    /// Whether their folder holds other libraries, which are not to be put on the search path along with them.
    pub is_shared: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PackageInstall {
    pub manager: SystemInstaller,
    pub name: String,
    /// Its version; a final `*` stands for any rest.
    pub version: String,
    /// The CUDA that it is of.
    pub cuda: Option<CudaVersion>,
    pub soname: String,
    /// Where it comes from, when that has to be set up.
    pub setup: Option<RepositorySetup>,
    /// The folder of its libraries, where that is not one of the loader's own.
    pub folder: Option<RootPath>,
}

/// What has to be set up before a package can be installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RepositorySetup {
    /// A component of the distribution's archive, from the file of sources.
    Component {
        component: String,
        /// The file that names the archive without it.
        file: RootPath,
    },
    Repository {
        /// Its address, without a final slash.
        url: String,
        /// The file in it that names it, for dnf.
        file: String,
        keyring: String,
        /// Whether the certificates by which https is trusted have to be installed.
        certificates: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PipInstall {
    pub interpreter: RootPath,
    pub name: String,
    pub version: String,
    pub soname: String,
    /// The folder of packages that it goes into.
    pub site: RootPath,
    /// The folder that its libraries lie in afterwards.
    pub folder: RootPath,
    /// Whether pip believes that it is installed already.
    pub is_listed: bool,
    /// Whether the distribution of Linux forbids pip to install here.
    pub is_managed: bool,
    /// Whether other libraries lie in the folder.
    pub is_shared: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CondaInstall {
    pub environment: CondaEnvironment,
    /// The packages, each with its version.
    pub packages: Vec<String>,
    pub soname: String,
}

impl InstallMethod {
    /// The files, where they were read.
    pub(super) fn copy_plan(&self) -> Option<&CopyPlan> {
        match self {
            Self::Place(InPlaceFiles { copy_plan, .. }) | Self::Copy { copy_plan, .. } => Some(copy_plan),
            _ => None,
        }
    }

    /// The image's own files that get a link where the loader looks by itself, as nothing could name their folder.
    pub(crate) fn default_links(&self) -> &[CopiedFile] {
        match self {
            Self::Place(place) if place.copy_plan.search.by == FolderDiscovery::Default => &place.copy_plan.files,
            _ => &[],
        }
    }

    /// The version of CUDA that it is bound to, whatever release was asked for.
    pub(super) fn cuda(&self) -> Option<CudaVersion> {
        match self {
            Self::Package(package) => package.cuda,
            _ => parse_cuda_version(self.copy_plan()?.release.as_ref()?),
        }
    }

    /// The soname of the libcupti that it brings.
    pub(crate) fn soname(&self) -> String {
        match self {
            Self::Place(InPlaceFiles { copy_plan, .. }) | Self::Copy { copy_plan, .. } => {
                escape::escape_bytes(&copy_plan.soname)
            }
            Self::Devel { release, .. } => release.soname.clone(),
            Self::Package(package) => package.soname.clone(),
            Self::Pip(pip) => pip.soname.clone(),
            Self::Conda(conda) => conda.soname.clone(),
        }
    }
}
