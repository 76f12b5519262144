//! Which way of getting CUPTI is the cheapest that works in an image, and why the others are not taken.

use serde::Serialize;

use super::copy_plan::{CopyPlan, plan_copy};
use super::copy_source::CopySource;
use super::image_system::{self, ImageSystem, PackageManager, PythonEnvironment};
use super::install_folder::CacheUpdate;
use super::install_method::{
    CondaInstall, InPlaceFiles, InstallMethod, MethodKind, PackageInstall, PipInstall,
    RepositorySetup,
};
use super::library_stems::CUPTI;
use super::required_libraries::{self, RequiredLibrary};
use super::target_release::TargetRelease;
use super::{MethodObstacle, RemedyError};
use crate::judge::facts::ImageFacts;
use crate::judge::facts::cuda_runtime::{CudaVersion, parse_cuda_version, site_packages_of};
use crate::knowledge::{LibraryRelease, Phase, fill_version, has_api};
use image_linkage::loader::DynamicLoader;
use image_linkage::path::RootPath;

/// What a way has to bring, and into what.
pub(crate) struct InstallContext<'a> {
    pub target: &'a ImageFacts,
    pub linker: &'a DynamicLoader,
    pub system: ImageSystem,
    pub phase: &'a Phase,
    /// The release that it is to be given, where anything says it.
    pub release: Option<TargetRelease>,
    pub source: Option<CopySource<'a>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ConsideredMethod {
    pub name: &'static str,
    /// Why it is taken, or why not.
    pub why: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MethodChoice {
    pub way: InstallMethod,
    /// The ways that were looked at, the one that is taken last.
    pub considered: Vec<ConsideredMethod>,
}

/// A way that there is, whether it works in this image or not.
struct MethodCandidate {
    name: &'static str,
    /// The kind by which a user asks for it; `None` for what takes no program and no other image.
    via: Option<MethodKind>,
    /// Why it is taken when it works.
    cheap: &'static str,
    go: fn(&InstallContext<'_>) -> Result<InstallMethod, MethodObstacle>,
}

/// The ways, the cheapest first.
const WAYS: [MethodCandidate; 9] = [
    MethodCandidate {
        name: "in place",
        via: None,
        cheap: "the files are in the image and only have to be found",
        go: place,
    },
    MethodCandidate {
        name: "copy",
        via: Some(MethodKind::Copy),
        cheap: "only the files that are needed, of an image that was read",
        go: copy,
    },
    MethodCandidate {
        name: "pip into the environment that asks",
        via: Some(MethodKind::Pip),
        cheap: "the search path of the program that asks leads to the wheel",
        go: pip_of_consumer,
    },
    MethodCandidate {
        name: "the distribution's own package",
        via: Some(MethodKind::Apt),
        cheap: "no other repository, and the loader looks where it puts its files",
        go: own,
    },
    MethodCandidate {
        name: "NVIDIA's package, by apt",
        via: Some(MethodKind::Apt),
        cheap: "the package of the toolkit that is in the image",
        go: apt,
    },
    MethodCandidate {
        name: "NVIDIA's package, by dnf",
        via: Some(MethodKind::Dnf),
        cheap: "the package of the toolkit that is in the image",
        go: dnf,
    },
    MethodCandidate {
        name: "conda",
        via: Some(MethodKind::Conda),
        cheap: "the image has a conda environment",
        go: conda,
    },
    MethodCandidate {
        name: "pip",
        via: Some(MethodKind::Pip),
        cheap: "the image has a Python with pip",
        go: pip,
    },
    // Last: gigabytes are pulled for a few files.
    MethodCandidate {
        name: "copy from NVIDIA's devel image",
        via: Some(MethodKind::Copy),
        cheap: "only the files that are needed, though the devel image has to be had",
        go: devel,
    },
];

/// The cheapest way that works, among those of `via` where one is asked for.
///
/// Errors: [`RemedyError::NoWay`] with the reason of each way that was looked at.
pub(crate) fn choose_method(
    question: &InstallContext<'_>,
    via: Option<MethodKind>,
) -> Result<MethodChoice, RemedyError> {
    let mut considered = Vec::new();
    let mut whys = Vec::new();
    for candidate in WAYS.iter().filter(|it| via.is_none() || it.via == via) {
        let name = candidate.name;
        match (candidate.go)(question) {
            Ok(way) => {
                let why = candidate.cheap.to_owned();
                considered.push(ConsideredMethod { name, why });
                return Ok(MethodChoice { way, considered });
            }
            Err(obstacle) => {
                let why = obstacle.to_string();
                considered.push(ConsideredMethod { name, why });
                whys.push(obstacle);
            }
        }
    }
    Err(RemedyError::NoWay {
        image: question.target.image.reference.clone(),
        via: via.map(MethodKind::name),
        whys,
    })
}

impl InstallContext<'_> {
    /// The libraries that the phase needs, of the release.
    pub(super) fn needs(&self, cuda: CudaVersion) -> Vec<RequiredLibrary> {
        required_libraries::list_required_libraries(
            self.target.tables,
            self.phase,
            &self.target.consumers,
            |api| has_api(cuda, api),
        )
    }

    fn release(&self) -> Result<&LibraryRelease, MethodObstacle> {
        let nothing = "nothing in the image says which CUDA it is for; --cuda names it";
        Ok(&self.release.as_ref().ok_or(nothing)?.release)
    }

    /// The processor in NVIDIA's repositories and in the folders of its toolkit.
    fn nvidia_machine(&self) -> &'static str {
        match self.linker.arch.name {
            // For server Arm; NVIDIA keeps "aarch64" for its Jetson boards.
            "aarch64" => "sbsa",
            _ => "x86_64",
        }
    }

    fn require_shell(&self) -> Result<(), MethodObstacle> {
        let has = self.system.shell.then_some(());
        Ok(has.ok_or("the image has no shell that could install anything")?)
    }

    fn require_apt(&self) -> Result<(), MethodObstacle> {
        let has = self.system.apt.then_some(());
        Ok(has.ok_or("the image has no apt-get")?)
    }
}

fn place(question: &InstallContext<'_>) -> Result<InstallMethod, MethodObstacle> {
    let target = question.target;
    if target.own_copies().next().is_none() {
        return Err("the image holds no libcupti".into());
    }
    question.require_shell()?;
    // The image is asked as its own source: where its copy would be refused, it does not serve in place either.
    let bring = plan_copy(target, question.phase, target, CacheUpdate::Build)?;
    let cupti = bring.files.first().map(|file| &file.from);
    // That the files are there says nothing of what they need in turn, and a search path does not bring it.
    let copy = target
        .own_copies()
        .find(|copy| Some(&copy.real_path) == cupti);
    if let Some(copy) = copy.filter(|copy| !copy.by_path.as_is.loads()) {
        let failure = crate::judge::facts::unresolved_objects(&copy.by_path.as_is).next();
        let words = failure.map(|failure| failure.message.as_str());
        return Err(format!(
            "the copy there cannot be loaded: {}",
            words.unwrap_or_default()
        )
        .into());
    }
    Ok(InstallMethod::Place(InPlaceFiles {
        is_shared: is_shared(target, &bring),
        bring,
    }))
}

/// Whether other libraries lie beside what is needed.
fn is_shared(target: &ImageFacts, bring: &CopyPlan) -> bool {
    let rootfs = &target.grounds.as_is.rootfs;
    let folders: Vec<RootPath> = bring.files.iter().map(|file| file.from.parent()).collect();
    let Some(first) = folders.first() else {
        return false;
    };
    let of_cupti = |name: &[u8]| {
        let companions = target.library.companions();
        companions
            .chain([CUPTI])
            .any(|stem| name.starts_with(stem.as_bytes()))
    };
    let found = rootfs.lookup(&first.absolute()).ok();
    let mut names = found
        .iter()
        .flat_map(|found| rootfs.children(found.node))
        .map(|(name, _)| name);
    let is_library = |name: &[u8]| name.windows(3).any(|part| part == b".so");
    // Files in several folders are led to as those in a shared one are: by links.
    folders.iter().any(|folder| folder != first)
        || names.any(|name| is_library(name) && !of_cupti(name))
}

fn copy(question: &InstallContext<'_>) -> Result<InstallMethod, MethodObstacle> {
    let source = question.source;
    let CopySource { name: from, facts } =
        source.ok_or("no image to copy from was named with --from")?;
    let bring = plan_copy(facts, question.phase, question.target, CacheUpdate::Build)?;
    let has = bring.release.as_deref().and_then(parse_cuda_version);
    // A release that was guessed from a soname has no say in the minor version of files that were read.
    let wanted = question.release.as_ref().filter(|it| !it.is_guess);
    if let (Some(has), Some(wanted)) = (has, wanted)
        && has != wanted.release.cuda
    {
        let (major, minor) = wanted.release.cuda;
        let because = &wanted.because;
        return Err(format!(
            "{from} has CUPTI of CUDA {}.{}, and {major}.{minor} is wanted: {because}",
            has.0, has.1
        )
        .into());
    }
    Ok(InstallMethod::Copy {
        from: from.to_owned(),
        bring,
    })
}

fn pip_of_consumer(question: &InstallContext<'_>) -> Result<InstallMethod, MethodObstacle> {
    let consumers = question.target.consumers.iter();
    let mut sites = consumers
        .filter_map(|consumer| site_packages_of(&consumer.object))
        .peekable();
    if sites.peek().is_none() {
        return Err("no Python environment of the image asks for CUPTI".into());
    }
    let python =
        sites.find_map(|site| image_system::find_python_environment(question.target, &site));
    let without = "the Python environment that asks for CUPTI has no pip";
    pip_into(question, &python.ok_or(without)?)
}

fn pip(question: &InstallContext<'_>) -> Result<InstallMethod, MethodObstacle> {
    let distributions = question.target.around.distributions.iter();
    let mut sites: Vec<&RootPath> = distributions.map(|dist| &dist.site).collect();
    sites.dedup();
    let python = sites
        .iter()
        .find_map(|site| image_system::find_python_environment(question.target, site));
    let without = "the image has no Python environment with pip";
    pip_into(question, &python.ok_or(without)?)
}

fn pip_into(
    question: &InstallContext<'_>,
    python: &PythonEnvironment,
) -> Result<InstallMethod, MethodObstacle> {
    question.require_shell()?;
    let release = question.release()?;
    let library = question.target.library;
    let mut wheels = library.wheels.install.iter();
    let major = release.cuda.0;
    let wheel = wheels.find(|wheel| wheel.major == major);
    let wheel =
        wheel.ok_or_else(|| format!("there is no wheel of {} for CUDA {major}", library.name))?;
    let mut listed = question.target.around.distributions.iter();
    Ok(InstallMethod::Pip(PipInstall {
        interpreter: python.interpreter.clone(),
        name: wheel.name.clone(),
        version: release.wheel(),
        soname: release.soname.clone(),
        folder: python.site.join(wheel.folder.as_bytes()),
        is_listed: listed.any(|dist| dist.site == python.site && dist.name == wheel.name),
        is_managed: python.is_managed,
        is_shared: wheel.shared,
    }))
}

fn own(question: &InstallContext<'_>) -> Result<InstallMethod, MethodObstacle> {
    let system = &question.system;
    question.require_apt()?;
    question.require_shell()?;
    let library = question.target.library;
    let packages = &question.target.tables.packages;
    let own = packages.distro_package(&system.id, &system.version);
    let own = own.ok_or_else(|| {
        format!(
            "no package of {} {} is known to hold CUPTI",
            system.id, system.version
        )
    })?;
    let cuda = parse_cuda_version(&own.cuda);
    // Where nothing says which release is wanted, that of the distribution will do.
    if let Some(release) = question
        .release
        .as_ref()
        .filter(|target| Some(target.release.cuda) != cuda)
    {
        let (major, minor) = release.release.cuda;
        let (name, has, because) = (&own.package, &own.cuda, &release.because);
        return Err(
            format!("{name} is of CUDA {has}, and {major}.{minor} is wanted: {because}").into(),
        );
    }
    let soname = library.soname_of(&own.cuda).unwrap_or_default();
    Ok(InstallMethod::Package(PackageInstall {
        manager: PackageManager::AptGet,
        name: own.package.clone(),
        version: format!("{}.*", own.cuda),
        cuda,
        soname: image_linkage::escape::escape_bytes(soname.as_bytes()),
        setup: component(system, &own.component),
        is_default_folder: true,
    }))
}

/// The component, where no list of sources names it.
fn component(system: &ImageSystem, component: &str) -> Option<RepositorySetup> {
    let names = |text: &str, word: &str| text.split_whitespace().any(|other| other == word);
    // A component that one list names is set up, whichever list that is.
    if system.sources.values().any(|text| names(text, component)) {
        return None;
    }
    let mut archives = system.sources.iter();
    let (file, _) = archives.find(|(_, text)| names(text, "main"))?;
    Some(RepositorySetup::Component {
        component: component.to_owned(),
        file: file.clone(),
    })
}

fn apt(question: &InstallContext<'_>) -> Result<InstallMethod, MethodObstacle> {
    question.require_apt()?;
    package(question, PackageManager::AptGet)
}

fn dnf(question: &InstallContext<'_>) -> Result<InstallMethod, MethodObstacle> {
    let manager = question.system.dnf.ok_or("the image has no dnf")?;
    package(question, manager)
}

fn package(
    question: &InstallContext<'_>,
    manager: PackageManager,
) -> Result<InstallMethod, MethodObstacle> {
    question.require_shell()?;
    let release = question.release()?;
    let (major, minor) = release.cuda;
    let of_toolkit = question.release.as_ref().is_some_and(|it| it.is_toolkit);
    let library = question.target.library;
    let name = library.package.as_deref();
    let name = name.ok_or_else(|| format!("no package of {} is known", library.name))?;
    // A version that the repository does not have fails the build; it has that of the toolkit's other packages.
    let exact = release.exact.as_ref().filter(|_| of_toolkit);
    let any = || format!("{major}.{minor}.*");
    // Behind the dash stands the package's own revision.
    let version = exact.map_or_else(any, |exact| format!("{exact}-1"));
    Ok(InstallMethod::Package(PackageInstall {
        manager,
        name: fill_version(name, release.cuda),
        version,
        cuda: Some(release.cuda),
        soname: release.soname.clone(),
        setup: repository(question)?,
        is_default_folder: false,
    }))
}

/// NVIDIA's repository, where none is set up.
fn repository(question: &InstallContext<'_>) -> Result<Option<RepositorySetup>, MethodObstacle> {
    let system = &question.system;
    if system.nvidia.is_some() {
        return Ok(None);
    }
    let (id, version) = (&system.id, &system.version);
    let packages = &question.target.tables.packages;
    let known = packages.nvidia_repository(id, version);
    let known =
        known.ok_or_else(|| format!("no repository of NVIDIA's is known for {id} {version}"))?;
    let url = packages.url.replace("{repository}", &known.repository);
    Ok(Some(RepositorySetup::Repository {
        url: url.replace("{machine}", question.nvidia_machine()),
        file: format!("cuda-{}.repo", known.repository),
        keyring: packages.keyring.clone(),
        certificates: !system.certificates,
    }))
}

fn conda(question: &InstallContext<'_>) -> Result<InstallMethod, MethodObstacle> {
    let found = question.system.conda.clone();
    let environment = found.ok_or("the image has no conda")?;
    question.require_shell()?;
    let release = question.release()?;
    let (major, minor) = release.cuda;
    // The packages by component begin with CUDA 12; before there was one cudatoolkit.
    if major < 12 {
        return Err(format!("conda-forge has no cuda-cupti of CUDA {major}.{minor}").into());
    }
    let needs = question.needs(release.cuda);
    let more = needs.iter().any(|need| need.stem != CUPTI);
    // The libraries beside libcupti come with the package for development.
    let names = ["cuda-cupti", "cuda-cupti-dev"];
    let names = names.iter().take(if more { 2 } else { 1 });
    Ok(InstallMethod::Conda(CondaInstall {
        environment,
        packages: names
            .map(|name| format!("{name}={major}.{minor}.*"))
            .collect(),
        soname: release.soname.clone(),
    }))
}

/// The name of NVIDIA's devel image that belongs to an image; `None` where its distribution or the whole version of
/// its CUDA is not known.
pub(crate) fn devel_image_name(
    target: &ImageFacts,
    system: &ImageSystem,
    cuda: CudaVersion,
) -> Option<String> {
    let known = target
        .tables
        .packages
        .nvidia_repository(&system.id, &system.version)?;
    let exact = target.image.config.env("CUDA_VERSION")?;
    // The value comes from the image and becomes part of a name behind FROM.
    let is_number = exact.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let suffix = known
        .devel
        .as_ref()
        .filter(|_| is_number && parse_cuda_version(exact) == Some(cuda))?;
    Some(format!("nvidia/cuda:{exact}-devel-{suffix}"))
}

fn devel(question: &InstallContext<'_>) -> Result<InstallMethod, MethodObstacle> {
    if question.source.is_some() {
        return Err("--from names the image to copy from".into());
    }
    let release = question.release()?;
    let from = devel_image_name(question.target, &question.system, release.cuda);
    let which = "which devel image of NVIDIA's belongs to the image is not known; --from names one";
    let from = from.ok_or(which)?;
    let (major, minor) = release.cuda;
    let machine = question.nvidia_machine();
    Ok(InstallMethod::Devel {
        from,
        folder: RootPath::from(
            format!("usr/local/cuda-{major}.{minor}/targets/{machine}-linux/lib").as_str(),
        ),
        release: release.clone(),
    })
}
