//! Follows the steps of each stage with the state of the library, and finds the steps that are known to go wrong.
//!
//! A finding needs certainty: about the package that a step names, about the stage that it copies from, or about the
//! whole image. Steps that the Dockerfile does not show make the state unknown, from their line on.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::builder_words::Variables;
use super::command_effect::{CommandEffect, read_command};
use super::instructions::JoinedText;
use super::paths::{PathOverlap, absolute, compare_file, compare_path};
use super::presence::{BuildDoubt, CONDITION, CopyFate, LibraryCopy, LibraryPresence, PackageOwner};
use super::shell_steps::{ShellStep, ShellWord, read_inner_script, read_script};
use super::stages::{BuildStage, BuildStep, RunAction, RunProgram, StepAction, StepPlace, extend};
use crate::facts::software::cuda_runtime::{CudaVersion, parse_cuda_version};
use crate::judge::rule::BuildStepFacts;
use crate::knowledge::build_steps::{InstalledPackage, StepYield};
use crate::knowledge::packages::PackageManager;
use crate::knowledge::patterns::{compile_glob, matches_name_pattern};
use crate::knowledge::{Knowledge, fill_version};

/// The depth of scripts in scripts, such as `sh -c 'sh -c …'`.
const NESTING: usize = 8;

/// A stage after its last step.
#[derive(Debug, Clone)]
pub(super) struct StageState {
    pub presence: LibraryPresence,
    /// Whether its base image or a step brought the library at some time.
    pub was_brought: bool,
    /// The steps whose effect the Dockerfile does not show, in order.
    pub unseen: Vec<BuildDoubt>,
    /// The CUDA versions of its base image and of the toolkits that its steps install.
    pub cuda: Vec<CudaVersion>,
    /// `ID` and `VERSION_ID` of its distribution, if the base image's name shows them.
    pub system: Option<(String, String)>,
    /// The folders of `LD_LIBRARY_PATH`; `None` if the base image may set any.
    pub library_path: Option<BTreeSet<String>>,
    /// The working directory; `None` if the base image sets it.
    directory: Option<String>,
    variables: Variables,
    /// The package managers whose settings may be others than usual.
    pub configured: BTreeSet<PackageManager>,
    /// The packages that were installed without the library.
    pub left_out: BTreeSet<String>,
    /// Whether the usual wheels are those for its platform.
    has_usual_wheels: bool,
}

/// A step that is known to go wrong.
#[derive(Debug)]
pub(super) struct StepProblem {
    pub place: StepPlace,
    pub facts: BuildStepFacts,
    /// The edit that fixes the instruction.
    pub edit: Option<StepEdit>,
}

#[derive(Debug)]
pub(super) enum StepEdit {
    Replace(Range<usize>, String),
    Append(String),
}

impl StepProblem {
    /// The corrected instruction.
    pub(super) fn replacement(&self, text: &str) -> Option<String> {
        let span = &self.place.span;
        let written = text.get(span.clone())?;
        match self.edit.as_ref()? {
            StepEdit::Append(more) => Some(format!("{}\n{more}", written.trim_end())),
            StepEdit::Replace(part, new) => {
                let before = text.get(span.start..part.start)?;
                let after = text.get(part.end..span.end)?;
                Some(format!("{before}{new}{after}"))
            }
        }
    }
}

/// Walks the stages of a file, each once.
pub(super) struct StageWalk<'a> {
    pub(super) stages: &'a [BuildStage],
    pub(super) known: &'a Knowledge,
    pub(super) states: BTreeMap<usize, StageState>,
    pub(super) problems: BTreeMap<usize, Vec<StepProblem>>,
}

/// A step on its way through the walk.
pub(super) struct CurrentStep<'s> {
    pub(super) place: &'s StepPlace,
    /// Whether files of other stages are mounted.
    has_mounted_files: bool,
    /// The folders in which other files are mounted.
    mounts: Vec<String>,
    pub(super) problems: Vec<StepProblem>,
}

impl<'a> StageWalk<'a> {
    pub(super) fn new(stages: &'a [BuildStage], known: &'a Knowledge) -> Self {
        let mut walk = Self {
            stages,
            known,
            states: BTreeMap::new(),
            problems: BTreeMap::new(),
        };
        // A stage refers only to earlier ones, so their states are known by then.
        for (number, stage) in stages.iter().enumerate() {
            let (state, problems) = walk.follow(stage);
            walk.states.insert(number, state);
            walk.problems.insert(number, problems);
        }
        walk
    }

    fn follow(&self, stage: &BuildStage) -> (StageState, Vec<StepProblem>) {
        let parent = stage.parent.and_then(|parent| self.states.get(&parent).cloned());
        let mut now = parent.unwrap_or_else(|| self.state_of_image(&stage.base, stage.from.line));
        let mut others = self.known.tables.build_steps.without_wheels.iter();
        now.has_usual_wheels &= stage.is_usual_platform && !others.any(|part| stage.base.contains(part));
        let mut problems = Vec::new();
        if stage.is_repeated {
            let facts = BuildStepFacts {
                what: stage.name.clone(),
                trap: "repeated-stage",
                ..BuildStepFacts::default()
            };
            let place = stage.from.clone();
            problems.push(StepProblem {
                place,
                facts,
                edit: None,
            });
        }
        for (at, step) in stage.steps.iter().enumerate() {
            let later = stage.steps.get(at + 1..).unwrap_or_default();
            problems.extend(self.step(&mut now, step, later));
        }
        (now, problems)
    }

    fn step(&self, now: &mut StageState, step: &BuildStep, later: &[BuildStep]) -> Vec<StepProblem> {
        match &step.action {
            StepAction::Environment(variables) => {
                self.note_settings(now, variables.keys());
                now.set_variables(variables);
            }
            StepAction::Arguments { names, values } => {
                self.note_settings(now, names);
                extend(&mut now.variables, values);
            }
            StepAction::Directory(path) => now.directory = now.resolved(path),
            StepAction::Run(run) => return self.run(now, run, &step.place),
            StepAction::Copy(copy) => {
                self.note_settings(now, copy.sources.iter().chain([&copy.target]));
                return self.copy(now, copy, &step.place, later);
            }
        }
        Vec::new()
    }

    /// Notes words that may be settings of a package manager: a variable, with or without its value, or a file.
    fn note_settings<'w>(&self, now: &mut StageState, words: impl IntoIterator<Item = &'w String>) {
        for word in words {
            let name = word.split('=').next().unwrap_or_default();
            let file = word.rsplit('/').next().unwrap_or_default();
            let is_it = |own: &String| {
                [name, file]
                    .iter()
                    .any(|text| matches_name_pattern(text.as_bytes(), own))
            };
            let managers =
                self.known.tables.build_steps.managers.iter().filter(|manager| {
                    manager.settings.iter().any(is_it) && !manager.harmless_settings.iter().any(is_it)
                });
            now.configured.extend(managers.map(|manager| manager.manager));
        }
    }

    /// The state of a base image.
    pub(super) fn state_of_image(&self, reference: &str, line: usize) -> StageState {
        let reference = reference.split('@').next().unwrap_or_default();
        let (name, tag) = match reference.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, tag),
            _ => (reference, ""),
        };
        // The names of Docker Hub (distribution/reference, "familiar names").
        let name = name
            .strip_prefix("docker.io/")
            .or(name.strip_prefix("index.docker.io/"))
            .unwrap_or(name);
        let name = name.strip_prefix("library/").unwrap_or(name);
        let tables = &self.known.tables;
        let known = tables.build_steps.image(name, tag).filter(|_| !tag.contains('$'));
        let cuda = known
            .filter(|image| image.cuda_in_tag)
            .and_then(|_| parse_cuda_version(tag));
        let system = self.system_of(name, tag);
        let fill = |name: &Option<String>| Some(fill_version(name.as_deref()?, cuda?));
        let mut copy = LibraryCopy {
            source: reference.to_owned(),
            owner: None,
            folder: None,
            cuda,
        };
        let presence = match known.map(|image| (image.brings, image)) {
            Some((StepYield::Library, image)) => {
                copy.folder = Some(tables.packages.toolkit.libraries.clone());
                copy.owner = fill(&image.package).map(|name| PackageOwner {
                    manager: PackageManager::System,
                    name: Some(name),
                    via: fill(&image.via),
                });
                LibraryPresence::Present(vec![copy])
            }
            Some((StepYield::Wheel, _)) => {
                copy.owner = Some(PackageOwner {
                    manager: PackageManager::Pip,
                    name: None,
                    via: None,
                });
                LibraryPresence::Present(vec![copy])
            }
            Some((StepYield::Nothing | StepYield::Absent | StepYield::Stub, _)) => LibraryPresence::Absent,
            Some((StepYield::Unknown, _)) | None => LibraryPresence::Unknown(BuildDoubt {
                line,
                why: format!("uses the image {reference}, which is not in the table"),
            }),
        };
        let searched = known.and_then(|image| image.searched.as_ref()).map(|folders| {
            let since = folders.iter().filter(|folder| parse_cuda_version(&folder.from) <= cuda);
            since.map(|folder| folder.folder.clone()).collect()
        });
        let unseen = match &presence {
            LibraryPresence::Unknown(doubt) => vec![doubt.clone()],
            LibraryPresence::Absent | LibraryPresence::Present(_) => Vec::new(),
        };
        StageState {
            was_brought: matches!(presence, LibraryPresence::Present(_)),
            presence,
            unseen,
            cuda: cuda.into_iter().collect(),
            system,
            library_path: searched,
            directory: None,
            variables: Variables::new(),
            configured: BTreeSet::new(),
            left_out: BTreeSet::new(),
            has_usual_wheels: true,
        }
    }

    /// The distribution of an image, by the tag suffix of NVIDIA's images or by its own name.
    fn system_of(&self, name: &str, tag: &str) -> Option<(String, String)> {
        let packages = &self.known.tables.packages;
        let mut nvidia = packages.nvidia.iter();
        let nvidia = nvidia.find(|of| of.devel.as_ref().is_some_and(|end| tag.ends_with(end.as_str())));
        let nvidia = nvidia.map(|of| (of.id.clone(), of.version.clone()));
        let version = tag.split('-').next().unwrap_or_default();
        let is_known = || packages.distro_package(name, version).is_some();
        let has_repository = || packages.nvidia_repository(name, version, "x86_64").is_some();
        nvidia.or_else(|| (is_known() || has_repository()).then(|| (name.to_owned(), version.to_owned())))
    }

    fn run(&self, now: &mut StageState, run: &RunAction, place: &StepPlace) -> Vec<StepProblem> {
        let mut step = CurrentStep {
            place,
            has_mounted_files: run.has_mounted_files,
            mounts: run.mounts.iter().filter_map(|path| now.resolved(path)).collect(),
            problems: Vec::new(),
        };
        let before = (now.variables.clone(), now.directory.clone());
        match &run.program {
            RunProgram::Shell(script) => {
                let steps = read_script(script, &now.variables);
                self.shell_steps(now, &steps, &mut step, 0);
            }
            RunProgram::Words(words) => {
                let words: Vec<ShellWord> = words.iter().map(|word| ShellWord::plain(word)).collect();
                self.command(now, &words, None, &mut step, 0);
            }
            RunProgram::Foreign(shell) => {
                now.may_change(place.line, format!("runs a text in {shell}"));
            }
        }
        (now.variables, now.directory) = before;
        // Packages without the library may stand beside one that brings it.
        if matches!(now.presence, LibraryPresence::Present(_)) {
            step.problems
                .retain(|problem| !matches!(problem.facts.trap, "nothing" | "left-out"));
        }
        step.problems
    }

    fn shell_steps(&self, now: &mut StageState, steps: &[ShellStep], step: &mut CurrentStep<'_>, depth: usize) {
        for one in steps {
            match one {
                ShellStep::Command(words, input) => self.command(now, words, input.as_deref(), step, depth),
                ShellStep::Subshell(steps) => {
                    let directory = now.directory.clone();
                    self.shell_steps(now, steps, step, depth);
                    now.directory = directory;
                }
                ShellStep::Maybe(steps) => {
                    let before = now.clone();
                    let known = step.problems.len();
                    self.shell_steps(now, steps, step, depth);
                    // What goes wrong only if it runs is no certain loss.
                    let added = step.problems.split_off(known);
                    step.problems
                        .extend(added.into_iter().filter(|own| own.facts.trap != "removed"));
                    if now.directory != before.directory {
                        now.directory = None;
                    }
                    let after = std::mem::replace(&mut now.presence, LibraryPresence::Absent);
                    if before.presence != after {
                        now.doubt(step.place.line, CONDITION.to_owned());
                    }
                    now.presence = before.presence.joined(after, step.place.line);
                }
                ShellStep::Sets(name) => self.note_settings(now, [name]),
                ShellStep::Overwrites(word) => {
                    self.note_settings(now, [&word.text]);
                    if self.may_be_file(now, &word.text) {
                        now.may_change(step.place.line, format!("writes {}", word.text));
                    }
                }
                ShellStep::Unreadable => {
                    now.may_change(step.place.line, "runs a script that check cannot read");
                }
            }
        }
    }

    fn command(
        &self,
        now: &mut StageState,
        words: &[ShellWord],
        input: Option<&str>,
        step: &mut CurrentStep<'_>,
        depth: usize,
    ) {
        let line = step.place.line;
        self.note_settings(now, words.iter().map(|word| &word.text));
        match read_command(words, input, &self.known.tables.build_steps) {
            CommandEffect::Configures(manager) => drop(now.configured.insert(manager)),
            CommandEffect::Writes { words, .. } if words.iter().any(|word| self.may_name_library(&word.text)) => {
                now.may_change(line, "runs a program with files of the library");
            }
            CommandEffect::Writes { why, is_adder, .. } if is_adder => now.may_gain(line, why),
            CommandEffect::Nothing | CommandEffect::Writes { .. } => {}
            CommandEffect::MayChange(why) => now.may_change(line, why),
            CommandEffect::Installs(installation) => self.install(now, &installation, step),
            CommandEffect::Uninstalls(removal) => self.uninstall(now, &removal, step),
            CommandEffect::ChangesDirectory(target) => {
                let target = target.filter(ShellWord::is_known);
                now.directory = target.and_then(|target| now.resolved(&target.text));
            }
            CommandEffect::Copies(words) => {
                let why = "copies files of a mount or of the library";
                if words.last().is_some_and(|target| self.may_be_file(now, &target.text)) {
                    now.may_change(line, why);
                }
                let names_library = words.iter().any(|word| self.names_library(&word.text));
                if step.has_mounted_files || names_library || words.iter().any(|word| self.may_reach(now, &word.text)) {
                    now.may_gain(line, why);
                }
            }
            CommandEffect::Moves(words) => {
                let moved = words.split_last().map_or(&[][..], |(_, moved)| moved);
                let paths: Vec<String> = moved.iter().map(|word| now.path_of(&word.text)).collect();
                let fate = |copy: &mut LibraryCopy| {
                    if is_apart(copy, &paths, self.known) {
                        CopyFate::Kept
                    } else {
                        CopyFate::Unknown
                    }
                };
                remove_copies(now, step, "moves files that may be the library", fate);
                if moved.iter().any(|word| self.names_library(&word.text)) {
                    now.may_gain(line, "moves files of the library");
                }
            }
            CommandEffect::Deletes { paths, is_recursive } => {
                for path in paths {
                    let place = now.path_of(&path.text);
                    if step.mounts.iter().any(|mount| is_below(&place, mount)) {
                        continue;
                    }
                    let why = format!("deletes {}", path.text);
                    remove_copies(now, step, &why, |copy| {
                        copy.fate_of_deletion(&place, is_recursive, self.known)
                    });
                }
            }
            CommandEffect::DeletesFound { roots, names } => self.delete_found(now, &roots, &names, step),
            CommandEffect::Runs(script) if depth < NESTING => {
                let script = JoinedText::computed(script);
                let steps = read_inner_script(&script, &now.variables);
                self.shell_steps(now, &steps, step, depth + 1);
            }
            CommandEffect::Runs(_) => now.may_change(line, "runs scripts in scripts"),
        }
    }

    /// Whether a word of a program that writes files may name the library or a folder around it.
    fn may_name_library(&self, word: &str) -> bool {
        let folder = &self.known.tables.packages.toolkit.folder;
        // A value such as -DCUDA=/usr/local/cuda only says where the toolkit is.
        let is_value = word.starts_with('-') || word.split('/').next().is_some_and(|start| start.ends_with('='));
        word.to_lowercase().contains(&self.known.library.package_word) || (!is_value && word.contains(folder.as_str()))
    }

    /// Whether a file that a command writes may be the library.
    fn may_be_file(&self, now: &StageState, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or_default();
        let place = now.path_of(path);
        let is_file = |copy: &LibraryCopy| compare_path(copy, &place, self.known) == PathOverlap::Files;
        name.starts_with(&*self.known.library.stem) || now.copies().iter().any(is_file)
    }

    /// Whether a path that a command copies may contain the library.
    fn may_reach(&self, now: &StageState, path: &str) -> bool {
        let place = now.path_of(path);
        let is_apart = |copy: &LibraryCopy| compare_path(copy, &place, self.known) == PathOverlap::Apart;
        !path.starts_with('-') && !now.copies().iter().all(is_apart)
    }

    fn delete_found(&self, now: &mut StageState, roots: &[ShellWord], names: &[String], step: &mut CurrentStep<'_>) {
        let roots = roots.iter().map(|root| now.path_of(&root.text));
        let is_mounted = |root: &String| step.mounts.iter().any(|mount| is_below(root, mount));
        let roots: Vec<String> = roots.filter(|root| !is_mounted(root)).collect();
        let fate = |copy: &mut LibraryCopy| {
            let is_other = !names.is_empty() && !names.iter().any(|name| self.may_be_found(copy, name));
            if is_other || is_apart(copy, &roots, self.known) {
                CopyFate::Kept
            } else {
                CopyFate::Unknown
            }
        };
        remove_copies(now, step, "deletes what find finds", fate);
    }

    /// Whether a file or folder of a name may be the library or one of its folders.
    fn may_be_found(&self, copy: &LibraryCopy, name: &str) -> bool {
        let wheels = self.known.library.wheels.install.iter().map(|wheel| &wheel.folder);
        let mut folders = wheels.chain(&copy.folder).flat_map(|folder| folder.split('/'));
        let glob = compile_glob(name).ok();
        let is_it = |part: &str| !part.is_empty() && glob.as_ref().is_some_and(|glob| glob.is_match(part));
        folders.any(is_it) || compare_file(name, copy.cuda, self.known) != PathOverlap::Apart
    }
}

/// Takes copies away, and notes a problem if none is left.
pub(super) fn remove_copies(
    now: &mut StageState,
    step: &mut CurrentStep<'_>,
    why: &str,
    fate: impl Fn(&mut LibraryCopy) -> CopyFate,
) {
    let doubt = BuildDoubt {
        line: step.place.line,
        why: why.to_owned(),
    };
    let was_known = !matches!(now.presence, LibraryPresence::Unknown(_));
    let mut removed = now.presence.remove(&doubt, fate);
    // A step that nobody sees may have put a copy elsewhere.
    if let (Some(unseen), LibraryPresence::Absent, true) = (now.unseen.first(), &now.presence, removed.is_some()) {
        now.presence = LibraryPresence::Unknown(unseen.clone());
        removed = None;
    }
    if was_known && now.presence == LibraryPresence::Unknown(doubt.clone()) {
        now.unseen.push(doubt);
    }
    if let Some(source) = removed {
        let facts = BuildStepFacts {
            what: why.to_owned(),
            from: source,
            trap: "removed",
            ..BuildStepFacts::default()
        };
        let place = step.place.clone();
        step.problems.push(StepProblem {
            place,
            facts,
            edit: None,
        });
    }
}

impl StageState {
    /// The known copies.
    fn copies(&self) -> &[LibraryCopy] {
        match &self.presence {
            LibraryPresence::Present(copies) => copies,
            LibraryPresence::Absent | LibraryPresence::Unknown(_) => &[],
        }
    }

    /// Whether a wheel may be another than usual, or pip may leave an installed one as it is.
    pub(super) fn may_differ(&self, package: &InstalledPackage, name: &str) -> bool {
        let is_there = !self.unseen.is_empty() || self.left_out.contains(name);
        !self.has_usual_wheels || (package.manager == PackageManager::Pip && package.dependency && is_there)
    }

    /// Adds a copy.
    pub(super) fn add(&mut self, copy: LibraryCopy) {
        self.was_brought = true;
        self.presence.add(copy);
    }

    /// A step may add the library, for a reason.
    pub(super) fn may_gain(&mut self, line: usize, why: impl Into<String>) {
        let doubt = self.doubt(line, why.into());
        self.presence.may_gain(doubt);
    }

    /// A step may add or remove the library, for a reason.
    pub(super) fn may_change(&mut self, line: usize, why: impl Into<String>) {
        let doubt = self.doubt(line, why.into());
        if !matches!(self.presence, LibraryPresence::Unknown(_)) {
            self.presence = LibraryPresence::Unknown(doubt);
        }
    }

    /// Notes a step whose effect the Dockerfile does not show.
    fn doubt(&mut self, line: usize, why: String) -> BuildDoubt {
        let doubt = BuildDoubt { line, why };
        if !self.unseen.contains(&doubt) {
            self.unseen.push(doubt.clone());
        }
        doubt
    }

    /// A path from the working directory; `None` if that is unknown.
    fn resolved(&self, path: &str) -> Option<String> {
        match absolute(path) {
            Some(path) => (!path.contains('$')).then_some(path),
            None => absolute(&format!("{}/{path}", self.directory.as_ref()?)),
        }
    }

    /// A path from the working directory, or the path as it is if that is unknown.
    fn path_of(&self, path: &str) -> String {
        let is_open = path.starts_with(['$', '~']);
        let resolved = self.resolved(path).filter(|_| !is_open);
        resolved.unwrap_or_else(|| path.replacen("~/", "/root/", 1))
    }

    fn set_variables(&mut self, variables: &Variables) {
        extend(&mut self.variables, variables);
        if let Some(version) = variables
            .get("CUDA_VERSION")
            .and_then(|version| parse_cuda_version(version))
            && self.cuda.is_empty()
        {
            self.cuda.push(version);
        }
        if let Some(value) = variables.get("LD_LIBRARY_PATH") {
            let own = value
                .split(':')
                .filter(|folder| !folder.starts_with('$'))
                .map(str::to_owned);
            if let Some(folders) = &mut self.library_path {
                folders.extend(own);
            }
        }
    }
}

/// Whether no path reaches a copy.
fn is_apart(copy: &LibraryCopy, paths: &[String], known: &Knowledge) -> bool {
    paths
        .iter()
        .all(|path| compare_path(copy, path, known) == PathOverlap::Apart)
}

/// Whether a path is a folder or below it.
fn is_below(path: &str, folder: &str) -> bool {
    let rest = path.strip_prefix(folder);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

pub(super) fn shown_version((major, minor): CudaVersion) -> String {
    format!("{major}.{minor}")
}
