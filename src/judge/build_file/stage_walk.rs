//! Follows the steps of each stage: which of them bring the library, which take it away, which are known traps, and
//! which the Dockerfile does not show.

use std::collections::BTreeMap;

use super::command::{CommandEffect, read_command};
use super::paths::{LibraryPlace, is_link, names_library};
use super::search_path::SearchPath;
use super::shell_steps::{ShellCommand, read_script};
use super::stage_end::{LibrarySource, StageEnd, StepProblem};
use super::stages::{BuildStage, BuildStep, RunAction, RunProgram, StepAction, StepPlace, extend};
use crate::facts::software::cuda_runtime::parse_cuda_version;
use crate::knowledge::Knowledge;
use crate::knowledge::build_steps::{BaseImage, StepYield};

/// The depth of scripts in scripts, such as `sh -c 'sh -c …'`.
const NESTING: usize = 8;

/// Walks the stages of a file, each once.
pub(super) struct StageWalk<'a> {
    pub(super) text: &'a str,
    pub(super) stages: &'a [BuildStage],
    pub(super) known: &'a Knowledge,
    pub(super) ends: BTreeMap<usize, StageEnd>,
    pub(super) problems: BTreeMap<usize, Vec<StepProblem>>,
}

/// A RUN instruction on its way through the walk.
pub(super) struct CurrentRun<'s> {
    pub(super) place: &'s StepPlace,
    pub(super) problems: Vec<StepProblem>,
}

impl<'a> StageWalk<'a> {
    pub(super) fn new(text: &'a str, stages: &'a [BuildStage], known: &'a Knowledge) -> Self {
        let mut walk = Self {
            text,
            stages,
            known,
            ends: BTreeMap::new(),
            problems: BTreeMap::new(),
        };
        // A stage refers only to earlier ones.
        for (number, stage) in stages.iter().enumerate() {
            let (end, problems) = walk.follow(stage);
            walk.ends.insert(number, end);
            walk.problems.insert(number, problems);
        }
        walk
    }

    fn follow(&self, stage: &BuildStage) -> (StageEnd, Vec<StepProblem>) {
        let parent = stage.parent.and_then(|parent| self.ends.get(&parent).cloned());
        let mut now = parent.unwrap_or_else(|| self.image(&stage.base, stage.from.line));
        now.has_other_wheels |= stage.has_other_wheels;
        let mut problems = Vec::new();
        for step in &stage.steps {
            self.step(&mut now, step, &mut problems);
            now.limit();
        }
        (now, problems)
    }

    fn step(&self, now: &mut StageEnd, step: &BuildStep, problems: &mut Vec<StepProblem>) {
        now.has_own_index |= self.sets_index(self.text_of(&step.place));
        match &step.action {
            StepAction::Environment(variables) => {
                now.set_variables(variables);
                if let Some(value) = variables.get("LD_LIBRARY_PATH") {
                    now.search.set(value, &step.place);
                }
            }
            StepAction::Arguments(values) => extend(&mut now.variables, values),
            StepAction::Directory(path) => now.folder.path = now.folder.resolve(path),
            StepAction::User(user) => now.folder.home = home_of(user),
            StepAction::Run(run) => problems.extend(self.run(now, run, &step.place)),
            StepAction::Copy(copy) => problems.extend(self.copy(now, copy, &step.place)),
        }
    }

    /// The steps of some stages.
    pub(super) fn steps_of(&self, stages: &[usize]) -> impl Iterator<Item = &'a BuildStep> {
        let stages = stages.iter().filter_map(|number| self.stages.get(*number));
        stages.flat_map(|stage| &stage.steps)
    }

    /// An instruction as written.
    pub(super) fn text_of(&self, place: &StepPlace) -> &str {
        self.text.get(place.span.clone()).unwrap_or_default()
    }

    /// Whether a text sets the index of packages by a variable.
    fn sets_index(&self, text: &str) -> bool {
        let managers = &self.known.tables.build_steps.managers;
        managers
            .iter()
            .flat_map(|manager| &manager.settings)
            .any(|setting| text.contains(setting.as_str()))
    }

    /// The state of a base image.
    pub(super) fn image(&self, reference: &str, line: usize) -> StageEnd {
        let reference = reference.split('@').next().unwrap_or_default();
        let (name, tag) = match reference.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, tag),
            _ => (reference, ""),
        };
        // The names of Docker Hub (distribution/reference, "familiar names").
        let path = name
            .strip_prefix("docker.io/")
            .or(name.strip_prefix("index.docker.io/"))
            .unwrap_or(name);
        let name = path.strip_prefix("library/").unwrap_or(path);
        let tables = &self.known.tables;
        let known = tables.build_steps.image(name, tag).filter(|_| !reference.contains('$'));
        let cuda = known
            .filter(|image| image.cuda_in_tag)
            .and_then(|_| parse_cuda_version(tag));
        let mut end = StageEnd {
            cuda: cuda.into_iter().collect(),
            system: self.system_of(name, tag),
            search: SearchPath::of_image(known, cuda),
            ..StageEnd::default()
        };
        if known.is_some() {
            end.is_known_base = true;
            end.folder.home = home_of("root");
        }
        let place = match known.map(|image| image.brings) {
            Some(StepYield::Library) => LibraryPlace::Folder(tables.packages.toolkit.libraries.clone()),
            Some(StepYield::Wheel) => LibraryPlace::Environment,
            Some(StepYield::Nothing | StepYield::Absent | StepYield::Stub) => return end,
            Some(StepYield::Unknown) | None => {
                end.unseen(line, format!("uses the image {reference}"), false);
                return end;
            }
        };
        end.sources.push(LibrarySource {
            name: reference.to_owned(),
            line,
            place,
            cuda,
            links: known.is_some_and(|image: &BaseImage| image.brings == StepYield::Wheel),
        });
        end
    }

    /// The distribution of an image, by the tag suffix of NVIDIA's images or by its own name.
    fn system_of(&self, name: &str, tag: &str) -> Option<(String, String)> {
        let packages = &self.known.tables.packages;
        for of in &packages.nvidia {
            if of.devel.as_ref().is_some_and(|end| tag.ends_with(end.as_str())) {
                return Some((of.id.clone(), of.version.clone()));
            }
        }
        let ids = &self.known.tables.build_steps.systems;
        let id = ids.get(name).map_or(name, String::as_str);
        let version = tag.split('-').next().unwrap_or_default();
        let is_known = packages.distro_package(id, version).is_some()
            || packages.nvidia_repository(id, version, "x86_64").is_some();
        is_known.then(|| (id.to_owned(), version.to_owned()))
    }

    fn run(&self, now: &mut StageEnd, run: &RunAction, place: &StepPlace) -> Vec<StepProblem> {
        let mut current = CurrentRun {
            place,
            problems: Vec::new(),
        };
        if run.has_mounted_files {
            now.unseen(place.line, "uses files of a mount".to_owned(), false);
        }
        now.search.note_step(self.text_of(place), place);
        match &run.program {
            RunProgram::Shell(script) => self.script(now, script, &mut current, &ShellCommand::of_folder(&now.folder)),
            RunProgram::Words(words) => {
                let command = ShellCommand {
                    words: words.clone(),
                    ..ShellCommand::of_folder(&now.folder)
                };
                self.command(now, &command, &mut current);
            }
            RunProgram::Foreign(shell) => now.unseen(place.line, format!("runs a text in {shell}"), false),
        }
        current.problems
    }

    /// Follows a script that runs as, or in, a command.
    fn script(&self, now: &mut StageEnd, script: &str, run: &mut CurrentRun<'_>, outer: &ShellCommand) {
        for command in read_script(script, &now.variables.clone(), outer) {
            self.command(now, &command, run);
        }
    }

    fn command(&self, now: &mut StageEnd, command: &ShellCommand, run: &mut CurrentRun<'_>) {
        let line = run.place.line;
        let is_certain = !command.is_conditional;
        match read_command(command, &self.known.tables.build_steps) {
            CommandEffect::Unseen { why, may_install } => {
                let is_copy = command
                    .words
                    .iter()
                    .any(|word| word.contains(self.known.library.file_stem()));
                now.unseen(line, why, may_install || is_copy);
            }
            CommandEffect::Installs(installation) => self.install(now, &installation, run, !is_certain),
            CommandEffect::Uninstalls(manager, names) if is_certain => self.uninstall(now, manager, &names, run),
            CommandEffect::Deletes(paths) if is_certain => {
                for path in paths {
                    self.delete(now, &path, run, &command.folder);
                }
            }
            CommandEffect::DeletesFound { roots, names } if is_certain => {
                let is_named = names.iter().any(|name| names_library(name, self.known));
                let toolkit = &self.known.tables.packages.toolkit;
                let cuda = now.cuda.first().copied();
                // find does not follow a link.
                for root in roots.iter().filter(|root| is_named && !is_link(root, cuda, toolkit)) {
                    self.remove(now, root, run, &command.folder);
                }
            }
            CommandEffect::Runs(script) if command.depth < NESTING => self.script(now, &script, run, command),
            _ => {}
        }
    }
}

/// The home of a user of USER; `None` if its number does not show it.
fn home_of(user: &str) -> Option<String> {
    match user.split(':').next().unwrap_or_default() {
        "root" | "0" => Some("/root".to_owned()),
        name if name.starts_with(|letter: char| letter.is_ascii_alphabetic()) && !name.contains('$') => {
            Some(format!("/home/{name}"))
        }
        _ => None,
    }
}
