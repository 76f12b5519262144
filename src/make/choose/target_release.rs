//! The CUPTI release for an image, and the evidence for it.

use super::Obstacle;
use super::conda_environment::conda_cuda;
use super::target::elf_at;
use super::wanted_cupti::{WantedCupti, find_wanted_cupti, neediest_consumer, requested_soname};
use crate::facts::ImageFacts;
use crate::facts::software::cuda_runtime::{CudaVersion, parse_cuda_version, site_packages_of};
use crate::knowledge::{LibraryRelease, ReleaseFile, WheelPackage};
use image_linkage::elf::SymbolRole;
use image_linkage::escape;
use image_linkage::loader::DynamicLoader;
use image_linkage::path::RootPath;
use python_path::{ExactRequirement, PythonDistribution};

/// The CUPTI release for an image, and the evidence for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TargetRelease {
    pub release: LibraryRelease,
    /// Whether the image's CUDA runtime has exactly this version; then the toolkit's packages have it too.
    pub is_toolkit: bool,
    /// Whether only its soname is certain.
    pub is_guess: bool,
    /// The evidence for this release.
    pub because: String,
}

/// The release for the image, with the soname that the neediest program requests. The evidence in order: a pin of a
/// Python distribution, a conda environment, the CUDA runtime, CUPTI remains, and last the newest release. A release
/// without a function that a program imports is skipped, unless all lack one.
pub(crate) fn choose_release(
    target: &ImageFacts,
    linker: &DynamicLoader,
    asked: Option<CudaVersion>,
) -> Option<TargetRelease> {
    let wanted = find_wanted_cupti(target);
    let known = target.tables.releases.versions_for(release_platform(linker));
    let of = |cuda: CudaVersion| newest_release(target, linker, cuda).map(str::to_owned);
    let by_version = |cuda: CudaVersion, because: String| TargetRelease {
        release: target.library.release(cuda, of(cuda)),
        is_toolkit: false,
        is_guess: false,
        because,
    };
    if let Some(cuda) = asked {
        return Some(by_version(cuda, "you asked for it".to_owned()));
    }
    // Surest evidence first: pins, then files in the image, then the soname.
    let likely = pinned(target, &wanted)
        .or_else(|| {
            let (cuda, because) = conda_cuda(target).filter(|(cuda, _)| wanted.fits(target, *cuda))?;
            Some(by_version(cuda, because))
        })
        .or_else(|| of_runtime(target, &wanted, &known, &of))
        .or_else(|| traced_cuda(target, &wanted).map(|(cuda, because)| by_version(cuda, because)))
        .or_else(|| of_soname(target, &wanted, &known))?;
    match lacking_function(target, &wanted, &likely.release) {
        Some(lacks) => of_functions(target, &wanted, &known, &lacks).or(Some(likely)),
        None => Some(likely),
    }
}

/// The release for the image in words with the evidence, and the wheel that contains it.
pub(crate) fn release_words(target: &ImageFacts) -> Option<(String, Option<String>)> {
    let linker = target.contexts.as_is.linker.as_ref()?;
    let TargetRelease { release, because, .. } = choose_release(target, linker, None)?;
    let (major, minor) = release.cuda;
    let wheel = choose_wheel(target, linker, &release)
        .ok()
        .map(|(wheel, version)| format!("{}=={version}", wheel.name));
    let version = release.exact.unwrap_or_else(|| format!("CUDA {major}.{minor}"));
    Some((format!("{} of {version} ({because})", release.soname), wheel))
}

/// The wheel that contains a release, and its version.
///
/// Errors: No wheel contains it.
pub(crate) fn choose_wheel<'t>(
    target: &'t ImageFacts,
    linker: &DynamicLoader,
    release: &LibraryRelease,
) -> Result<(&'t WheelPackage, String), Obstacle> {
    let (library, tables, platform) = (target.library, target.tables, release_platform(linker));
    let (major, minor) = release.cuda;
    let wheel = library
        .wheel_of(major)
        .ok_or_else(|| format!("no wheel of {} exists for CUDA {major}", library.name))?;
    let name = &wheel.name;
    let version = tables
        .wheels
        .version_of(name, release, platform, &tables.releases)
        .ok_or_else(|| format!("the package index has no {name} of CUDA {major}.{minor} for {platform}"))?;
    Ok((wheel, version))
}

/// The name of a processor in the table of releases.
pub(crate) fn release_platform(linker: &DynamicLoader) -> &'static str {
    linker.arch.platform
}

/// The CUDA version of the CUPTI remains in the image: copies, links, headers and folders, surest first.
fn traced_cuda(target: &ImageFacts, wanted: &WantedCupti) -> Option<(CudaVersion, String)> {
    let (library, releases) = (target.library, &target.tables.releases);
    let copies = target.own_copies().filter_map(|copy| {
        let version = copy
            .version
            .as_ref()
            .map(|(version, _)| version.clone())
            // The name of a damaged file still says what should be there.
            .or_else(|| library.version_by_name(releases, copy.real_path.name()))?;
        Some((
            parse_cuda_version(&version)?,
            format!("{} is of {version}", copy.real_path),
        ))
    });
    let links = target.dangling.iter().filter_map(|link| {
        let name = RootPath::new(&link.target);
        let version = library.version_by_name(releases, name.name())?;
        Some((
            parse_cuda_version(&version)?,
            format!("{} led to {}", link.path, escape::escape_bytes(name.name())),
        ))
    });
    let headers = target.headers.iter().filter_map(|(header, _)| {
        let file = header.parent().join(library.header_version.as_ref()?.file.as_bytes());
        let version = library.version_by_header(target.contexts.as_is.rootfs.content(&file.absolute())?)?;
        Some((parse_cuda_version(&version)?, format!("{file} is of {version}")))
    });
    let files = target
        .own_copies()
        .map(|copy| &copy.real_path)
        .chain(target.dangling.iter().map(|link| &link.path))
        .chain(target.headers.iter().map(|(header, _)| header));
    let folders = files.filter_map(|file| {
        let mut parts = file
            .split_components()
            .filter_map(|part| std::str::from_utf8(part).ok());
        // The install folder of a toolkit, from packages or by hand.
        let version = parts.find_map(|part| part.strip_prefix("cuda-"))?;
        Some((
            parse_cuda_version(version)?,
            format!("{file} is in the toolkit of {version}"),
        ))
    });
    let mut all = copies.chain(links).chain(headers).chain(folders);
    all.find(|(cuda, _)| wanted.fits(target, *cuda))
}

/// The known file of a library of this CUDA version, from the newest release: its SHA-256 and facts.
pub(crate) fn known_file<'t>(
    target: &'t ImageFacts,
    linker: &DynamicLoader,
    cuda: CudaVersion,
    stem: &str,
) -> Option<(&'t str, &'t ReleaseFile)> {
    let platform = release_platform(linker);
    let exact = newest_release(target, linker, cuda)?;
    let mut files = target.tables.releases.by_hash.iter();
    let (sha256, file) = files.find(|(_, file)| {
        file.arch == platform && file.file.starts_with(stem) && file.versions.iter().any(|of| of == exact)
    })?;
    Some((sha256.as_str(), file))
}

/// The newest known release of a CUDA version.
pub(crate) fn newest_release<'t>(target: &'t ImageFacts, linker: &DynamicLoader, cuda: CudaVersion) -> Option<&'t str> {
    let mut known = target
        .tables
        .releases
        .versions_for(release_platform(linker))
        .into_iter();
    known.rfind(|known| parse_cuda_version(known) == Some(cuda))
}

/// The exact version that a Python distribution requires. Packages beside the neediest program come first.
fn pinned(target: &ImageFacts, wanted: &WantedCupti) -> Option<TargetRelease> {
    let site = neediest_consumer(target).and_then(|consumer| site_packages_of(&consumer.object));
    let mut pins = Vec::new();
    for dist in &target.related.distributions {
        for pin in &dist.pins {
            let release = release_of_pin(target, dist, pin);
            pins.extend(release.map(|release| (dist, pin.is_optional, release)));
        }
    }
    pins.retain(|(_, _, pin)| {
        let soname = wanted.soname.as_deref();
        soname.is_none_or(|soname| pin.release.soname.as_bytes() == soname)
    });
    let nearest = pins
        .into_iter()
        .min_by_key(|(dist, is_optional, _)| (Some(&dist.site) != site.as_ref(), *is_optional));
    nearest.map(|(_, _, pin)| pin)
}

/// The release that an exact requirement means: a wheel of the library, or a toolkit that contains one.
fn release_of_pin(target: &ImageFacts, dist: &PythonDistribution, pin: &ExactRequirement) -> Option<TargetRelease> {
    let wheels = &target.library.wheels;
    let [is_pin, is_toolkit] =
        [&wheels.pin, &wheels.toolkit].map(|wheel| wheel.as_deref().is_some_and(|wheel| pin.name.starts_with(wheel)));
    let exact = if is_pin {
        pin.version.clone()
    } else if is_toolkit {
        let mut toolkits = target.tables.toolkits.iter();
        toolkits.find(|toolkit| toolkit.cuda == pin.version)?.cupti.clone()
    } else {
        return None;
    };
    let verb = if pin.is_optional {
        "has an extra that requires"
    } else {
        "requires"
    };
    Some(TargetRelease {
        release: target.library.release(parse_cuda_version(&exact)?, Some(exact)),
        is_toolkit: false,
        is_guess: false,
        because: format!("{} {} {verb} it", dist.name, dist.version),
    })
}

fn of_runtime(
    target: &ImageFacts,
    wanted: &WantedCupti,
    known: &[&str],
    of: &impl Fn(CudaVersion) -> Option<String>,
) -> Option<TargetRelease> {
    let cuda = wanted.cuda?;
    let mut runtimes = target.related.runtimes.iter();
    let runtime = runtimes.find(|runtime| parse_cuda_version(&runtime.version) == Some(cuda));
    // The runtime and CUPTI usually have the same version; otherwise the newest CUPTI of that CUDA version will do.
    let same = runtime
        .map(|runtime| &runtime.version)
        .filter(|version| known.contains(&version.as_str()));
    let exact = same.cloned().or_else(|| of(cuda));
    let because = runtime.map_or_else(
        || "the image sets CUDA_VERSION to it".to_owned(),
        |runtime| format!("the CUDA runtime in the image is {}", runtime.version),
    );
    Some(TargetRelease {
        is_toolkit: exact.is_some() && exact.as_ref() == runtime.map(|runtime| &runtime.version),
        is_guess: false,
        release: target.library.release(cuda, exact),
        because,
    })
}

/// The newest release of a soname; `None` for a soname without a version.
fn of_soname(target: &ImageFacts, wanted: &WantedCupti, known: &[&str]) -> Option<TargetRelease> {
    let release = releases_of_soname(target, wanted, known).next()?;
    let by = wanted.by.as_deref().unwrap_or("the image");
    Some(TargetRelease {
        because: format!(
            "{by} asks for {} without a minor version, and this is the newest known",
            release.soname
        ),
        release,
        is_toolkit: false,
        is_guess: true,
    })
}

/// The newest release of the soname with all functions that programs import. `lacks` names the function that the
/// likelier release lacks.
fn of_functions(target: &ImageFacts, wanted: &WantedCupti, known: &[&str], lacks: &str) -> Option<TargetRelease> {
    let mut releases = releases_of_soname(target, wanted, known);
    let release = releases.find(|release| lacking_function(target, wanted, release).is_none())?;
    Some(TargetRelease {
        because: format!("it is the newest release with {lacks}"),
        release,
        is_toolkit: false,
        is_guess: true,
    })
}

/// The known releases of the wanted soname, newest first; none for a soname without a version.
fn releases_of_soname<'t>(
    target: &'t ImageFacts,
    wanted: &'t WantedCupti,
    known: &'t [&str],
) -> impl Iterator<Item = LibraryRelease> + 't {
    known.iter().rev().filter_map(|version| {
        let cuda = parse_cuda_version(version)?;
        let release = target.library.release(cuda, Some((*version).to_owned()));
        (wanted.soname.as_deref() == Some(release.soname.as_bytes())).then_some(release)
    })
}

/// A function that a program imports and a release lacks, in words. Also `None` if the functions of the release are
/// unknown.
fn lacking_function(target: &ImageFacts, wanted: &WantedCupti, release: &LibraryRelease) -> Option<String> {
    let version = release.exact.as_deref()?;
    let mut asking = target.answers.consumers.iter().filter(|consumer| {
        let soname = requested_soname(target, consumer);
        Some(&soname) == wanted.soname.as_ref() && consumer.unreachable().is_none()
    });
    asking.find_map(|consumer| {
        let own = target.library.symbols.as_bytes();
        let mut symbols = elf_at(target, &consumer.object)?.symbols.iter();
        let lacks = symbols.find(|symbol| {
            let is_own = symbol.role == SymbolRole::Import && symbol.name.starts_with(own);
            is_own && target.tables.functions.lacks(version, &symbol.name)
        })?;
        let function = escape::escape_bytes(&lacks.name);
        Some(format!(
            "{function}, which {} imports and {version} lacks",
            consumer.name
        ))
    })
}
