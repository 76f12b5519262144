//! Tracks the state of libcupti after each step of a stage, and finds problematic steps.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::installed_packages::{CommandEffect, NamedPackage, read_command, speaks_of_library};
use super::stages::{BuildStage, BuildStep, CopyAction, StepAction, find_stage};
use crate::facts::software::cuda_runtime::{CudaVersion, parse_cuda_version};
use crate::judge::rule::{BuildStepFacts, RuleSubject};
use crate::knowledge::packages::{BaseImage, InstalledPackage, NvidiaRepository, PackageManager, StepYield};
use crate::knowledge::{Knowledge, fill_version};

/// The text of a fix if no package of the same manager is known for the base image's CUDA.
const PACKAGE_OF_ITS_CUDA: &str =
    "the libcupti package for the CUDA of the base image; cupti-audit advise --cuda X.Y names it";

/// The folders that ld.so searches without a cache (ld.so(8)), including those for one architecture.
const DEFAULT_FOLDERS: [&str; 4] = ["/lib", "/usr/lib", "/lib64", "/usr/lib64"];

/// The presence of libcupti in a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CuptiPresence {
    Absent,
    /// Inside a wheel or a conda package.
    Wheel,
    Library,
    /// The base image, or a script, may contain it.
    Unknown,
}

impl CuptiPresence {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Absent => "no step brings it",
            Self::Wheel => "a Python package brings it",
            Self::Library => "it is there",
            Self::Unknown => "not known",
        }
    }
}

/// A stage after its last step.
#[derive(Debug, Clone)]
pub(super) struct StageState {
    pub presence: CuptiPresence,
    pub cuda: Option<CudaVersion>,
    /// `ID` and `VERSION_ID` of its distribution, if the base image's name shows them.
    system: Option<(String, String)>,
    /// The folders of `LD_LIBRARY_PATH`; `None` if the base image may set any.
    library_path: Option<BTreeSet<String>>,
}

/// A problem with a step, independent of the other steps.
pub(super) struct StepProblem {
    pub span: Range<usize>,
    facts: BuildStepFacts,
    /// The edit that fixes the instruction: replace a part, or append.
    edit: Option<StepEdit>,
}

enum StepEdit {
    Replace(Range<usize>, String),
    Append(String),
}

impl StepProblem {
    /// The step as a rule subject, for a build that ends in state `end`.
    pub(super) fn subject(&self, end: &StageState, is_concerned: bool) -> RuleSubject {
        let is_brought = matches!(end.presence, CuptiPresence::Library | CuptiPresence::Wheel);
        let is_open = end.presence == CuptiPresence::Unknown;
        RuleSubject::of_build_step(&self.facts, is_brought, is_open, is_concerned)
    }

    /// Whether a later stage based on this one adds the library's folder to the search path.
    pub(super) fn is_mended_by<'s>(&self, later: impl Iterator<Item = &'s BuildStep>) -> bool {
        self.facts.brings == "off-path" && is_searched(&self.facts.folder, Some(&BTreeSet::new()), later)
    }

    /// The corrected instruction.
    pub(super) fn replacement(&self, text: &str) -> Option<String> {
        let written = text.get(self.span.clone())?;
        match self.edit.as_ref()? {
            StepEdit::Append(more) => Some(format!("{}\n{more}", written.trim_end())),
            StepEdit::Replace(part, new) => {
                let before = text.get(self.span.start..part.start)?;
                let after = text.get(part.end..self.span.end)?;
                Some(format!("{before}{new}{after}"))
            }
        }
    }
}

/// Walks the stages of a file, each once.
pub(super) struct StageWalk<'a> {
    stages: &'a [BuildStage],
    knowledge: &'a Knowledge,
    states: BTreeMap<usize, StageState>,
    problems: BTreeMap<usize, Vec<StepProblem>>,
}

impl<'a> StageWalk<'a> {
    pub(super) fn new(stages: &'a [BuildStage], knowledge: &'a Knowledge) -> Self {
        let mut walk = Self {
            stages,
            knowledge,
            states: BTreeMap::new(),
            problems: BTreeMap::new(),
        };
        // A stage refers only to earlier ones, so their states are known by then.
        for (number, stage) in stages.iter().enumerate() {
            let state = walk.follow(number, stage);
            walk.states.insert(number, state);
        }
        walk
    }

    pub(super) fn state_of(&mut self, number: usize) -> StageState {
        self.states
            .get(&number)
            .cloned()
            .unwrap_or_else(|| self.state_of_image(""))
    }

    pub(super) fn problems_of(&self, number: usize) -> &[StepProblem] {
        self.problems.get(&number).map_or(&[], Vec::as_slice)
    }

    fn follow(&mut self, number: usize, stage: &BuildStage) -> StageState {
        let parent = stage.parent.and_then(|parent| self.states.get(&parent).cloned());
        let mut now = parent.unwrap_or_else(|| self.state_of_image(&stage.base));
        let mut problems = Vec::new();
        for (at, step) in stage.steps.iter().enumerate() {
            match &step.action {
                StepAction::Env(variables) => now.set_variables(variables),
                StepAction::Run(commands) => {
                    for words in commands {
                        let found = self.run(&mut now, &read_command(words, self.knowledge));
                        problems.extend(found.into_iter().map(|(facts, edit)| StepProblem {
                            span: step.span.clone(),
                            facts,
                            edit,
                        }));
                    }
                }
                StepAction::Copy(copy) => {
                    let later = stage.steps.get(at + 1..).unwrap_or_default();
                    let found = self.copy(&mut now, copy, later);
                    problems.extend(found.map(|(facts, edit)| StepProblem {
                        span: step.span.clone(),
                        facts,
                        edit,
                    }));
                }
            }
        }
        self.problems.insert(number, problems);
        now
    }

    /// The state of a base image.
    fn state_of_image(&self, reference: &str) -> StageState {
        let reference = reference.split('@').next().unwrap_or_default();
        let (name, tag) = match reference.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, tag),
            _ => (reference, ""),
        };
        let is_it = |image: &&BaseImage| {
            let end = name.strip_suffix(image.name.as_str());
            // `docker.io/library/ubuntu` is ubuntu, but `myubuntu` is not.
            end.is_some_and(|end| end.is_empty() || end.ends_with('/')) && tag.contains(&image.tag)
        };
        let known = self.knowledge.tables.packages.images.iter().find(is_it);
        let has_version = name.ends_with("cuda");
        let cuda = parse_cuda_version(tag).filter(|_| has_version);
        let searched = known.map(|image| {
            let folders = image.searched.iter();
            let folders = folders.filter(|folder| parse_cuda_version(&folder.from) <= cuda);
            folders.map(|folder| folder.folder.clone()).collect()
        });
        StageState {
            presence: match (reference, known.map(|image| image.brings)) {
                ("scratch", _) | (_, Some(StepYield::Nothing | StepYield::Absent)) => CuptiPresence::Absent,
                (_, Some(StepYield::Library)) => CuptiPresence::Library,
                (_, Some(StepYield::Wheel)) => CuptiPresence::Wheel,
                (_, None) => CuptiPresence::Unknown,
            },
            cuda,
            system: self.system_of(name, tag),
            library_path: searched,
        }
    }

    /// The distribution of an image, by the tag suffix of NVIDIA's images or by its own name.
    fn system_of(&self, name: &str, tag: &str) -> Option<(String, String)> {
        let packages = &self.knowledge.tables.packages;
        let is_nvidia = |of: &&NvidiaRepository| of.devel.as_ref().is_some_and(|end| tag.ends_with(end.as_str()));
        let nvidia = packages.nvidia.iter().find(is_nvidia);
        let nvidia = nvidia.map(|of| (of.id.clone(), of.version.clone()));
        let id = name.rsplit('/').next().unwrap_or_default();
        let version = tag.split('-').next().unwrap_or_default();
        nvidia.or_else(|| {
            packages
                .distro_package(id, version)
                .map(|own| (own.id.clone(), own.version.clone()))
        })
    }

    fn known_package(&self, named: &NamedPackage<'_>) -> Option<(&InstalledPackage, Option<CudaVersion>)> {
        let packages = &self.knowledge.tables.packages;
        let mut of_manager = packages.steps.iter().filter(|package| package.manager == named.manager);
        of_manager.find_map(|package| Some((package, package.cuda_of_name(&named.name)?)))
    }

    fn run(&self, state: &mut StageState, effect: &CommandEffect<'_>) -> Vec<(BuildStepFacts, Option<StepEdit>)> {
        let mut found = Vec::new();
        match effect {
            CommandEffect::Nothing => {}
            CommandEffect::Unknown => state.may_gain(),
            CommandEffect::Installs { packages, more } => {
                for named in packages {
                    found.extend(self.install(state, named));
                }
                if *more {
                    state.may_gain();
                }
            }
        }
        found
    }

    fn install(&self, state: &mut StageState, named: &NamedPackage<'_>) -> Option<(BuildStepFacts, Option<StepEdit>)> {
        let own = || {
            let mut own = self.knowledge.tables.packages.own.iter();
            own.find(|own| own.package == named.name)
                .map(|own| parse_cuda_version(&own.cuda))
        };
        let (brings, release, is_whole) = match self.known_package(named) {
            // A wheel's name contains only the major version.
            Some((package, None)) if package.own => {
                let system = state.system.as_ref();
                let own = system.and_then(|(id, version)| self.knowledge.tables.packages.distro_package(id, version));
                (package.brings, own.and_then(|own| parse_cuda_version(&own.cuda)), true)
            }
            Some((package, release)) => (package.brings, release, package.name.contains("{minor}")),
            None => (StepYield::Library, own()?, true),
        };
        let cuda = state.cuda.or(release);
        let mut facts = BuildStepFacts {
            what: named.name.clone(),
            cuda: cuda.map(words),
            release: release.map(|of| if is_whole { words(of) } else { of.0.to_string() }),
            ..BuildStepFacts::default()
        };
        match brings {
            StepYield::Nothing | StepYield::Absent => {
                facts.brings = if brings == StepYield::Absent {
                    "no-package"
                } else {
                    "nothing"
                };
                let right = self.right_package(named.manager, cuda);
                let new = right.as_ref().map(|right| match brings {
                    StepYield::Absent => right.clone(),
                    _ => format!("{} {right}", named.word.text),
                });
                facts.instead = right.unwrap_or_else(|| PACKAGE_OF_ITS_CUDA.to_owned());
                Some((facts, new.map(|new| StepEdit::Replace(named.word.span.clone(), new))))
            }
            StepYield::Library | StepYield::Wheel => {
                let is_other = release.zip(state.cuda).is_some_and(|(own, other)| own.0 != other.0);
                if !is_other {
                    state.gain(brings);
                    return None;
                }
                facts.brings = "other-release";
                let right = self.right_package(named.manager, state.cuda);
                facts.instead = right.clone().unwrap_or_else(|| PACKAGE_OF_ITS_CUDA.to_owned());
                Some((
                    facts,
                    right.map(|right| StepEdit::Replace(named.word.span.clone(), right)),
                ))
            }
        }
    }

    /// The package of the same manager that contains the library for this CUDA; `None` if none is known.
    fn right_package(&self, manager: PackageManager, cuda: Option<CudaVersion>) -> Option<String> {
        let library = self.knowledge.library;
        match manager {
            PackageManager::System => Some(fill_version(library.package.as_ref()?, cuda?)),
            PackageManager::Pip => library.wheel_of(cuda?.0).map(|wheel| wheel.name.clone()),
            PackageManager::Conda => library.conda.as_ref().map(|conda| conda.name.clone()),
        }
    }

    fn copy(
        &self,
        state: &mut StageState,
        copy: &CopyAction,
        later: &[BuildStep],
    ) -> Option<(BuildStepFacts, Option<StepEdit>)> {
        // The file does not show the content of the build context.
        let Some(from) = &copy.from else {
            if copy.sources.iter().any(|path| speaks_of_library(path, self.knowledge)) {
                state.may_gain();
            }
            return None;
        };
        let source = match find_stage(self.stages, from) {
            Some(number) => self.states.get(&number)?.clone(),
            None => self.state_of_image(from),
        };
        let part = copy
            .sources
            .iter()
            .map(|path| CopiedPart::of(path, self.knowledge))
            .max()?;
        let path = copy.sources.join(" ");
        let mut facts = BuildStepFacts {
            what: path,
            from: from.clone(),
            cuda: state.cuda.map(words),
            release: source.cuda.map(words),
            ..BuildStepFacts::default()
        };
        let (library, toolkit) = (self.knowledge.library, &self.knowledge.tables.packages.toolkit);
        let elsewhere = parse_cuda_version(&toolkit.extras_until);
        let is_in_source = matches!(source.presence, CuptiPresence::Library);
        match part {
            CopiedPart::Other => {
                // For example a virtual environment, or a root file system.
                if source.presence == CuptiPresence::Wheel || source.presence == CuptiPresence::Unknown {
                    state.may_gain();
                }
                None
            }
            // Before 11.3 the library was here, as TensorFlow's own Dockerfiles of that time show.
            CopiedPart::Headers if source.cuda < elsewhere => None,
            CopiedPart::Headers => {
                facts.brings = "headers";
                let folder = format!("{}/lib64", copy.target.trim_end_matches('/'));
                facts.searched = is_searched(&folder, state.library_path.as_ref(), later.iter());
                let more = is_in_source.then(|| {
                    let (folder, stem) = (&toolkit.libraries, &library.stem);
                    let target = if state.cuda.is_some() { folder } else { "/usr/local/lib" };
                    format!("COPY --from={from} {folder}/{stem}* {target}/\nRUN ldconfig")
                });
                Some((facts, more.map(StepEdit::Append)))
            }
            CopiedPart::Library if source.presence == CuptiPresence::Absent => {
                facts.brings = "missing";
                Some((facts, None))
            }
            CopiedPart::Library => {
                state.presence = CuptiPresence::Library;
                let is_other = source.cuda.zip(state.cuda).is_some_and(|(own, other)| own.0 != other.0);
                if is_other {
                    facts.brings = "other-release";
                    facts.instead = format!("the image of CUDA {}", facts.cuda.clone().unwrap_or_default());
                    return Some((facts, None));
                }
                let folder = target_folder(copy);
                let is_searched = is_searched(&folder, state.library_path.as_ref(), later.iter());
                if is_searched {
                    return None;
                }
                facts.brings = "off-path";
                facts.folder.clone_from(&folder);
                let line = format!("RUN echo {folder} > /etc/ld.so.conf.d/{}.conf && ldconfig", library.id);
                Some((facts, Some(StepEdit::Append(line))))
            }
        }
    }
}

/// The part of CUPTI in a toolkit path; among several the largest counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CopiedPart {
    Other,
    /// `extras/CUPTI`: NVIDIA's packages keep the library elsewhere.
    Headers,
    Library,
}

impl CopiedPart {
    fn of(path: &str, known: &Knowledge) -> Self {
        let path = path.trim_end_matches('/').to_lowercase();
        let name = path.rsplit('/').next().unwrap_or_default();
        let toolkit = &known.tables.packages.toolkit;
        let is_toolkit = |folder: &str| folder.starts_with(&toolkit.folder);
        let header = known.library.header.trim_end_matches(".h");
        let is_header = name.strip_suffix(".h").is_some_and(|stem| stem.starts_with(header));
        match () {
            () if name.starts_with(known.library.file_stem()) => Self::Library,
            // The library may be here as a link, or from a runfile.
            () if path.contains(&format!("{}/lib", toolkit.extras)) => Self::Other,
            () if path.contains(&toolkit.extras) || is_header => Self::Headers,
            () if is_toolkit(&path) && matches!(name, "lib64" | "lib") => Self::Library,
            () if is_toolkit(&path) && path.matches('/').count() == 3 => Self::Library,
            () => Self::Other,
        }
    }
}

impl StageState {
    /// Something ran that the file does not show.
    fn may_gain(&mut self) {
        if self.presence == CuptiPresence::Absent {
            self.presence = CuptiPresence::Unknown;
        }
    }

    fn gain(&mut self, brings: StepYield) {
        self.presence = match brings {
            StepYield::Wheel if self.presence != CuptiPresence::Library => CuptiPresence::Wheel,
            _ => CuptiPresence::Library,
        };
    }

    fn set_variables(&mut self, variables: &BTreeMap<String, String>) {
        if let Some(version) = variables
            .get("CUDA_VERSION")
            .and_then(|version| parse_cuda_version(version))
        {
            self.cuda.get_or_insert(version);
        }
        if let Some(value) = variables.get("LD_LIBRARY_PATH") {
            let own = value
                .split(':')
                .filter(|folder| !folder.starts_with('$'))
                .map(str::to_owned);
            self.library_path.get_or_insert_default().extend(own);
        }
    }
}

/// The folder that a COPY writes to: its target, or the parent if the target is a file.
fn target_folder(copy: &CopyAction) -> String {
    let target = copy.target.trim_end_matches('/');
    let name = target.rsplit('/').next().unwrap_or_default();
    // The target names a file.
    let folder = if name.contains(".so") {
        target.rsplit_once('/').map_or("/", |(folder, _)| folder)
    } else {
        target
    };
    // Copying the whole toolkit includes its library folder.
    let is_whole = copy.sources.iter().any(|path| !path.contains("lib"));
    if is_whole {
        format!("{folder}/lib64")
    } else {
        folder.to_owned()
    }
}

/// Whether the loader searches a folder of the finished stage: through a known `LD_LIBRARY_PATH`, or because of later
/// steps.
fn is_searched<'s>(
    folder: &str,
    path: Option<&BTreeSet<String>>,
    mut later: impl Iterator<Item = &'s BuildStep>,
) -> bool {
    let is_it = |own: &str| own.trim_end_matches('/') == folder;
    let is_default = DEFAULT_FOLDERS.iter().any(|own| {
        let rest = folder.strip_prefix(own);
        // An architecture folder, such as x86_64-linux-gnu.
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with("-linux-gnu"))
    });
    let leads = |step: &BuildStep| match &step.action {
        StepAction::Env(variables) => {
            let value = variables.get("LD_LIBRARY_PATH");
            value.is_some_and(|value| value.split(':').any(is_it))
        }
        // Only the image shows which folders its configuration names.
        StepAction::Run(commands) => {
            let mut words = commands.iter().flatten();
            words.any(|word| word.text.ends_with("ldconfig") || word.text.contains("ld.so.conf"))
        }
        StepAction::Copy(_) => false,
    };
    let is_named = path.is_none_or(|path| path.iter().any(|own| is_it(own)));
    is_default || is_named || later.any(leads)
}

fn words((major, minor): CudaVersion) -> String {
    format!("{major}.{minor}")
}
