//! A package of the distribution, or of NVIDIA's repository for it.

use super::unread::{UnreadLibraries, spare_libraries};
use crate::facts::software::cuda_runtime::{CudaVersion, parse_cuda_version};
use crate::facts::software::rpm_database::installed_rpms;
use crate::knowledge::fill_version;
use crate::knowledge::packages::NvidiaRepository;
use crate::make::choose::Obstacle;
use crate::make::choose::image_system::{ImageSystem, SystemInstaller};
use crate::make::choose::request::PatchContext;
use crate::make::choose::search_path::default_folder;
use crate::make::patch::package::{Package, RepositorySetup, SystemPackage};
use crate::make::patch::{ConfLine, FileOrigin, ImagePatch, SearchPath};
use image_linkage::escape::escape_bytes;
use image_linkage::path::RootPath;

/// Installs the distribution's own package.
///
/// Errors: Why this does not work.
pub(in crate::make::choose) fn propose_own(context: &PatchContext<'_>) -> Result<Vec<ImagePatch>, Obstacle> {
    let system = &context.system;
    context.require_apt()?;
    context.require_shell()?;
    context.require_kept()?;
    let library = context.request.target.library;
    let packages = &context.request.target.tables.packages;
    let (id, version) = (&system.id, &system.version);
    let own = packages
        .distro_package(id, version)
        .ok_or_else(|| format!("no package of {id} {version} is known to contain CUPTI"))?;
    let cuda = parse_cuda_version(&own.cuda);
    // Without a wanted release, the distribution's is good enough.
    if let Some(release) = context
        .release
        .as_ref()
        .filter(|target| Some(target.release.cuda) != cuda)
    {
        let (major, minor) = release.release.cuda;
        let (name, has, because) = (&own.package, &own.cuda, &release.because);
        return Err(format!("{name} is for CUDA {has}, but {major}.{minor} is needed: {because}").into());
    }
    let soname = library.soname_of(&own.cuda).unwrap_or_default();
    let package = SystemPackage {
        manager: SystemInstaller::AptGet,
        name: own.package.clone(),
        version: format!("{}.*", own.cuda),
        is_listed: is_listed_by_dpkg(context, &own.package),
        setup: component(system, &own.component),
        is_default: true,
        spare: Vec::new(),
    };
    let folder = default_folder(&context.request.target.contexts.as_is.rootfs, context.linker);
    let search = SearchPath::Default {
        folder: folder.clone(),
        because: match context.install.conf {
            Some(_) => "the package puts its files where the loader searches by default".to_owned(),
            None => context.install.default_words(),
        },
    };
    Ok(vec![install(
        context,
        package,
        &escape_bytes(soname.as_bytes()),
        cuda,
        &folder,
        search,
    )])
}

/// The component, unless a sources file already has it.
fn component(system: &ImageSystem, component: &str) -> Option<RepositorySetup> {
    let mut archives = system.sources.iter();
    // A component in any sources file is set up.
    if archives
        .clone()
        .any(|(_, text)| text.split_whitespace().any(|word| word == component))
    {
        return None;
    }
    // All components of an archive share its address and key, so copy the list with the new component.
    let (file, _) = archives.find(|(_, text)| text.split_whitespace().any(|word| word == "main"))?;
    Some(RepositorySetup::Component {
        name: component.to_owned(),
        // apt distinguishes the two formats by the file extension (sources.list(5)).
        deb822: file.name().ends_with(b".sources"),
        file: file.clone(),
    })
}

/// Installs NVIDIA's package with apt.
///
/// Errors: Why this does not work.
pub(in crate::make::choose) fn propose_apt(context: &PatchContext<'_>) -> Result<Vec<ImagePatch>, Obstacle> {
    context.require_apt()?;
    of_nvidia(context, SystemInstaller::AptGet)
}

/// Installs NVIDIA's package with dnf, or what the image has for RPM packages.
///
/// Errors: Why this does not work.
pub(in crate::make::choose) fn propose_rpm(context: &PatchContext<'_>) -> Result<Vec<ImagePatch>, Obstacle> {
    let manager = context.system.rpm_installer.ok_or("the image has no dnf or zypper")?;
    of_nvidia(context, manager)
}

fn of_nvidia(context: &PatchContext<'_>, manager: SystemInstaller) -> Result<Vec<ImagePatch>, Obstacle> {
    context.require_shell()?;
    context.require_kept()?;
    let release = context.release()?;
    let (major, minor) = release.cuda;
    let (id, version) = (&context.system.id, &context.system.version);
    let packages = &context.request.target.tables.packages;
    let known = packages.nvidia_repository(id, version, context.nvidia_machine());
    if let Some(other) = known.filter(|known| !known.has(release.cuda)) {
        let has = other.releases();
        return Err(format!("NVIDIA's repository for {id} {version} has {has}, but {major}.{minor} is needed").into());
    }
    let of_toolkit = context.release.as_ref().is_some_and(|it| it.is_toolkit);
    let library = context.request.target.library;
    let pattern = library
        .package
        .as_deref()
        .ok_or_else(|| format!("no package with {} is known", library.name))?;
    let version = match &release.exact {
        // A version that the repository lacks would fail the build. The repository has the version of the toolkit's
        // other packages. The part after the dash is the package's revision.
        Some(exact) if of_toolkit => format!("{exact}-1"),
        _ => format!("{major}.{minor}.*"),
    };
    let name = fill_version(pattern, release.cuda);
    let package = SystemPackage {
        manager,
        is_listed: match manager {
            SystemInstaller::AptGet => is_listed_by_dpkg(context, &name),
            _ => is_perhaps_listed_by_rpm(context, &name, release.cuda),
        },
        name,
        version,
        setup: repository(context, known)?,
        is_default: false,
        spare: Vec::new(),
    };
    let folder = context.toolkit_folder(release.cuda);
    let search = match context.install.conf.clone() {
        Some(file) => SearchPath::Configured {
            folder: folder.clone(),
            line: Some(ConfLine {
                file,
                asks_package: true,
            }),
            because: String::new(),
        },
        None => SearchPath::Own {
            because: context.install.default_words(),
        },
    };
    Ok(vec![install(
        context,
        package,
        &release.soname,
        Some(release.cuda),
        &folder,
        search,
    )])
}

/// The patch that installs a package with these libraries into `folder`.
fn install(
    context: &PatchContext<'_>,
    mut package: SystemPackage,
    soname: &str,
    cuda: Option<CudaVersion>,
    folder: &RootPath,
    search: SearchPath,
) -> ImagePatch {
    let release = context.brought_release(package.version.clone());
    let unread = UnreadLibraries {
        soname,
        cuda,
        release: Some(release),
    };
    let patch = unread.patch(context, folder, |_| FileOrigin::Package);
    package.spare = spare_libraries(context, &patch);
    ImagePatch {
        title: format!("install {}", package.name),
        package: Some(Package::System(package)),
        search,
        ..patch
    }
}

/// Whether dpkg has a file list of a package, which then counts as installed even if its files are gone.
fn is_listed_by_dpkg(context: &PatchContext<'_>, package: &str) -> bool {
    let rootfs = &context.request.target.contexts.as_is.rootfs;
    let architecture = &context.request.target.image.platform.architecture;
    let mut lists = [format!("{package}.list"), format!("{package}:{architecture}.list")].into_iter();
    lists.any(|list| rootfs.file(format!("/var/lib/dpkg/info/{list}").as_bytes()).is_some())
}

/// Whether rpm's database has a package; if it cannot be read, whether the toolkit's folder exists. So the generated
/// command queries rpm.
fn is_perhaps_listed_by_rpm(context: &PatchContext<'_>, package: &str, cuda: CudaVersion) -> bool {
    let rootfs = &context.request.target.contexts.as_is.rootfs;
    if let Some(mut packages) = installed_rpms(rootfs) {
        return packages.any(|listed| listed.name == package.as_bytes());
    }
    // …/targets/x86_64-linux/lib
    let toolkit = context.toolkit_folder(cuda).parent().parent().parent();
    rootfs.lookup(&toolkit.absolute()).is_ok()
}

/// NVIDIA's repository for the distribution, unless one is already set up.
fn repository(
    context: &PatchContext<'_>,
    known: Option<&NvidiaRepository>,
) -> Result<Option<RepositorySetup>, Obstacle> {
    let system = &context.system;
    if system.has_nvidia {
        return Ok(None);
    }
    let (id, version) = (&system.id, &system.version);
    let packages = &context.request.target.tables.packages;
    let known = known.ok_or_else(|| format!("no NVIDIA repository is known for {id} {version}"))?;
    let url = packages.url.replace("{repository}", &known.repository);
    Ok(Some(RepositorySetup::Repository {
        url: url.replace("{machine}", context.nvidia_machine()),
        file: format!("cuda-{}.repo", known.repository),
        folder: match context.system.rpm_installer {
            Some(SystemInstaller::Zypper) => "/etc/zypp/repos.d",
            _ => "/etc/yum.repos.d",
        },
        keyring: packages.keyring.clone(),
        certificates: !system.certificates,
    }))
}
