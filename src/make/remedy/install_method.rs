//! The ways of getting CUPTI into an image, and what each would take.

use super::copy_plan::CopyPlan;
use crate::knowledge::LibraryRelease;
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
    pub fn name(self) -> &'static str {
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
pub enum InstallMethod {
    /// What is needed is in the image, and is only put on the search path.
    Place(InPlaceFiles),
    /// Files are copied out of an image that was read.
    Copy {
        /// The name of the image, as `FROM` takes it.
        from: String,
        /// The files.
        bring: CopyPlan,
    },
    /// Files are copied out of NVIDIA's devel image, which was not read: they are known by the table.
    Devel {
        /// The name of the image.
        from: String,
        /// The folder in it.
        folder: RootPath,
        /// The release.
        release: LibraryRelease,
    },
    /// A package is installed.
    Package(PackageInstall),
    /// A wheel is installed.
    Pip(PipInstall),
    /// Packages of conda are installed.
    Conda(CondaInstall),
}

/// Files that are in the image already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InPlaceFiles {
    /// The files as they lie there, and the folder that would lead to them.
    pub bring: CopyPlan,
    /// Whether their folder holds other libraries, which are not to be put on the search path along with them.
    pub is_shared: bool,
}

/// A package that is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageInstall {
    /// The program that installs it.
    pub manager: &'static str,
    /// Its name.
    pub name: String,
    /// Its version; a final `*` stands for any rest.
    pub version: String,
    /// The soname of its libcupti.
    pub soname: String,
    /// Where it comes from, when that has to be set up.
    pub setup: Option<RepositorySetup>,
    /// Whether it puts its files into a folder of the loader's own.
    pub is_default_folder: bool,
}

/// What has to be set up before a package can be installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepositorySetup {
    /// A component of the distribution's archive, from the file of sources.
    Component {
        /// The component.
        component: String,
        /// The file that names the archive without it.
        file: RootPath,
    },
    /// NVIDIA's repository.
    Repository {
        /// Its address.
        url: String,
        /// The package that brings its key.
        keyring: String,
        /// Whether the certificates by which https is trusted have to be installed.
        certificates: bool,
    },
}

/// A wheel that is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipInstall {
    /// The interpreter of the environment.
    pub interpreter: RootPath,
    /// The distribution.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The soname of its libcupti.
    pub soname: String,
    /// The folder that its libraries lie in afterwards.
    pub folder: RootPath,
    /// Whether pip believes that it is installed already.
    pub is_listed: bool,
    /// Whether the distribution of Linux forbids pip to install here.
    pub is_managed: bool,
    /// Whether other libraries lie in the folder.
    pub is_shared: bool,
}

/// Packages of conda that are installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CondaInstall {
    /// The program.
    pub program: RootPath,
    /// The folder of the environment.
    pub prefix: RootPath,
    /// The packages, each with its version.
    pub packages: Vec<String>,
    /// The soname of libcupti.
    pub soname: String,
}

impl InstallMethod {
    /// The way that it is an instance of; `None` for what is in the image already.
    pub fn via(&self) -> Option<MethodKind> {
        match self {
            Self::Place(_) => None,
            Self::Copy { .. } | Self::Devel { .. } => Some(MethodKind::Copy),
            Self::Package(package) if package.manager == "apt-get" => Some(MethodKind::Apt),
            Self::Package(_) => Some(MethodKind::Dnf),
            Self::Pip(_) => Some(MethodKind::Pip),
            Self::Conda(_) => Some(MethodKind::Conda),
        }
    }

    /// The soname of the libcupti that it brings.
    pub fn soname(&self) -> String {
        match self {
            Self::Place(place) => image_linkage::escape::escape_bytes(&place.bring.soname),
            Self::Copy { bring, .. } => image_linkage::escape::escape_bytes(&bring.soname),
            Self::Devel { release, .. } => release.soname.clone(),
            Self::Package(package) => package.soname.clone(),
            Self::Pip(pip) => pip.soname.clone(),
            Self::Conda(conda) => conda.soname.clone(),
        }
    }
}
