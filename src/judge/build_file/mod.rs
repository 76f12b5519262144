//! A linter for Dockerfiles: finds steps that are known traps, and says nothing of what it does not see.
//!
//! The steps of a stage are followed in order. Base images and packages of `profiles/cupti/build-steps.yaml` bring the
//! library; each remains a source until a step deletes it. A trap is a pattern of one step. The stage around it only
//! decides how severe it is, or that a later step makes it good. A step that the table does not explain is *unseen*: it
//! never is a finding, and it keeps `image-without-cupti` from being one.
//!
//! The stages that lead to the image by FROM are judged, and those that they copy from.

mod builder_words;
mod command;
mod copies;
mod instructions;
mod packages;
mod paths;
mod removals;
mod search_path;
mod search_problems;
mod shell_steps;
mod stage_end;
mod stage_walk;
mod stages;
#[cfg(test)]
mod tests;
mod trap;

use std::collections::BTreeSet;
use std::ops::Range;

pub use self::stage_end::{LibrarySource, UnseenStep};

use self::paths::{LibraryPlace, is_environment_root, names_library};
use self::search_problems::{missing_folders, unread_confs};
use self::stage_end::{StageEnd, StepProblem, shown_version};
use self::stage_walk::StageWalk;
use self::stages::{BuildStage, StepAction, find_stage, read_stages};
use self::trap::{BuildEnd, StepFacts, StepTrap};
use crate::judge::file_check::{FileCheck, LineFinding};
use crate::judge::rule;
use crate::knowledge::Knowledge;
use crate::knowledge::mistake::unknown_name;

/// The summary of a stage.
pub struct StageSummary {
    /// Its name, or its number.
    pub name: String,
    /// Its base image or stage.
    pub base: String,
    /// Its version of CUDA.
    pub cuda: Option<String>,
    /// The known steps that bring the library, in order.
    pub sources: Vec<LibrarySource>,
}

/// The base images of the stages in the Dockerfile `text`, without duplicates, in file order. A name that depends on a
/// variable without a value keeps its `$`.
///
/// Errors: As [`check_build_file`].
pub fn list_base_images(text: &str) -> Result<Vec<String>, String> {
    let mut bases: Vec<String> = Vec::new();
    for stage in parse_build_file(text, &[])? {
        // `scratch` is the only name without an image (Dockerfile reference, "FROM scratch").
        if stage.parent.is_none() && stage.base != "scratch" && !bases.contains(&stage.base) {
            bases.push(stage.base);
        }
    }
    Ok(bases)
}

fn parse_build_file(text: &str, arguments: &[(String, String)]) -> Result<Vec<BuildStage>, String> {
    read_stages(text, &arguments.iter().cloned().collect())
        .map_err(|error| format!("line {}: {}", error.line, error.what))
}

/// Judges the Dockerfile `text`, called `file`, for these phases, by its last stage or by the stage `target`, with the values of
/// `arguments` for its ARG instructions.
///
/// Errors: A message with the line of a syntax error, or that the stage does not exist.
pub fn check_build_file(
    file: &str,
    text: &str,
    target: Option<&str>,
    arguments: &[(String, String)],
    knowledge: &Knowledge,
    phases: &[String],
) -> Result<FileCheck, String> {
    let stages = parse_build_file(text, arguments)?;
    let last = match target {
        None => stages.len().checked_sub(1),
        Some(name) => find_stage(&stages, name),
    }
    .ok_or_else(|| {
        let names: Vec<&str> = stages.iter().map(|stage| &*stage.name).collect();
        unknown_name("stage", target.unwrap_or_default(), &names)
    })?;
    let walk = StageWalk::new(text, &stages, knowledge);
    let build = Build::new(&walk, last);
    let asked = knowledge.phases_named(phases);
    let line_ends: Vec<usize> = text.match_indices('\n').map(|(end, _)| end).collect();
    let mut findings = Vec::new();
    for problem in build.problems() {
        for finding in rule::judge_hits(&knowledge.rules, &[problem.facts.hit()], &asked) {
            findings.push(LineFinding {
                finding,
                lines: lines_of(text, &line_ends, &problem.place.span),
                excerpt: text.get(problem.place.span.clone()).unwrap_or_default().to_owned(),
                replacement: problem.replacement(text),
            });
        }
    }
    findings.sort_by_key(|found| found.lines);
    let summaries = build.chain.iter().filter_map(|number| {
        let stage = stages.get(*number)?;
        let end = walk.ends.get(number)?;
        Some(StageSummary {
            name: stage.name.clone(),
            base: stage.base.clone(),
            cuda: end.cuda.first().copied().map(shown_version),
            sources: end.sources.clone(),
        })
    });
    Ok(FileCheck {
        file: file.to_owned(),
        findings,
        answer: answer(walk.ends.get(&last)),
        stages: summaries.collect(),
        unseen: walk.ends.get(&last).map_or_else(Vec::new, |end| end.unseen.clone()),
        notes: Vec::new(),
    })
}

/// The answer for a stage without a finding: the steps that are known to bring the library.
fn answer(end: Option<&StageEnd>) -> String {
    let mut sources: Vec<String> = Vec::new();
    for source in end.map_or(&[][..], |end| &end.sources) {
        let words = format!("{} (line {})", source.name, source.line);
        if !sources.contains(&words) {
            sources.push(words);
        }
    }
    match sources.as_slice() {
        [] => "no known trap".to_owned(),
        sources => format!("no known trap; libcupti: {}", sources.join(", ")),
    }
}

/// The stages of a file that make the image.
struct Build<'w> {
    walk: &'w StageWalk<'w>,
    /// Those that the last one is built on, and itself.
    chain: Vec<usize>,
    /// These, and those that they copy from.
    used: BTreeSet<usize>,
}

impl<'w> Build<'w> {
    fn new(walk: &'w StageWalk<'w>, last: usize) -> Self {
        let mut used = BTreeSet::new();
        let mut waiting = vec![last];
        while let Some(number) = waiting.pop() {
            if used.insert(number) {
                let stage = walk.stages.get(number).into_iter();
                waiting.extend(stage.clone().filter_map(|stage| stage.parent));
                waiting.extend(stage.flat_map(|stage| copies_of(walk.stages, stage).map(|(from, _)| from)));
            }
        }
        Self {
            walk,
            chain: stage_chain(walk.stages, last),
            used,
        }
    }

    /// The problems that the image has.
    fn problems(&self) -> Vec<StepProblem> {
        let mut problems = Vec::new();
        for number in &self.used {
            let own = self.walk.problems.get(number).map_or(&[][..], Vec::as_slice);
            problems.extend(own.iter().filter_map(|problem| self.judged(*number, problem)));
        }
        let Some(end) = self.end() else { return problems };
        problems.extend(unread_confs(self.walk, end));
        problems.extend(missing_folders(self.walk, &self.chain, end));
        if problems.is_empty() {
            problems.extend(self.without_library(end));
        }
        problems
    }

    /// The stage that becomes the image.
    fn end(&self) -> Option<&StageEnd> {
        self.walk.ends.get(self.chain.last()?)
    }

    /// A problem of a stage as the whole build shows it; `None` if it is none.
    fn judged(&self, number: usize, problem: &StepProblem) -> Option<StepProblem> {
        let is_in_image = self.chain.contains(&number);
        let end = if is_in_image {
            self.end()
        } else {
            self.walk.ends.get(&number)
        }?;
        let line = problem.place.line;
        let mut facts = problem.facts.clone();
        facts.end = BuildEnd {
            is_brought: !end.sources.is_empty(),
            is_open: !end.unseen.is_empty(),
            is_shipped: is_in_image || self.is_copied(number),
        };
        let holds = match facts.trap {
            StepTrap::Removed => {
                let later = end.unseen.get(problem.unseen_before..).unwrap_or_default();
                !later.iter().any(|step| step.may_install) && !end.sources.iter().any(|own| own.line >= line)
            }
            // Another step copies the library from there, or installs it later.
            StepTrap::Headers => {
                let suffix = format!(" of {}", facts.from);
                let is_cured = end.sources.iter().any(|own| {
                    let is_later = own.line > line && own.place != LibraryPlace::Environment;
                    is_later || own.name == facts.from || own.name.ends_with(&suffix)
                });
                is_in_image && !is_cured
            }
            // Another step installs PyTorch with its packages, or the package itself.
            StepTrap::LeftOut | StepTrap::OtherBuild => {
                let pin = self.walk.known.library.wheels.pin.as_deref().unwrap_or_default();
                let mut sources = end.sources.iter();
                is_in_image && !sources.any(|own| (own.links && own.line > line) || own.name.starts_with(pin))
            }
            StepTrap::OffPath => {
                let toolkit = &self.walk.known.tables.packages.toolkit;
                let is_changed = end.unseen.iter().any(|step| step.line > line);
                is_in_image && !is_changed && !end.search.may_contain(&facts.folder, toolkit)
            }
            trap => trap.fails_build() || is_in_image,
        };
        holds.then(|| StepProblem {
            facts,
            ..problem.clone()
        })
    }

    /// Whether the image takes an environment, a toolkit or the library from a stage.
    fn is_copied(&self, number: usize) -> bool {
        let known = self.walk.known;
        let toolkit = &known.tables.packages.toolkit.folder;
        let stages = self.used.iter().filter_map(|number| self.walk.stages.get(*number));
        let copies = stages.flat_map(|stage| copies_of(self.walk.stages, stage));
        let mut paths = copies
            .filter(|(from, _)| *from == number)
            .flat_map(|(_, sources)| sources);
        paths.any(|path| is_environment_root(path) || path.starts_with(toolkit.as_str()) || names_library(path, known))
    }

    /// That nothing brings the library, if every step is understood.
    fn without_library(&self, end: &StageEnd) -> Option<StepProblem> {
        if !end.sources.is_empty() || !end.unseen.is_empty() {
            return None;
        }
        if let Some(loss) = &end.loss {
            let mut loss = loss.clone();
            loss.facts.end.is_shipped = true;
            return Some(loss);
        }
        // A step that mentions it may bring it.
        let stem = self.walk.known.library.file_stem();
        let mut steps = self.walk.steps_of(&self.chain);
        if steps.any(|step| self.walk.text_of(&step.place).contains(stem)) {
            return None;
        }
        let first = self.walk.stages.get(*self.chain.first()?)?;
        let last = self.walk.stages.get(*self.chain.last()?)?;
        let facts = StepFacts {
            cuda: end.cuda.first().copied().map(shown_version),
            ..StepFacts::new(StepTrap::NoSource, &first.base)
        };
        Some(StepProblem::new(&last.from, facts))
    }
}

/// The stages that a stage copies from, with the paths.
fn copies_of<'s>(stages: &'s [BuildStage], stage: &'s BuildStage) -> impl Iterator<Item = (usize, &'s Vec<String>)> {
    stage.steps.iter().filter_map(|step| match &step.action {
        StepAction::Copy(copy) => Some((find_stage(stages, copy.from.as_deref()?)?, &copy.sources)),
        _ => None,
    })
}

/// The stages that a stage is built on, from the first to itself.
fn stage_chain(stages: &[BuildStage], last: usize) -> Vec<usize> {
    let mut chain = vec![last];
    let mut seen = BTreeSet::from([last]);
    while let Some(parent) = chain.last().and_then(|number| stages.get(*number)?.parent)
        && seen.insert(parent)
    {
        chain.push(parent);
    }
    chain.reverse();
    chain
}

/// The first and last line of a span; `line_ends` are byte offsets.
fn lines_of(text: &str, line_ends: &[usize], span: &Range<usize>) -> (usize, usize) {
    let written = text.get(span.clone()).unwrap_or_default();
    let places = [span.start, span.start + written.trim_end().len()];
    places
        .map(|place| 1 + line_ends.partition_point(|end| *end < place))
        .into()
}
