//! Which way of getting CUPTI is the cheapest that works in an image, and why the others are not taken.

use super::RemedyError;
use super::copy_plan::{CacheUpdate, CopyPlan, plan_copy};
use super::image_system::{self, ImageSystem, PythonEnvironment};
use super::install_method::{
    CondaInstall, InPlaceFiles, InstallMethod, MethodKind, PackageInstall, PipInstall,
    RepositorySetup,
};
use super::required_libraries::{self, CUPTI, RequiredLibrary};
use super::target_release::TargetRelease;
use crate::judge::facts::ImageFacts;
use crate::judge::facts::cuda_runtime::{CudaVersion, parse_cuda_version, site_packages_of};
use crate::knowledge::{LibraryRelease, Phase, fill_version, has_api};
use image_linkage::loader::DynamicLoader;
use image_linkage::path::RootPath;

/// What a way has to bring, and into what.
pub struct InstallContext<'a> {
    /// The image.
    pub target: &'a ImageFacts,
    /// Its loader.
    pub linker: &'a DynamicLoader,
    /// Its system.
    pub system: ImageSystem,
    /// The phase.
    pub phase: &'a Phase,
    /// The release that it is to be given, where anything says it.
    pub release: Option<TargetRelease>,
    /// The image to copy from, by the name that `FROM` takes, and its facts.
    pub source: Option<(String, &'a ImageFacts)>,
}

/// A way that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsideredMethod {
    /// Its name.
    pub name: &'static str,
    /// Why it is taken, or why not.
    pub why: String,
}

/// The way that is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MethodChoice {
    /// The way.
    pub way: InstallMethod,
    /// The ways that were looked at, the one that is taken last.
    pub considered: Vec<ConsideredMethod>,
}

struct MethodCandidate {
    name: &'static str,
    via: Option<MethodKind>,
    cheap: &'static str,
    go: fn(&InstallContext<'_>) -> Result<InstallMethod, String>,
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
pub fn choose_method(
    question: &InstallContext<'_>,
    via: Option<MethodKind>,
) -> Result<MethodChoice, RemedyError> {
    let mut considered = Vec::new();
    for candidate in WAYS.iter().filter(|it| via.is_none() || it.via == via) {
        match (candidate.go)(question) {
            Ok(way) => {
                considered.push(ConsideredMethod {
                    name: candidate.name,
                    why: candidate.cheap.to_owned(),
                });
                return Ok(MethodChoice { way, considered });
            }
            Err(why) => considered.push(ConsideredMethod {
                name: candidate.name,
                why,
            }),
        }
    }
    let mut whys: Vec<String> = Vec::new();
    for considered in &considered {
        if !whys.contains(&considered.why) {
            whys.push(considered.why.clone());
        }
    }
    Err(RemedyError::NoWay {
        image: question.target.image.reference.clone(),
        via: via.map_or_else(String::new, |via| format!(" by {}", via.name())),
        whys: whys.join("; "),
    })
}

impl InstallContext<'_> {
    /// The libraries that the phase needs, of the release.
    pub fn needs(&self, cuda: (u32, u32)) -> Vec<RequiredLibrary> {
        required_libraries::list_required_libraries(
            self.target.tables,
            self.phase,
            &self.target.consumers,
            |api| has_api(cuda, api),
        )
    }

    fn release(&self) -> Result<&LibraryRelease, String> {
        let nothing = "nothing in the image says which CUDA it is for; --cuda names it";
        let target = self.release.as_ref().ok_or_else(|| nothing.to_owned())?;
        Ok(&target.release)
    }

    fn is_arm(&self) -> bool {
        self.linker.arch.name == "aarch64"
    }

    fn shell(&self) -> Result<(), String> {
        let has = self.system.shell.then_some(());
        has.ok_or_else(|| "the image has no shell that could install anything".to_owned())
    }
}

fn place(question: &InstallContext<'_>) -> Result<InstallMethod, String> {
    let target = question.target;
    if target.own_copies().next().is_none() {
        return Err("the image holds no libcupti".to_owned());
    }
    question.shell()?;
    let found = plan_copy(target, question.phase, target, CacheUpdate::Build);
    let bring = found.map_err(|refusal| refusal.to_string())?;
    let cupti = bring.files.first().map(|file| &file.from);
    let copy = target
        .own_copies()
        .find(|copy| Some(&copy.real_path) == cupti);
    if let Some(copy) = copy.filter(|copy| !copy.by_path.as_is.loads()) {
        let failure = crate::judge::facts::unresolved_objects(&copy.by_path.as_is).next();
        let words = failure.map(|failure| failure.message.as_str());
        return Err(format!(
            "the copy there cannot be loaded: {}",
            words.unwrap_or_default()
        ));
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
    folders.iter().any(|folder| folder != first)
        || names.any(|name| is_library(name) && !of_cupti(name))
}

fn copy(question: &InstallContext<'_>) -> Result<InstallMethod, String> {
    let source = question.source.as_ref();
    let (from, facts) = source.ok_or("no image to copy from was named with --from")?;
    let bring = plan_copy(facts, question.phase, question.target, CacheUpdate::Build);
    let bring = bring.map_err(|refusal| refusal.to_string())?;
    let has = bring.release.as_deref().and_then(parse_cuda_version);
    let wanted = question.release.as_ref().filter(|it| !it.is_guess);
    if let (Some(has), Some(wanted)) = (has, wanted)
        && has != wanted.release.cuda
    {
        let (major, minor) = wanted.release.cuda;
        let because = &wanted.because;
        return Err(format!(
            "{from} has CUPTI of CUDA {}.{}, and {major}.{minor} is wanted: {because}",
            has.0, has.1
        ));
    }
    Ok(InstallMethod::Copy {
        from: from.clone(),
        bring,
    })
}

fn pip_of_consumer(question: &InstallContext<'_>) -> Result<InstallMethod, String> {
    let consumers = question.target.consumers.iter();
    let mut sites = consumers
        .filter_map(|consumer| site_packages_of(&consumer.object))
        .peekable();
    if sites.peek().is_none() {
        return Err("no Python environment of the image asks for CUPTI".to_owned());
    }
    let python =
        sites.find_map(|site| image_system::find_python_environment(question.target, &site));
    let without = "the Python environment that asks for CUPTI has no pip";
    pip_into(question, &python.ok_or(without)?)
}

fn pip(question: &InstallContext<'_>) -> Result<InstallMethod, String> {
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
) -> Result<InstallMethod, String> {
    question.shell()?;
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

fn own(question: &InstallContext<'_>) -> Result<InstallMethod, String> {
    let system = &question.system;
    apt_is_there(system)?;
    question.shell()?;
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
    if let Some(release) = question
        .release
        .as_ref()
        .filter(|target| Some(target.release.cuda) != cuda)
    {
        let (major, minor) = release.release.cuda;
        let (name, has, because) = (&own.package, &own.cuda, &release.because);
        return Err(format!(
            "{name} is of CUDA {has}, and {major}.{minor} is wanted: {because}"
        ));
    }
    let soname = library.soname_of(&own.cuda).unwrap_or_default();
    Ok(InstallMethod::Package(PackageInstall {
        manager: "apt-get",
        name: own.package.clone(),
        version: format!("{}.*", own.cuda),
        soname: image_linkage::escape::escape_bytes(soname.as_bytes()),
        setup: component(system, &own.component),
        is_default_folder: true,
    }))
}

fn apt_is_there(system: &ImageSystem) -> Result<(), String> {
    let has = system.apt.then_some(());
    has.ok_or_else(|| "the image has no apt-get".to_owned())
}

/// The component, where no list of sources names it.
fn component(system: &ImageSystem, component: &str) -> Option<RepositorySetup> {
    let names = |text: &str, word: &str| text.split_whitespace().any(|other| other == word);
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

fn apt(question: &InstallContext<'_>) -> Result<InstallMethod, String> {
    apt_is_there(&question.system)?;
    package(question, "apt-get")
}

fn dnf(question: &InstallContext<'_>) -> Result<InstallMethod, String> {
    let manager = question.system.dnf.ok_or("the image has no dnf")?;
    package(question, manager)
}

/// The package of NVIDIA's repository.
fn package(question: &InstallContext<'_>, manager: &'static str) -> Result<InstallMethod, String> {
    question.shell()?;
    let system = &question.system;
    let release = question.release()?;
    let (major, minor) = release.cuda;
    let of_toolkit = question.release.as_ref().is_some_and(|it| it.is_toolkit);
    let library = question.target.library;
    let name = library.package.as_deref();
    let name = name.ok_or_else(|| format!("no package of {} is known", library.name))?;
    let exact = release.exact.as_ref().filter(|_| of_toolkit);
    let any = || format!("{major}.{minor}.*");
    let version = exact.map_or_else(any, |exact| format!("{exact}-1"));
    Ok(InstallMethod::Package(PackageInstall {
        manager,
        name: fill_version(name, release.cuda),
        version,
        soname: release.soname.clone(),
        setup: repository(question, system)?,
        is_default_folder: false,
    }))
}

/// NVIDIA's repository, where none is set up.
fn repository(
    question: &InstallContext<'_>,
    system: &ImageSystem,
) -> Result<Option<RepositorySetup>, String> {
    if system.nvidia.is_some() {
        return Ok(None);
    }
    let (id, version) = (&system.id, &system.version);
    let packages = &question.target.tables.packages;
    let known = packages.nvidia_repository(id, version);
    let known =
        known.ok_or_else(|| format!("no repository of NVIDIA's is known for {id} {version}"))?;
    let machine = if question.is_arm() { "sbsa" } else { "x86_64" };
    let url = packages.url.replace("{repository}", &known.repository);
    Ok(Some(RepositorySetup::Repository {
        url: url.replace("{machine}", machine),
        keyring: packages.keyring.clone(),
        certificates: !system.certificates,
    }))
}

fn conda(question: &InstallContext<'_>) -> Result<InstallMethod, String> {
    let found = question.system.conda.clone();
    let (program, prefix) = found.ok_or("the image has no conda")?;
    question.shell()?;
    let release = question.release()?;
    let (major, minor) = release.cuda;
    if major < 12 {
        return Err(format!(
            "conda-forge has no cuda-cupti of CUDA {major}.{minor}"
        ));
    }
    let needs = question.needs(release.cuda);
    let more = needs.iter().any(|need| need.stem != CUPTI);
    let names = ["cuda-cupti", "cuda-cupti-dev"];
    let names = names.iter().take(if more { 2 } else { 1 });
    Ok(InstallMethod::Conda(CondaInstall {
        program,
        prefix,
        packages: names
            .map(|name| format!("{name}={major}.{minor}.*"))
            .collect(),
        soname: release.soname.clone(),
    }))
}

/// The name of NVIDIA's devel image that belongs to an image; `None` where its distribution or the whole version of
/// its CUDA is not known.
pub fn devel_image_name(
    target: &ImageFacts,
    system: &ImageSystem,
    cuda: CudaVersion,
) -> Option<String> {
    let known = target
        .tables
        .packages
        .nvidia_repository(&system.id, &system.version)?;
    let exact = target.image.config.env("CUDA_VERSION")?;
    let is_number = exact.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let suffix = known
        .devel
        .as_ref()
        .filter(|_| is_number && parse_cuda_version(exact) == Some(cuda))?;
    Some(format!("nvidia/cuda:{exact}-devel-{suffix}"))
}

fn devel(question: &InstallContext<'_>) -> Result<InstallMethod, String> {
    if question.source.is_some() {
        return Err("--from names the image to copy from".to_owned());
    }
    let release = question.release()?;
    let from = devel_image_name(question.target, &question.system, release.cuda);
    let which = "which devel image of NVIDIA's belongs to the image is not known; --from names one";
    let from = from.ok_or_else(|| which.to_owned())?;
    let (major, minor) = release.cuda;
    let machine = if question.is_arm() { "sbsa" } else { "x86_64" };
    Ok(InstallMethod::Devel {
        from,
        folder: RootPath::from(
            format!("usr/local/cuda-{major}.{minor}/targets/{machine}-linux/lib").as_str(),
        ),
        release: release.clone(),
    })
}
