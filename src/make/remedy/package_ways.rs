//! The methods that install a package: from the distribution, NVIDIA's repository, the Python Package Index or
//! conda-forge.

use super::MethodObstacle;
use super::image_system::{ImageSystem, SystemInstaller};
use super::install_context::InstallContext;
use super::install_method::{CondaInstall, InstallMethod, PackageInstall, PipInstall, RepositorySetup};
use super::python_target::{PipTarget, find_pip_target};
use super::target_release::choose_wheel;
use crate::facts::software::conda_records::conda_records;
use crate::facts::software::cuda_runtime::{CudaVersion, parse_cuda_version, site_packages_of};
use crate::facts::software::rpm_database::installed_rpms;
use crate::facts::{CuptiConsumer, ImageFacts};
use crate::knowledge::fill_version;
use crate::knowledge::packages::NvidiaRepository;
use image_linkage::path::RootPath;
use python_path::PythonUse;

pub(super) fn pip_of_consumer(question: &InstallContext<'_>) -> Result<InstallMethod, MethodObstacle> {
    let target = question.request.target;
    let consumers = target.consumers.iter();
    let mut sites = consumers
        .filter_map(|consumer| package_folder(target, consumer))
        .peekable();
    if sites.peek().is_none() {
        return Err("no Python environment of the image asks for CUPTI".into());
    }
    let python = sites.find_map(|site| find_pip_target(target, &site));
    pip_into(
        question,
        python.ok_or("no Python of the image searches the packages that ask for CUPTI")?,
    )
}

/// The folder of a program's Python package, without links.
fn package_folder(target: &ImageFacts, consumer: &CuptiConsumer) -> Option<RootPath> {
    let by_name = site_packages_of(&consumer.object);
    by_name.or_else(|| match &consumer.python {
        Some(PythonUse::Imported { site, .. }) => {
            let found = target.contexts.as_is.rootfs.lookup(&site.absolute());
            Some(found.ok()?.path)
        }
        _ => None,
    })
}

pub(super) fn pip(question: &InstallContext<'_>) -> Result<InstallMethod, MethodObstacle> {
    let distributions = question.request.target.related.distributions.iter();
    let mut sites: Vec<&RootPath> = distributions.map(|dist| &dist.site).collect();
    sites.dedup();
    let mut pythons = sites
        .iter()
        .filter_map(|site| find_pip_target(question.request.target, site));
    // No program needs the wheel in one of these environments, so it is not worth a tool from outside.
    let python = pythons.find(|python| python.mount.is_none());
    pip_into(
        question,
        python.ok_or("the image has no Python environment with pip, and no uv")?,
    )
}

fn pip_into(question: &InstallContext<'_>, python: PipTarget) -> Result<InstallMethod, MethodObstacle> {
    question.require_shell()?;
    let release = question.release()?;
    let (wheel, version) = choose_wheel(question.request.target, question.linker, release)?;
    // pip skips a listed package, even if its files are gone.
    let mut listed = question.request.target.related.distributions.iter();
    let folder = python.site.join(wheel.folder.as_bytes());
    Ok(InstallMethod::Pip(PipInstall {
        name: wheel.name.clone(),
        wheels: [format!("{}=={version}", wheel.name)],
        takes_dependencies: false,
        version,
        soname: release.soname.clone(),
        is_listed: listed.any(|dist| dist.site == python.site && dist.name == wheel.name),
        headers: (!wheel.shared).then(|| folder.parent().join(b"include")),
        folder,
        target: python,
    }))
}

pub(super) fn own(question: &InstallContext<'_>) -> Result<InstallMethod, MethodObstacle> {
    let system = &question.system;
    question.require_apt()?;
    question.require_shell()?;
    question.require_kept()?;
    let library = question.request.target.library;
    let packages = &question.request.target.tables.packages;
    let own = packages.distro_package(&system.id, &system.version);
    let own = own.ok_or_else(|| {
        format!(
            "no package of {} {} is known to contain CUPTI",
            system.id, system.version
        )
    })?;
    let cuda = parse_cuda_version(&own.cuda);
    // Without a wanted release, the distribution's is good enough.
    if let Some(release) = question
        .release
        .as_ref()
        .filter(|target| Some(target.release.cuda) != cuda)
    {
        let (major, minor) = release.release.cuda;
        let (name, has, because) = (&own.package, &own.cuda, &release.because);
        return Err(format!("{name} is for CUDA {has}, but {major}.{minor} is needed: {because}").into());
    }
    let soname = library.soname_of(&own.cuda).unwrap_or_default();
    Ok(InstallMethod::Package(PackageInstall {
        manager: SystemInstaller::AptGet,
        name: own.package.clone(),
        version: format!("{}.*", own.cuda),
        cuda,
        soname: image_linkage::escape::escape_bytes(soname.as_bytes()),
        is_listed: is_listed_by_dpkg(question, &own.package),
        setup: component(system, &own.component),
        folder: None,
    }))
}

/// The component, unless a sources file already has it.
fn component(system: &ImageSystem, component: &str) -> Option<RepositorySetup> {
    let names = |text: &str, word: &str| text.split_whitespace().any(|other| other == word);
    // A component in any sources file is set up.
    if system.sources.values().any(|text| names(text, component)) {
        return None;
    }
    let mut archives = system.sources.iter();
    // All components of an archive share its address and key, so copy the list with the new component.
    let (file, _) = archives.find(|(_, text)| names(text, "main"))?;
    Some(RepositorySetup::Component {
        name: component.to_owned(),
        // apt distinguishes the two formats by the file extension (sources.list(5)).
        deb822: file.name().ends_with(b".sources"),
        file: file.clone(),
    })
}

pub(super) fn apt(question: &InstallContext<'_>) -> Result<InstallMethod, MethodObstacle> {
    question.require_apt()?;
    package(question, SystemInstaller::AptGet)
}

pub(super) fn dnf(question: &InstallContext<'_>) -> Result<InstallMethod, MethodObstacle> {
    let manager = question.system.dnf.ok_or("the image has no dnf or zypper")?;
    package(question, manager)
}

fn package(question: &InstallContext<'_>, manager: SystemInstaller) -> Result<InstallMethod, MethodObstacle> {
    question.require_shell()?;
    question.require_kept()?;
    let release = question.release()?;
    let (major, minor) = release.cuda;
    let (id, version) = (&question.system.id, &question.system.version);
    let packages = &question.request.target.tables.packages;
    let known = packages.nvidia_repository(id, version, question.nvidia_machine());
    if let Some(other) = known.filter(|known| !known.has(release.cuda)) {
        let has = other.releases();
        return Err(format!("NVIDIA's repository for {id} {version} has {has}, but {major}.{minor} is needed").into());
    }
    let of_toolkit = question.release.as_ref().is_some_and(|it| it.is_toolkit);
    let library = question.request.target.library;
    let name = library.package.as_deref();
    let name = name.ok_or_else(|| format!("no package with {} is known", library.name))?;
    // A version that the repository lacks would fail the build. The repository has the version of the toolkit's other
    // packages.
    let exact = release.exact.as_ref().filter(|_| of_toolkit);
    let any = || format!("{major}.{minor}.*");
    // The part after the dash is the package's revision.
    let version = exact.map_or_else(any, |exact| format!("{exact}-1"));
    let name = fill_version(name, release.cuda);
    Ok(InstallMethod::Package(PackageInstall {
        manager,
        is_listed: match manager {
            SystemInstaller::AptGet => is_listed_by_dpkg(question, &name),
            _ => is_perhaps_listed_by_rpm(question, &name, release.cuda),
        },
        name,
        version,
        cuda: Some(release.cuda),
        soname: release.soname.clone(),
        setup: repository(question, known)?,
        folder: Some(question.toolkit_folder(release.cuda)),
    }))
}

/// Whether dpkg has a file list of a package, which then counts as installed even if its files are gone.
fn is_listed_by_dpkg(question: &InstallContext<'_>, package: &str) -> bool {
    let rootfs = &question.request.target.contexts.as_is.rootfs;
    let architecture = &question.request.target.image.platform.architecture;
    let mut lists = [format!("{package}.list"), format!("{package}:{architecture}.list")].into_iter();
    lists.any(|list| rootfs.file(format!("/var/lib/dpkg/info/{list}").as_bytes()).is_some())
}

/// Whether rpm's database has a package; if it cannot be read, whether the toolkit's folder exists. So the generated
/// command queries rpm.
fn is_perhaps_listed_by_rpm(question: &InstallContext<'_>, package: &str, cuda: CudaVersion) -> bool {
    let rootfs = &question.request.target.contexts.as_is.rootfs;
    if let Some(mut packages) = installed_rpms(rootfs) {
        return packages.any(|listed| listed.name == package.as_bytes());
    }
    // …/targets/x86_64-linux/lib
    let toolkit = question.toolkit_folder(cuda).parent().parent().parent();
    rootfs.lookup(&toolkit.absolute()).is_ok()
}

/// NVIDIA's repository for the distribution, unless one is already set up.
fn repository(
    question: &InstallContext<'_>,
    known: Option<&NvidiaRepository>,
) -> Result<Option<RepositorySetup>, MethodObstacle> {
    let system = &question.system;
    if system.has_nvidia {
        return Ok(None);
    }
    let (id, version) = (&system.id, &system.version);
    let packages = &question.request.target.tables.packages;
    let known = known.ok_or_else(|| format!("no NVIDIA repository is known for {id} {version}"))?;
    let url = packages.url.replace("{repository}", &known.repository);
    Ok(Some(RepositorySetup::Repository {
        url: url.replace("{machine}", question.nvidia_machine()),
        file: format!("cuda-{}.repo", known.repository),
        folder: match question.system.dnf {
            Some(SystemInstaller::Zypper) => "/etc/zypp/repos.d",
            _ => "/etc/yum.repos.d",
        },
        keyring: packages.keyring.clone(),
        certificates: !system.certificates,
    }))
}

pub(super) fn conda_of_consumer(question: &InstallContext<'_>) -> Result<InstallMethod, MethodObstacle> {
    let found = question.system.conda.as_ref().ok_or("the image has no conda")?;
    let mut consumers = question.request.target.consumers.iter();
    // Skip the environment's site-packages: pip also installs there, and its packages request pip's libraries.
    let is_of_conda = |object: &RootPath| object.starts_with(&found.prefix) && site_packages_of(object).is_none();
    if !consumers.any(|consumer| is_of_conda(&consumer.object)) {
        return Err("no program of the conda environment asks for CUPTI".into());
    }
    conda(question)
}

pub(super) fn conda(question: &InstallContext<'_>) -> Result<InstallMethod, MethodObstacle> {
    let found = question.system.conda.clone();
    let environment = found.ok_or("the image has no conda")?;
    question.require_shell()?;
    let package = question.request.target.library.conda.as_ref();
    let package = package.ok_or("no conda package is known to contain it")?;
    let release = question.release()?;
    let (major, minor) = release.cuda;
    let name = &package.name;
    if !package.is_of(major) {
        return Err(format!("conda-forge has no {name} for CUDA {major}.{minor}").into());
    }
    let needs = question.needs(release.cuda);
    let more = needs
        .iter()
        .any(|need| need.stem != question.request.target.library.stem);
    // The -dev package contains the libraries beside libcupti.
    let names = ["", "-dev"].iter().take(if more { 2 } else { 1 });
    let rootfs = &question.request.target.contexts.as_is.rootfs;
    let begin = format!("{major}.{minor}.");
    let mut records = conda_records(rootfs, &environment.prefix).into_iter();
    Ok(InstallMethod::Conda(CondaInstall {
        is_listed: records.any(|record| record.name == *name && record.version.starts_with(&begin)),
        environment,
        packages: names.map(|part| format!("{name}{part}={major}.{minor}.*")).collect(),
        soname: release.soname.clone(),
    }))
}
