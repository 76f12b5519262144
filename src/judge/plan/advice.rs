//! The answer without an image: whether the tools need CUPTI, which files and bytes, and where they are had from.

use std::collections::BTreeMap;

use crate::knowledge::advice::InstallSource;
use crate::knowledge::api::CuptiApi;
use crate::knowledge::packages::DistroPackage;
use crate::knowledge::{CuptiNeed, Knowledge, LibraryRelease, Phase, Profiler, version_numbers};

/// The processor whose sizes are told.
pub const ARCH: &str = "x86_64";

/// What is advised on tools and a phase, without an image.
#[derive(Debug, Clone)]
pub struct ToolAdvice<'p> {
    /// The phase that was asked about.
    pub phase: Option<String>,
    /// The tools that were named, in that order, or those of the phase.
    pub tools: Vec<&'p Profiler>,
    /// What it is advised by.
    pub knowledge: &'p Knowledge,
    /// The release of CUPTI; `None` where no tool needs it in the image.
    pub release: Option<AdvisedRelease>,
    /// The files of CUPTI that the tools need.
    pub files: Vec<FileNeed>,
    /// The APIs that the release does not have yet, or no more.
    pub not_in_release: Vec<&'static CuptiApi>,
    /// Where the files are had from, the commands filled in.
    pub sources: Vec<InstallSource>,
}

/// The release of CUPTI that the answer is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdvisedRelease {
    /// The release, its whole version only where that is one of this version of CUDA.
    pub release: LibraryRelease,
    /// The release that the sizes are of: this one, else the nearest older one that is known, or the oldest.
    pub sizes_of: String,
    /// Whether nobody named a version.
    pub assumed: bool,
}

/// A file of CUPTI and what needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileNeed {
    /// The soname of CUPTI, or the bare name by which CUPTI opens a library beside it.
    pub name: String,
    /// The size in bytes, where it is known.
    pub bytes: Option<u64>,
    /// The APIs that need it.
    pub apis: Vec<&'static CuptiApi>,
    /// Whether only some options of the tools need it.
    pub optional: bool,
}

/// The tool that a name stands for.
///
/// Errors: A sentence with the nearest names, when there is none.
pub fn find_tool<'p>(name: &str, profilers: &'p [Profiler]) -> Result<&'p Profiler, String> {
    let found = profilers.iter().find(|profiler| profiler.answers_to(name));
    found.ok_or_else(|| {
        let lower = name.to_lowercase();
        let names = profilers.iter().flat_map(|profiler| {
            // What has it as its first word comes before what looks so.
            let begins = |own: &str| match own.strip_prefix(&*lower) {
                Some(rest) if !rest.starts_with(|next: char| next.is_alphanumeric()) => 1.0,
                _ => 0.0,
            };
            let alike = |own| (strsim::jaro_winkler(&lower, own) + begins(own), own);
            profiler.names().map(alike).collect::<Vec<_>>()
        });
        // A slip of the fingers stays above this likeness; names that share a few letters fall below it.
        let mut near: Vec<(f64, &str)> = names.filter(|(alike, _)| *alike > 0.75).collect();
        near.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        let near: Vec<&str> = near.into_iter().take(4).map(|(_, own)| own).collect();
        let near = if near.is_empty() {
            String::new()
        } else {
            format!("; near to it are {}", near.join(", "))
        };
        format!(
            "there is no tool \"{}\"{near}; cupti-audit advise lists them",
            image_linkage::escape::escape_bytes(name.as_bytes())
        )
    })
}

/// The tools of a phase: those of `profiles/advice.yaml`, or those that the phase itself names.
pub fn tools_of_phase<'p>(phase: &Phase, knowledge: &'p Knowledge) -> Vec<&'p Profiler> {
    let profilers = &knowledge.profilers;
    let ids: Vec<&str> = match knowledge.tables.advice.tools.get(&phase.name) {
        Some(ids) => ids.iter().map(String::as_str).collect(),
        // A phase that a user wrote has no entry among the advice.
        None => phase.profilers.accepted_ids().collect(),
    };
    let named = |id: &&str| profilers.iter().find(|profiler| profiler.id == **id);
    ids.iter().filter_map(named).collect()
}

/// Advises on the tools that are named or, without any, on what `phase` demands and its tools; for a version of CUDA
/// or, without one, the newest 12.x that is known.
///
/// Errors: A version that is none, in words.
pub fn advise_on_tools<'p>(
    phase: Option<&Phase>,
    named: Vec<&'p Profiler>,
    knowledge: &'p Knowledge,
    cuda: Option<&str>,
) -> Result<ToolAdvice<'p>, String> {
    let chosen = choose(knowledge, cuda)?;
    // Tools that are named count; the phase then only says what the image is for.
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
    // Tools that bring a CUPTI of their own, as Nsight Systems does, leave nothing to install.
    if demands || advice.tools.iter().any(|tool| tool.profile.cupti == CuptiNeed::InImage) {
        let wished = demanding.map(|phase| demanded_apis(phase, knowledge, &chosen));
        let apis = wished.unwrap_or_default().into_iter().map(|api| (api, false));
        let apis: Vec<_> = apis.chain(tool_apis(knowledge, &advice.tools)).collect();
        (advice.files, advice.not_in_release) = files(knowledge, &apis, &chosen);
        advice.sources = sources(knowledge, &chosen);
        advice.release = Some(chosen);
    }
    Ok(advice)
}

/// What a Dockerfile for the phase brings: of alternatives the first that the release has.
fn demanded_apis(phase: &Phase, knowledge: &Knowledge, chosen: &AdvisedRelease) -> Vec<&'static CuptiApi> {
    let wishes = phase.wished_apis(knowledge.tables);
    let of_release = |apis: Vec<&'static CuptiApi>| {
        let has = apis.iter().find(|api| chosen.release.has(api));
        has.or(apis.first()).copied()
    };
    wishes.filter_map(of_release).collect()
}

fn choose(knowledge: &Knowledge, cuda: Option<&str>) -> Result<AdvisedRelease, String> {
    let versions = knowledge.tables.releases.versions_for(ARCH);
    let of = |version: &str| match version_numbers(version).as_slice() {
        [major, minor, ..] => Some((*major, *minor)),
        _ => None,
    };
    let newest = || {
        versions
            .iter()
            .rev()
            // CUDA 13 asks for a driver of 580 or later, which not every host has: 12 is the careful answer.
            .find_map(|version| of(version).filter(|(major, _)| *major == 12))
    };
    let wanted = match cuda {
        Some(text) => of(text).ok_or_else(|| {
            format!(
                "{:?} is no version of CUDA; expected one such as 12.4",
                image_linkage::escape::escape_bytes(text.as_bytes())
            )
        })?,
        None => newest().unwrap_or((12, 0)),
    };
    if !knowledge.tables.was_released(wanted) {
        let (major, minor) = wanted;
        return Err(format!(
            "CUDA {major}.{minor} does not exist; a driver that shows it runs the CUDA release before it"
        ));
    }
    let mut not_newer = versions.iter().filter(|version| of(version) <= Some(wanted));
    let sizes_of = not_newer.next_back().or(versions.first()).copied();
    let sizes_of = sizes_of.ok_or("no release of CUPTI is known")?;
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
        // Another release has it: its files cannot be counted among this one's.
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
                // The table has the real name, `libcupti.so.2024.1.1`; the stem is what the names share.
                .find(|(file, _)| file.starts_with(&stem))
                .map(|(_, bytes)| *bytes);
            let file = files.entry(stem).or_insert(FileNeed {
                name,
                bytes,
                apis: Vec::new(),
                optional: true,
            });
            // One API that is needed outright makes the file needed.
            file.optional &= optional;
            if !file.apis.contains(&api) {
                file.apis.push(api);
            }
        }
    }
    (files.into_values().collect(), not_in_release)
}

/// The APIs of the tools that need CUPTI in the image, and whether they are for options alone.
fn tool_apis(knowledge: &Knowledge, tools: &[&Profiler]) -> impl Iterator<Item = (&'static CuptiApi, bool)> {
    let tables = knowledge.tables;
    let needed = tools.iter().flat_map(|tool| &tool.profile.apis);
    let options = tools.iter().flat_map(|tool| &tool.profile.optional_apis);
    let all = needed.map(|id| (id, false)).chain(options.map(|id| (id, true)));
    all.filter_map(|(id, optional)| Some((tables.find_api(id)?, optional)))
}

/// Where the release is had from: a source that does not have it is left out.
fn sources(knowledge: &Knowledge, chosen: &AdvisedRelease) -> Vec<InstallSource> {
    let (tables, library) = (knowledge.tables, knowledge.library);
    let (major, minor) = chosen.release.cuda;
    let cuda = format!("{major}.{minor}");
    let soname = &chosen.release.soname;
    // A command writes `libcupti.so.{soname}`, so that the number alone is filled in.
    let number = library.number_of(soname.as_bytes()).unwrap_or(soname);
    let (major, minor) = (major.to_string(), minor.to_string());
    let of_release = [("{major}", &*major), ("{minor}", &*minor), ("{soname}", number)];
    let mut wheels = library.wheels.install.iter();
    let wheel = wheels
        .find(|wheel| wheel.major == chosen.release.cuda.0)
        .and_then(|wheel| {
            let release = &chosen.release;
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
    let conda = library
        .conda
        .iter()
        .filter(|conda| conda.from_major <= chosen.release.cuda.0);
    let of_conda = conda.map(|conda| ("{conda}", &*conda.name));
    let gaps: Vec<(&str, &str)> = of_release.into_iter().chain(of_wheel).chain(of_conda).collect();
    let packages = || tables.packages.own.iter().filter(|own| own.cuda == cuda);
    let fill = |source: &InstallSource| match source.filled(&gaps) {
        Some(filled) => vec![filled],
        None => packages().filter_map(|own| of_distribution(source, own)).collect(),
    };
    tables.sources.iter().flat_map(fill).collect()
}

/// The source as a distribution's own package.
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

    /// The bytes that the tools need, and those with all their options.
    pub fn bytes(&self) -> (u64, u64) {
        let sum = |with: fn(&&FileNeed) -> bool| {
            let files = self.files.iter().filter(with);
            files.filter_map(|file| file.bytes).sum()
        };
        (sum(|file| !file.optional), sum(|_| true))
    }
}
