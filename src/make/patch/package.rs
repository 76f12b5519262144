//! The packages that a patch installs, with all that their commands need.

use crate::facts::OwnerKind;
use crate::judge::rule::PackageRepair;
use crate::make::choose::conda_environment::CondaEnvironment;
use crate::make::choose::image_system::SystemInstaller;
use crate::make::choose::python_target::PipTarget;
use image_linkage::path::RootPath;

/// A package to install.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Package {
    System(SystemPackage),
    Pip(PipPackage),
    Conda(CondaPackage),
}

/// A package of a distribution or of NVIDIA's repository for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SystemPackage {
    pub manager: SystemInstaller,
    pub name: String,
    /// Its version; a final `*` matches any rest.
    pub version: String,
    /// Whether the package manager lists it as installed; for rpm, whether it possibly does.
    pub is_listed: bool,
    /// The repository to set up first, if any.
    pub setup: Option<RepositorySetup>,
    /// Whether its files go where the loader searches by default.
    pub is_default: bool,
    /// The libraries of the package that the phase does not need, by stem. The same step removes them: a later layer
    /// would only hide them, and they would still be pulled.
    pub spare: Vec<&'static str>,
}

/// The setup that is needed before a package can be installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RepositorySetup {
    /// A component of the distribution's archive, from the sources file.
    Component {
        name: String,
        /// The file that lists the archive without this component.
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

/// A wheel, in a Python environment of the image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PipPackage {
    pub target: PipTarget,
    pub name: String,
    pub version: String,
    /// The requirements in pip's syntax.
    pub wheels: Vec<String>,
    /// Whether its dependencies are also installed.
    pub takes_dependencies: bool,
    /// Whether pip lists it as installed.
    pub is_listed: bool,
    /// The folder of its headers; `None` if other packages have their libraries and headers beside it.
    pub headers: Option<RootPath>,
    /// As in [`SystemPackage`].
    pub spare: Vec<&'static str>,
}

/// Packages of conda-forge, in a conda environment of the image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CondaPackage {
    pub environment: CondaEnvironment,
    /// Whether conda lists it as installed.
    pub is_listed: bool,
    /// The packages with their versions.
    pub packages: Vec<String>,
    /// As in [`SystemPackage`].
    pub spare: Vec<&'static str>,
}

impl Package {
    /// Its name with the version, in words.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::System(package) => package.name.clone(),
            Self::Pip(pip) => format!("{} {}", pip.name, pip.version),
            Self::Conda(conda) => conda.packages.join(" and "),
        }
    }

    /// The package with all its libraries.
    pub(crate) fn without_spare(mut self) -> Self {
        let (Self::System(SystemPackage { spare, .. })
        | Self::Pip(PipPackage { spare, .. })
        | Self::Conda(CondaPackage { spare, .. })) = &mut self;
        spare.clear();
        self
    }

    /// Whether it does the same as a package repair.
    pub(crate) fn repairs(&self, repair: &PackageRepair) -> bool {
        match self {
            Self::Pip(pip) => {
                repair.manager == OwnerKind::Pip
                    && repair.environment == pip.target.site
                    && repair.packages == pip.wheels
            }
            Self::System(package) => {
                let (manager, is) = match package.manager {
                    SystemInstaller::AptGet => (OwnerKind::Deb, '='),
                    _ => (OwnerKind::Rpm, '-'),
                };
                let mut packages = repair.packages.iter();
                repair.manager == manager
                    && packages.all(|other| {
                        let rest = other.strip_prefix(&package.name);
                        rest.is_some_and(|rest| rest.starts_with(is))
                    })
            }
            Self::Conda(_) => false,
        }
    }
}
