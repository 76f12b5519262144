//! Advice without an image: whether tools need CUPTI, which files and how many bytes, and where to install it from.

use std::collections::BTreeMap;

use crate::facts::software::cuda_runtime::parse_cuda_version;
use crate::knowledge::advice::InstallSource;
use crate::knowledge::api::CuptiApi;
use crate::knowledge::packages::DistroPackage;
use crate::knowledge::{CuptiNeed, Knowledge, LibraryRelease, Phase, Profiler, version_numbers};

/// The processor architecture whose file sizes are shown.
pub const ARCH: &str = "x86_64";

/// Advice on tools and a phase, without an image.
#[derive(Debug, Clone)]
pub struct ToolAdvice<'p> {
    /// The requested phase.
    pub phase: Option<String>,
    /// The tools in the order the user named them, or those of the phase.
    pub tools: Vec<&'p Profiler>,
    /// The knowledge that the advice is based on.
    pub knowledge: &'p Knowledge,
    /// The release of CUPTI; `None` if no tool needs it in the image.
    pub release: Option<AdvisedRelease>,
    /// The files of CUPTI that the tools need.
    pub files: Vec<FileNeed>,
    /// The APIs that the release does not have yet, or no longer has.
    pub not_in_release: Vec<&'static CuptiApi>,
    /// Where to get the files, with the placeholders of the commands filled in.
    pub sources: Vec<InstallSource>,
}

/// The release of CUPTI that the advice is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdvisedRelease {
    /// The release. It has a full version only if one is known for this CUDA version.
    pub release: LibraryRelease,
    /// The release that the sizes are from: this one, else the nearest older known one, else the oldest.
    pub sizes_of: String,
    /// Whether the version is a default.
    pub assumed: bool,
}

/// A file of CUPTI and the APIs that need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileNeed {
    /// The soname of CUPTI, or the stem of a library that CUPTI opens from its own folder.
    pub name: String,
    /// The size in bytes, if known.
    pub bytes: Option<u64>,
    /// The APIs that need it.
    pub apis: Vec<&'static CuptiApi>,
    /// Whether only some options of the tools need it.
    pub optional: bool,
}

/// Finds a tool by name.
///
/// Errors: A message with the most similar names, if there is no such tool.
pub fn find_tool<'p>(name: &str, profilers: &'p [Profiler]) -> Result<&'p Profiler, String> {
    let found = profilers.iter().find(|profiler| profiler.answers_to(name));
    found.ok_or_else(|| {
        let lower = name.to_lowercase();
        let names = profilers.iter().flat_map(|profiler| {
            let likeness = profiler.names().map(|own| {
                let likeness = strsim::jaro_winkler(&lower, own);
                match own.strip_prefix(&*lower) {
                    // Names that start with this word rank above names that only look similar.
                    Some(rest) if !rest.starts_with(|next: char| next.is_alphanumeric()) => (likeness + 1.0, own),
                    _ => (likeness, own),
                }
            });
            likeness.collect::<Vec<_>>()
        });
        // Typing errors score above 0.75; names that merely share a few letters score below.
        let mut near: Vec<(f64, &str)> = names.filter(|(alike, _)| *alike > 0.75).collect();
        near.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        let listed: Vec<&str> = near.into_iter().take(4).map(|(_, own)| own).collect();
        let hint = if listed.is_empty() {
            String::new()
        } else {
            format!("; near to it are {}", listed.join(", "))
        };
        format!(
            "there is no tool \"{}\"{hint}; cupti-audit advise lists them",
            image_linkage::escape::escape_bytes(name.as_bytes())
        )
    })
}

/// The tools of a phase: those in `profiles/advice.yaml`, or those that the phase itself names.
pub fn tools_of_phase<'p>(phase: &Phase, knowledge: &'p Knowledge) -> Vec<&'p Profiler> {
    let profilers = &knowledge.profilers;
    let ids: Vec<&str> = match knowledge.tables.advice.tools.get(&phase.name) {
        Some(ids) => ids.iter().map(String::as_str).collect(),
        // A user's phase has no entry in the advice.
        None => phase.profilers.accepted_ids().collect(),
    };
    let tools = ids
        .iter()
        .filter_map(|id| profilers.iter().find(|profiler| profiler.id == **id));
    tools.collect()
}

/// Advises on the named tools, or else on the demands and tools of `phase`. Without a CUDA version it uses the newest
/// known 12.x.
///
/// Errors: A message about an invalid or nonexistent version.
pub fn advise_on_tools<'p>(
    phase: Option<&Phase>,
    named: Vec<&'p Profiler>,
    knowledge: &'p Knowledge,
    cuda: Option<&str>,
) -> Result<ToolAdvice<'p>, String> {
    let chosen = choose(knowledge, cuda)?;
    // Named tools take precedence; the phase then only tells what the image is for.
    let demanding = phase.filter(|_| named.is_empty());
    let tools = demanding.map_or(named, |phase| tools_of_phase(phase, knowledge));
    let mut advice = ToolAdvice {
        phase: phase.map(|phase| phase.name.clone()),
        tools,
        knowledge,
        release: None,
        files: Vec::new(),
        not_in_release: Vec::new(),
        sources: Vec::new(),
    };
    let demands = demanding.is_some_and(|phase| phase.wished_apis(knowledge.tables).next().is_some());
    // Tools that bundle CUPTI, such as Nsight Systems, need nothing installed.
    if demands || advice.tools.iter().any(|tool| tool.profile.cupti == CuptiNeed::InImage) {
        let wished = demanding.map(|phase| demanded_apis(phase, knowledge, &chosen));
        let mut apis: Vec<_> = wished.unwrap_or_default().into_iter().map(|api| (api, false)).collect();
        apis.extend(tool_apis(knowledge, &advice.tools));
        (advice.files, advice.not_in_release) = files(knowledge, &apis, &chosen);
        advice.sources = sources(knowledge, &chosen);
        advice.release = Some(chosen);
    }
    Ok(advice)
}

/// The APIs that a Dockerfile for the phase installs: the first alternative that the release has.
fn demanded_apis(phase: &Phase, knowledge: &Knowledge, chosen: &AdvisedRelease) -> Vec<&'static CuptiApi> {
    let wishes = phase.wished_apis(knowledge.tables);
    wishes
        .filter_map(|apis| {
            let has = apis.iter().find(|api| chosen.release.has(api));
            has.or(apis.first()).copied()
        })
        .collect()
}

fn choose(knowledge: &Knowledge, cuda: Option<&str>) -> Result<AdvisedRelease, String> {
    let versions = knowledge.tables.releases.versions_for(ARCH);
    let of = |version: &str| match version_numbers(version).as_slice() {
        [major, minor, ..] => Some((*major, *minor)),
        _ => None,
    };
    let wanted = if let Some(text) = cuda {
        parse_cuda_version(text).ok_or_else(|| {
            format!(
                "{:?} is no version of CUDA; expected one such as 12.4",
                image_linkage::escape::escape_bytes(text.as_bytes())
            )
        })?
    } else {
        // CUDA 13 needs driver 580 or later, which many hosts lack. 12 is the safer default.
        let mut newest = versions.iter().rev().filter_map(|version| of(version));
        newest.find(|(major, _)| *major == 12).unwrap_or((12, 0))
    };
    if !knowledge.tables.was_released(wanted) {
        let (major, minor) = wanted;
        return Err(format!(
            "there is no CUDA {major}.{minor}; if nvidia-smi shows it, pass the newest CUDA release before it"
        ));
    }
    let mut not_newer = versions.iter().filter(|version| of(version) <= Some(wanted));
    let sizes_of = not_newer
        .next_back()
        .or(versions.first())
        .copied()
        .ok_or("no release of CUPTI is known")?;
    Ok(AdvisedRelease {
        release: knowledge
            .library
            .release(wanted, (of(sizes_of) == Some(wanted)).then(|| sizes_of.to_owned())),
        sizes_of: sizes_of.to_owned(),
        assumed: cuda.is_none(),
    })
}

fn files(
    knowledge: &Knowledge,
    apis: &[(&'static CuptiApi, bool)],
    chosen: &AdvisedRelease,
) -> (Vec<FileNeed>, Vec<&'static CuptiApi>) {
    let sizes = knowledge.tables.releases.files_of(&chosen.sizes_of, ARCH);
    let mut files: BTreeMap<String, FileNeed> = BTreeMap::new();
    let mut not_in_release: Vec<&'static CuptiApi> = Vec::new();
    for &(api, optional) in apis {
        // Another release has the API, so its files do not count for this one.
        if !chosen.release.has(api) {
            if !not_in_release.contains(&api) {
                not_in_release.push(api);
            }
            continue;
        }
        let cupti = (knowledge.library.stem.clone(), chosen.release.soname.clone());
        let libraries = api.libraries.iter().map(|library| {
            let stem = library.stem().to_owned();
            (stem.clone(), stem)
        });
        for (stem, name) in std::iter::once(cupti).chain(libraries) {
            let bytes = sizes
                .iter()
                // The table has real names such as `libcupti.so.2024.1.1`; only the stem is common.
                .find(|(file, _)| file.starts_with(&stem))
                .map(|(_, bytes)| *bytes);
            let file = files.entry(stem).or_insert(FileNeed {
                name,
                bytes,
                apis: Vec::new(),
                optional: true,
            });
            // One required API makes the file required.
            file.optional &= optional;
            if !file.apis.contains(&api) {
                file.apis.push(api);
            }
        }
    }
    (files.into_values().collect(), not_in_release)
}

/// The APIs of the tools that need CUPTI in the image, and whether only options use them.
fn tool_apis(knowledge: &Knowledge, tools: &[&Profiler]) -> impl Iterator<Item = (&'static CuptiApi, bool)> {
    let tables = knowledge.tables;
    let needed = tools.iter().flat_map(|tool| &tool.profile.apis);
    let options = tools.iter().flat_map(|tool| &tool.profile.optional_apis);
    let all = needed.map(|id| (id, false)).chain(options.map(|id| (id, true)));
    all.filter_map(|(id, optional)| Some((tables.find_api(id)?, optional)))
}

/// The sources of the release; a source without this release is left out.
fn sources(knowledge: &Knowledge, chosen: &AdvisedRelease) -> Vec<InstallSource> {
    let (tables, library) = (knowledge.tables, knowledge.library);
    let (major, minor) = chosen.release.cuda;
    let cuda = format!("{major}.{minor}");
    let soname = &chosen.release.soname;
    // The commands contain `libcupti.so.{soname}`, so only the number is filled in.
    let number = library.number_of(soname.as_bytes()).unwrap_or(soname);
    let (major, minor) = (major.to_string(), minor.to_string());
    let of_release = [("{major}", &*major), ("{minor}", &*minor), ("{soname}", number)];
    let release = &chosen.release;
    let wheel = library.wheel_of(release.cuda.0).and_then(|wheel| {
        let version = tables.wheels.version_of(&wheel.name, release, ARCH, &tables.releases);
        Some((wheel, version?))
    });
    let of_wheel = wheel.iter().flat_map(|(wheel, version)| {
        [
            ("{wheel}", &*wheel.name),
            ("{folder}", &*wheel.folder),
            ("{version}", &**version),
        ]
    });
    let conda = library.conda.iter().filter(|conda| conda.is_of(release.cuda.0));
    let of_conda = conda.map(|conda| ("{conda}", &*conda.name));
    let gaps: Vec<(&str, &str)> = of_release.into_iter().chain(of_wheel).chain(of_conda).collect();
    let mut filled = Vec::new();
    for source in &tables.sources {
        if let Some(own) = source.filled(&gaps) {
            filled.push(own);
            continue;
        }
        let packages = tables.packages.own.iter().filter(|own| own.cuda == cuda);
        filled.extend(packages.filter_map(|own| of_distribution(source, own)));
    }
    filled
}

/// The source for a distribution's own package.
fn of_distribution(source: &InstallSource, own: &DistroPackage) -> Option<InstallSource> {
    let mut name = own.id.clone();
    if let Some(first) = name.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    let distribution = format!("{name} {}", own.version);
    let gaps = [
        ("{distribution}", &*distribution),
        ("{component}", &*own.component),
        ("{package}", &*own.package),
    ];
    let source = source.filled(&gaps)?;
    Some(InstallSource {
        id: own.id.clone(),
        certainty: own.certainty,
        ..source
    })
}

impl ToolAdvice<'_> {
    /// Whether a tool needs CUPTI in the image.
    pub fn needs_cupti(&self) -> bool {
        self.release.is_some()
    }

    /// The bytes that the tools need, without and with all their options.
    pub fn bytes(&self) -> (u64, u64) {
        let (mut needed, mut all) = (0, 0);
        for file in &self.files {
            let bytes = file.bytes.unwrap_or(0);
            all += bytes;
            needed += if file.optional { 0 } else { bytes };
        }
        (needed, all)
    }
}
