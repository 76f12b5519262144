//! The methods that install CUPTI into an image, with their parameters.

use serde::Serialize;

use super::conda_environment::CondaEnvironment;
use super::copy_plan::CopyPlan;
use super::image_system::SystemInstaller;
use super::python_target::PipTarget;
use crate::facts::OwnerKind;
use crate::facts::software::cuda_runtime::{CudaVersion, parse_cuda_version};
use crate::judge::rule::PackageRepair;
use crate::make::quote;
use image_linkage::escape;
use image_linkage::path::RootPath;

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

/// A method with all its parameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
// The kind is part of a file name: `way-copy.j2` is the template of `Copy`.
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum InstallMethod {
    /// The image already has the files, and only needs a search path to them.
    Place(CopyPlan),
    /// Files are copied from another image.
    Copy {
        /// The name of the image for `FROM`.
        from: String,
        #[serde(flatten)]
        copy_plan: CopyPlan,
        /// Whether the image was read. NVIDIA's devel image is not; the table of releases describes its files.
        #[serde(skip)]
        is_read: bool,
    },
    Package(PackageInstall),
    Pip(PipInstall),
    Conda(CondaInstall),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct PackageInstall {
    pub manager: SystemInstaller,
    pub name: String,
    /// Its version; a final `*` matches any rest.
    pub version: String,
    /// The CUDA version of the package.
    pub cuda: Option<CudaVersion>,
    pub soname: String,
    /// Whether the package manager lists it as installed; for rpm, whether it possibly does.
    pub is_listed: bool,
    /// The repository to set up first, if any.
    #[serde(flatten)]
    pub setup: Option<RepositorySetup>,
    /// The folder of its libraries, unless it is a default folder of the loader.
    #[serde(serialize_with = "quote::serialize_optional_path")]
    pub folder: Option<RootPath>,
}

/// The setup that is needed before a package can be installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RepositorySetup {
    /// A component of the distribution's archive, from the sources file.
    Component {
        name: String,
        /// The file that lists the archive without this component.
        #[serde(serialize_with = "quote::serialize_path")]
        file: RootPath,
        // The format of `debian.sources` in Debian's images since 12, and of `ubuntu.sources` since 24.04
        // (sources.list(5)). The older format has lines that begin with `deb`.
        deb822: bool,
    },
    // These values come from `packages.yaml` and not from the image, so they are not checked as names.
    Repository {
        /// Its address without a final slash.
        url: String,
        /// The repository file in it, for dnf and zypper.
        file: String,
        /// The folder that it goes into.
        folder: &'static str,
        keyring: String,
        /// Whether CA certificates for https must be installed.
        certificates: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct PipInstall {
    #[serde(flatten)]
    pub target: PipTarget,
    pub name: String,
    pub version: String,
    /// The requirement in pip's syntax.
    pub wheels: [String; 1],
    /// Whether its dependencies are also installed.
    pub takes_dependencies: bool,
    pub soname: String,
    /// The folder of its libraries after installation.
    #[serde(serialize_with = "quote::serialize_path")]
    pub folder: RootPath,
    /// Whether pip lists it as installed.
    pub is_listed: bool,
    /// The folder of its headers; `None` if other packages have their libraries and headers beside it.
    #[serde(serialize_with = "quote::serialize_optional_path")]
    pub headers: Option<RootPath>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct CondaInstall {
    #[serde(flatten)]
    pub environment: CondaEnvironment,
    /// Whether conda lists it as installed.
    pub is_listed: bool,
    /// The packages with their versions.
    pub packages: Vec<String>,
    pub soname: String,
}

impl InstallMethod {
    /// The files that are copied or already in the image.
    pub(crate) fn copy_plan(&self) -> Option<&CopyPlan> {
        match self {
            Self::Place(copy_plan) | Self::Copy { copy_plan, .. } => Some(copy_plan),
            _ => None,
        }
    }

    /// The same, if the files were read.
    pub(super) fn read_plan(&self) -> Option<&CopyPlan> {
        self.copy_plan()
            .filter(|_| !matches!(self, Self::Copy { is_read: false, .. }))
    }

    /// The folder of the environment that it installs into; the programs of that environment search it.
    pub(super) fn own_folder(&self) -> Option<RootPath> {
        match self {
            Self::Pip(pip) => Some(pip.folder.clone()),
            Self::Conda(conda) => Some(conda.environment.prefix.join(b"lib")),
            _ => None,
        }
    }

    /// Its fixed CUDA version, which may differ from the requested release.
    pub(super) fn cuda(&self) -> Option<CudaVersion> {
        match self {
            Self::Package(package) => package.cuda,
            _ => parse_cuda_version(self.read_plan()?.release.as_ref()?),
        }
    }

    /// Whether it does the same as a package repair.
    pub(crate) fn repairs(&self, repair: &PackageRepair) -> bool {
        match self {
            Self::Pip(pip) => {
                repair.manager == OwnerKind::Pip
                    && repair.environment == pip.target.site
                    && repair.packages == pip.wheels
            }
            Self::Package(package) => {
                let (manager, is) = match package.manager {
                    SystemInstaller::AptGet => (OwnerKind::Deb, '='),
                    _ => (OwnerKind::Rpm, '-'),
                };
                let is_it = |other: &String| {
                    other
                        .strip_prefix(&package.name)
                        .is_some_and(|rest| rest.starts_with(is))
                };
                repair.manager == manager && repair.packages.iter().all(is_it)
            }
            _ => false,
        }
    }

    /// The soname of the libcupti that it installs.
    pub(crate) fn soname(&self) -> String {
        match self {
            Self::Place(copy_plan) | Self::Copy { copy_plan, .. } => escape::escape_bytes(&copy_plan.soname),
            Self::Package(package) => package.soname.clone(),
            Self::Pip(pip) => pip.soname.clone(),
            Self::Conda(conda) => conda.soname.clone(),
        }
    }
}
