//! The ways of getting CUPTI into an image, and what each would take.

use serde::Serialize;

use super::conda_environment::CondaEnvironment;
use super::copy_plan::CopyPlan;
use super::image_system::SystemInstaller;
use crate::facts::OwnerKind;
use crate::facts::software::cuda_runtime::{CudaVersion, parse_cuda_version};
use crate::judge::rule::PackageRepair;
use crate::make::quote;
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
// The kind is a part of a file's name: `way-copy.j2` is the template of `Copy`.
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum InstallMethod {
    /// What is needed is in the image, and is only put on the search path.
    Place(CopyPlan),
    /// Files are copied out of another image.
    Copy {
        /// The name of the image, as `FROM` takes it.
        from: String,
        #[serde(flatten)]
        copy_plan: CopyPlan,
        /// Whether the image was read. NVIDIA's devel image was not: its files are known by the table.
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
    /// Its version; a final `*` stands for any rest.
    pub version: String,
    /// The CUDA that it is of.
    pub cuda: Option<CudaVersion>,
    pub soname: String,
    /// Whether the package manager believes that it is installed already; of rpm, whether it may.
    pub is_listed: bool,
    /// Where it comes from, when that has to be set up.
    #[serde(flatten)]
    pub setup: Option<RepositorySetup>,
    /// The folder of its libraries, where that is not one of the loader's own.
    #[serde(serialize_with = "quote::serialize_optional_path")]
    pub folder: Option<RootPath>,
}

/// What has to be set up before a package can be installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RepositorySetup {
    /// A component of the distribution's archive, from the file of sources.
    Component {
        name: String,
        /// The file that names the archive without it.
        #[serde(serialize_with = "quote::serialize_path")]
        file: RootPath,
        // The form of `debian.sources` in Debian's images since 12, and of `ubuntu.sources` since 24.04
        // (sources.list(5)); lines that begin with `deb` are the form before it.
        deb822: bool,
    },
    // Words of `packages.yaml` and not of the image, so that they are not checked as names.
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

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct PipInstall {
    #[serde(serialize_with = "quote::serialize_path")]
    pub interpreter: RootPath,
    /// The program that installs, where the environment has no pip.
    #[serde(serialize_with = "quote::serialize_optional_path")]
    pub uv: Option<RootPath>,
    pub name: String,
    pub version: String,
    /// The same as pip takes it.
    pub wheels: [String; 1],
    /// Whether what it requires is installed along.
    pub takes_dependencies: bool,
    pub soname: String,
    /// The folder of packages that it goes into.
    #[serde(serialize_with = "quote::serialize_path")]
    pub site: RootPath,
    /// The folder that its libraries lie in afterwards.
    #[serde(serialize_with = "quote::serialize_path")]
    pub folder: RootPath,
    /// Whether pip believes that it is installed already.
    pub is_listed: bool,
    /// Whether the distribution of Linux forbids pip to install here.
    pub is_managed: bool,
    /// The folder of its headers; `None` where other packages have their libraries and headers beside it.
    #[serde(serialize_with = "quote::serialize_optional_path")]
    pub headers: Option<RootPath>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct CondaInstall {
    #[serde(flatten)]
    pub environment: CondaEnvironment,
    /// Whether conda believes that it is installed already.
    pub is_listed: bool,
    /// The packages, each with its version.
    pub packages: Vec<String>,
    pub soname: String,
}

impl InstallMethod {
    /// The files, where they are copied or in the image.
    pub(crate) fn copy_plan(&self) -> Option<&CopyPlan> {
        match self {
            Self::Place(copy_plan) | Self::Copy { copy_plan, .. } => Some(copy_plan),
            _ => None,
        }
    }

    /// The same, where they were read.
    pub(super) fn read_plan(&self) -> Option<&CopyPlan> {
        self.copy_plan()
            .filter(|_| !matches!(self, Self::Copy { is_read: false, .. }))
    }

    /// The folder of an environment that it installs into, which the programs of that environment search.
    pub(super) fn own_folder(&self) -> Option<RootPath> {
        match self {
            Self::Pip(pip) => Some(pip.folder.clone()),
            Self::Conda(conda) => Some(conda.environment.prefix.join(b"lib")),
            _ => None,
        }
    }

    /// The version of CUDA that it is bound to, whatever release was asked for.
    pub(super) fn cuda(&self) -> Option<CudaVersion> {
        match self {
            Self::Package(package) => package.cuda,
            _ => parse_cuda_version(self.read_plan()?.release.as_ref()?),
        }
    }

    /// Whether it does what repairs a package.
    pub(crate) fn repairs(&self, repair: &PackageRepair) -> bool {
        let name_of = |package: &str| package.split('=').next().unwrap_or_default().to_owned();
        match self {
            Self::Pip(pip) => {
                repair.manager == OwnerKind::Pip && repair.environment == pip.site && repair.packages == pip.wheels
            }
            Self::Package(package) if package.manager == SystemInstaller::AptGet => {
                let mut names = repair.packages.iter().map(|package| name_of(package));
                repair.manager == OwnerKind::Deb && names.all(|name| name == package.name)
            }
            _ => false,
        }
    }

    /// The soname of the libcupti that it brings.
    pub(crate) fn soname(&self) -> String {
        match self {
            Self::Place(copy_plan) | Self::Copy { copy_plan, .. } => escape::escape_bytes(&copy_plan.soname),
            Self::Package(package) => package.soname.clone(),
            Self::Pip(pip) => pip.soname.clone(),
            Self::Conda(conda) => conda.soname.clone(),
        }
    }
}
