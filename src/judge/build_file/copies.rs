//! COPY and ADD: what they bring of the library, from another stage, an image, or the build context.

use super::builder_words::Variables;
use super::command_effect::{CommandEffect, read_command};
use super::paths::{PathOverlap, absolute, compare_source, follow_links};
use super::presence::{LibraryCopy, LibraryPresence};
use super::shell_steps::{ShellWord, any_command, read_script};
use super::stages::{BuildStep, CopyAction, RunAction, RunProgram, StepAction, StepPlace, find_stage};
use super::walk::{StageState, StageWalk, StepEdit, StepProblem, shown_version};
use crate::facts::software::cuda_runtime::parse_cuda_version;
use crate::judge::rule::BuildStepFacts;
use crate::knowledge::mistake::nearest;

/// The folders that ld.so searches without a cache (ld.so(8)), including those for one architecture.
const DEFAULT_FOLDERS: [&str; 4] = ["/lib", "/usr/lib", "/lib64", "/usr/lib64"];

/// The folder that the ld.so.conf of distributions names, so that every run of ldconfig finds it.
const LOCAL_FOLDER: &str = "/usr/local/lib";

impl StageWalk<'_> {
    pub(super) fn copy(
        &self,
        now: &mut StageState,
        copy: &CopyAction,
        place: &StepPlace,
        later: &[BuildStep],
    ) -> Vec<StepProblem> {
        let Some(from) = &copy.from else {
            self.copy_context(now, copy, place);
            return Vec::new();
        };
        let source = match find_stage(self.stages, from) {
            Some(number) => self.states.get(&number).cloned(),
            None => None,
        };
        let source = source.unwrap_or_else(|| self.state_of_image(from, place.line));
        let mut facts = BuildStepFacts {
            what: copy.sources.join(" "),
            from: from.clone(),
            cuda: now.cuda.first().copied().map(shown_version),
            release: source.cuda.first().copied().map(shown_version),
            ..BuildStepFacts::default()
        };
        let names_library = copy.sources.iter().any(|path| self.is_library_file(path));
        let problem = |facts: BuildStepFacts, edit| {
            vec![StepProblem {
                place: place.clone(),
                facts,
                edit,
            }]
        };
        match &source.presence {
            LibraryPresence::Unknown(_) => {
                let names: Vec<&str> = self.stages.iter().map(|stage| &*stage.name).collect();
                let meant = nearest(from, &names).filter(|_| find_stage(self.stages, from).is_none());
                let why = meant.map_or_else(
                    || "whose files are not known".to_owned(),
                    |meant| format!("which is no stage; did you mean \"{meant}\"?"),
                );
                now.may_gain(place.line, format!("copies {} from {from}, {why}", facts.what));
                Vec::new()
            }
            LibraryPresence::Absent if names_library => {
                facts.trap = "missing";
                problem(facts, None)
            }
            LibraryPresence::Absent => Vec::new(),
            LibraryPresence::Present(copies) => {
                let brought = self.brought(now, copy, copies, place);
                if let Some(brought) = brought {
                    return self
                        .check_copied(now, copy, &brought, facts, later)
                        .map_or_else(Vec::new, |(facts, edit)| problem(facts, edit));
                }
                if let Some(edit) = self.headers_only(now, copy, copies) {
                    facts.trap = "headers";
                    return problem(facts, Some(StepEdit::Append(edit)));
                }
                let folders: Option<Vec<String>> = copies.iter().map(|own| own.folder.clone()).collect();
                if let (true, Some(folders)) = (names_library && self.misses_all(copy, copies), folders) {
                    facts.trap = "missing";
                    facts.folder = folders.join(", ");
                    return problem(facts, None);
                }
                Vec::new()
            }
        }
    }

    /// Files of the build context, or a download.
    fn copy_context(&self, now: &mut StageState, copy: &CopyAction, place: &StepPlace) {
        let target = absolute(&copy.target).unwrap_or_default();
        let toolkit = &self.known.tables.packages.toolkit.folder;
        let is_system = matches!(&*target, "/" | "/usr" | "/usr/local" | "/opt" | "/usr/local/lib")
            || is_default_folder(&target)
            || target.starts_with(toolkit);
        let names_library = copy.sources.iter().any(|path| self.names_library(path));
        let is_folder = copy.sources.iter().any(|source| {
            let name = source.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
            !name.contains('.') || source.ends_with('/') || name == "." || name.contains(".tar") || name.contains(".so")
        });
        if names_library || (is_system && is_folder) {
            now.may_gain(
                place.line,
                format!("copies {} from the build context", copy.sources.join(" ")),
            );
        }
    }

    /// Whether the path names the library's file: its name begins as the library's.
    fn is_library_file(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or_default();
        name.starts_with(&*self.known.library.stem)
            || (name.starts_with(self.known.library.file_stem()) && name.contains('*'))
    }

    /// Adds the copies of a source stage that a COPY brings. The last one whose place is known.
    fn brought(
        &self,
        now: &mut StageState,
        copy: &CopyAction,
        copies: &[LibraryCopy],
        place: &StepPlace,
    ) -> Option<LibraryCopy> {
        let mut brought = None;
        for own in copies {
            for source in &copy.sources {
                let folder = match compare_source(own, source, self.known) {
                    PathOverlap::Apart => continue,
                    PathOverlap::Unknown => {
                        let from = copy.from.as_deref().unwrap_or_default();
                        now.may_gain(place.line, format!("copies {source} from {from}"));
                        continue;
                    }
                    PathOverlap::Around(rest) => format!("{}/{rest}", copy.target),
                    PathOverlap::Files => target_folder(&copy.target),
                };
                let folder = absolute(&folder)
                    .map(|folder| follow_links(&folder, own.cuda, &self.known.tables.packages.toolkit));
                let new = LibraryCopy {
                    source: format!("{} of {}", own.source, copy.from.as_deref().unwrap_or_default()),
                    owner: None,
                    folder,
                    cuda: own.cuda,
                };
                now.presence.add(new.clone());
                brought = Some(new);
            }
        }
        brought
    }

    /// The problem of a copy that arrives: the CUDA is another, or the loader does not search its folder.
    fn check_copied(
        &self,
        now: &StageState,
        copy: &CopyAction,
        brought: &LibraryCopy,
        mut facts: BuildStepFacts,
        later: &[BuildStep],
    ) -> Option<(BuildStepFacts, Option<StepEdit>)> {
        let names_library = copy.sources.iter().any(|path| self.is_library_file(path));
        let is_other = brought
            .cuda
            .is_some_and(|own| now.cuda.iter().all(|other| other.0 != own.0));
        if names_library && is_other && !now.cuda.is_empty() {
            facts.trap = "other-release";
            facts.instead = format!("the image of CUDA {}", facts.cuda.clone().unwrap_or_default());
            return Some((facts, None));
        }
        let folder = brought.folder.clone().filter(|_| names_library)?;
        if self.may_be_searched(now, &folder, later.iter()) {
            return None;
        }
        facts.trap = "off-path";
        facts.folder.clone_from(&folder);
        let conf = &self.known.library.id;
        let line = format!("RUN echo {folder} > /etc/ld.so.conf.d/{conf}.conf && ldconfig");
        Some((facts, Some(StepEdit::Append(line))))
    }

    /// The instructions to add if a COPY takes the toolkit's headers and leaves the library behind.
    fn headers_only(&self, now: &StageState, copy: &CopyAction, copies: &[LibraryCopy]) -> Option<String> {
        let toolkit = &self.known.tables.packages.toolkit;
        let elsewhere = parse_cuda_version(&toolkit.extras_until);
        // Before 11.3 the library was here, as TensorFlow's own Dockerfiles of that time show.
        let is_later = |own: &LibraryCopy| {
            own.folder.as_deref() == Some(&*toolkit.libraries) && own.cuda.is_some() && own.cuda >= elsewhere
        };
        let is_extras = |path: &String| {
            let path = path.trim_end_matches('/').to_lowercase();
            path.starts_with(&toolkit.folder)
                && (path.ends_with(&toolkit.extras) || path.ends_with(&format!("{}/include", toolkit.extras)))
        };
        if !copies.iter().all(is_later) || !copy.sources.iter().any(is_extras) {
            return None;
        }
        let (from, folder, stem) = (copy.from.as_deref()?, &toolkit.libraries, &self.known.library.stem);
        let target = if now.cuda.is_empty() { LOCAL_FOLDER } else { folder };
        Some(format!("COPY --from={from} {folder}/{stem}* {target}/\nRUN ldconfig"))
    }

    /// Whether none of the paths reaches one of the copies. The links in `extras` may lead there.
    fn misses_all(&self, copy: &CopyAction, copies: &[LibraryCopy]) -> bool {
        let extras = &self.known.tables.packages.toolkit.extras;
        copy.sources.iter().all(|path| {
            let is_apart = |own: &LibraryCopy| compare_source(own, path, self.known) == PathOverlap::Apart;
            !path.to_lowercase().contains(extras) && copies.iter().all(is_apart)
        })
    }

    /// Whether a RUN may change which folders the loader searches. Only the image shows what its scripts write.
    fn may_configure(&self, run: &RunAction) -> bool {
        let table = &self.known.tables.build_steps;
        let is_hidden = |words: &[ShellWord], input: Option<&str>| {
            use CommandEffect::{MayChange, Runs, Writes};
            let effect = read_command(words, input, table);
            matches!(effect, Writes { is_adder: true, .. } | MayChange(_) | Runs(_))
        };
        match &run.program {
            RunProgram::Shell(script) => {
                let steps = read_script(script, &Variables::new());
                names_search_path(&script.text) || any_command(&steps, &is_hidden)
            }
            RunProgram::Words(words) => {
                let words: Vec<ShellWord> = words.iter().map(|word| ShellWord::plain(word)).collect();
                words.iter().any(|word| names_search_path(&word.text)) || is_hidden(&words, None)
            }
            RunProgram::Foreign(_) => true,
        }
    }

    /// Whether the loader may search a folder of the finished stage: by default, by `LD_LIBRARY_PATH`, or because of
    /// later steps.
    pub(super) fn may_be_searched<'s>(
        &self,
        now: &StageState,
        folder: &str,
        mut later: impl Iterator<Item = &'s BuildStep>,
    ) -> bool {
        let is_it = |own: &str| own.trim_end_matches('/') == folder;
        let toolkit = &self.known.tables.packages.toolkit;
        // Packages name these folders in /etc/ld.so.conf.d, and a program's own RUNPATH leads to a folder beside it.
        let is_configured = folder == LOCAL_FOLDER || folder.starts_with(&toolkit.folder);
        let is_beside = folder.contains("-packages/");
        let leads = |step: &BuildStep| match &step.action {
            StepAction::Environment(variables) => variables
                .get("LD_LIBRARY_PATH")
                .is_some_and(|value| value.contains('$') || value.split(':').any(is_it)),
            StepAction::Run(run) => self.may_configure(run),
            StepAction::Copy(copy) => copy.target.contains("ld.so.conf") || copy.from.is_none() && copy.target == "/",
            StepAction::Arguments { .. } | StepAction::Directory(_) => false,
        };
        let is_named = now
            .library_path
            .as_ref()
            .is_none_or(|path| path.iter().any(|own| is_it(own)));
        is_default_folder(folder) || is_configured || is_beside || is_named || later.any(leads)
    }
}

/// Whether the text of a RUN mentions the loader's search path.
fn names_search_path(text: &str) -> bool {
    ["ldconfig", "ld.so", "LD_LIBRARY_PATH"]
        .iter()
        .any(|word| text.contains(word))
}

fn is_default_folder(folder: &str) -> bool {
    DEFAULT_FOLDERS.iter().any(|own| {
        let rest = folder.strip_prefix(own);
        // An architecture folder, such as x86_64-linux-gnu.
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with("-linux-gnu"))
    })
}

/// The folder that a COPY of files writes to: its target, or the parent if the target is a file.
fn target_folder(target: &str) -> String {
    let is_file = !target.ends_with('/') && target.rsplit('/').next().is_some_and(|name| name.contains(".so"));
    match target.rsplit_once('/') {
        Some((folder, _)) if is_file => folder.to_owned(),
        _ => target.to_owned(),
    }
}
