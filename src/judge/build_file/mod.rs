//! Finds known traps in a Dockerfile before it is built.
//!
//! The model: after each step a stage is in one of three states. The library is absent; it is present, in copies with
//! their owner and folder; or it is not known, since a line. The steps lead from state to state:
//!
//! 1. FROM takes the state of a stage, of an image in the table of base images, or none is known.
//! 2. A package manager adds the copy of a package in the table, or nothing, or nobody knows. An option, an index or a
//!    setting that is not in the table leaves it open.
//! 3. Removing packages and deleting paths takes the copies away that they certainly reach; what may reach one makes
//!    the state unknown, and so does a loss after a step that may have put a copy elsewhere.
//! 4. COPY of a stage brings the copies that are in its sources, along the links of the toolkit.
//! 5. A program that is not in the table makes the state unknown; so does a step under a condition, if it changes it.
//!
//! Findings need a certain state: about a step's own package, the stage that it copies from, the copies that it takes
//! away, or, at the end, the whole image. Only the stages that lead to the image are judged.

mod builder_words;
mod command_effect;
mod copies;
mod instructions;
mod package_steps;
mod paths;
mod presence;
mod shell_steps;
mod stages;
#[cfg(test)]
mod tests;
mod walk;

use std::collections::BTreeSet;
use std::ops::Range;

pub use self::presence::BuildDoubt;

use self::presence::LibraryPresence;
use self::stages::{BuildStage, BuildStep, find_stage, read_stages};
use self::walk::{StageState, StageWalk, StepProblem, shown_version};
use crate::judge::rule::{self, BuildStepFacts, Finding, RuleSubject};
use crate::knowledge::Knowledge;
use crate::knowledge::mistake::unknown_name;

/// The result for a Dockerfile.
pub struct BuildFileReport {
    /// The display name of the library that the steps are judged for.
    pub library_name: String,
    /// The library's file name without `.so`.
    pub library_file: String,
    /// The findings, by line.
    pub findings: Vec<StepFinding>,
    /// The stages that lead to the image, first to last.
    pub stages: Vec<StageSummary>,
    /// The steps of these stages whose effect the Dockerfile does not show.
    pub unseen: Vec<BuildDoubt>,
    /// Whether these steps leave it open if the library is in the image.
    pub is_open: bool,
}

/// A finding on one instruction.
pub struct StepFinding {
    /// The rule's finding.
    pub finding: Finding,
    /// The first and last line of the instruction, counted from 1.
    pub lines: (usize, usize),
    /// The instruction as written.
    pub instruction: String,
    /// A replacement for the instruction.
    pub replacement: Option<String>,
}

/// The summary of a stage.
pub struct StageSummary {
    /// Its name, or its number.
    pub name: String,
    /// Its base image or stage.
    pub base: String,
    /// Its version of CUDA.
    pub cuda: Option<String>,
    /// Whether the library is in it, as text.
    pub presence: String,
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

/// Judges the Dockerfile `text` for these phases, by its last stage or by the stage `target`, with the values of
/// `arguments` for its ARG instructions.
///
/// Errors: A message with the line of a syntax error, or that the stage does not exist.
pub fn check_build_file(
    text: &str,
    target: Option<&str>,
    arguments: &[(String, String)],
    knowledge: &Knowledge,
    phases: &[String],
) -> Result<BuildFileReport, String> {
    let stages = parse_build_file(text, arguments)?;
    let last = match target {
        None => stages.len().checked_sub(1),
        Some(name) => find_stage(&stages, name),
    };
    let names: Vec<&str> = stages.iter().map(|stage| &*stage.name).collect();
    let last = last.ok_or_else(|| unknown_name("stage", target.unwrap_or_default(), &names))?;
    let walk = StageWalk::new(&stages, knowledge);
    let chain = stage_chain(&stages, last);
    let final_state = walk.states.get(&last).ok_or("there is no stage")?;
    let is_concerned = text.to_lowercase().contains(&knowledge.library.package_word);
    let asked = knowledge.phases_named(phases);
    let line_ends: Vec<usize> = text.match_indices('\n').map(|(end, _)| end).collect();
    let judge = |problem: &StepProblem| -> Vec<StepFinding> {
        let subject = subject_of(problem, final_state, is_concerned);
        let found = rule::judge_subjects(&knowledge.rules, &[subject], &asked).into_iter();
        let step = |finding| StepFinding {
            finding,
            lines: lines_of(text, &line_ends, &problem.place.span),
            instruction: text.get(problem.place.span.clone()).unwrap_or_default().to_owned(),
            replacement: problem.replacement(text),
        };
        found.map(step).collect()
    };
    let (names, losses): (Vec<_>, Vec<_>) = certain_problems(&walk, &chain, final_state)
        .into_iter()
        .partition(|problem| problem.facts.trap == "repeated-stage");
    let mut findings: Vec<StepFinding> = losses.into_iter().flat_map(judge).collect();
    // A finding on a step explains why the library is missing.
    if findings.is_empty() {
        findings.extend(absent_library(&stages, &chain, final_state).iter().flat_map(judge));
    }
    findings.extend(names.into_iter().flat_map(judge));
    findings.sort_by_key(|found| found.lines);
    let summaries = chain.iter().filter_map(|number| {
        let stage = stages.get(*number)?;
        let end = walk.states.get(number)?;
        Some(StageSummary {
            name: stage.name.clone(),
            base: stage.base.clone(),
            cuda: end.cuda.first().copied().map(shown_version),
            presence: end.presence.words(),
        })
    });
    Ok(BuildFileReport {
        library_name: knowledge.library.name.clone(),
        library_file: knowledge.library.file_stem().to_owned(),
        findings,
        stages: summaries.collect(),
        unseen: final_state.unseen.clone(),
        is_open: matches!(final_state.presence, LibraryPresence::Unknown(_)),
    })
}

/// The problems of the stages that lead to the image, without those that a later stage solves.
fn certain_problems<'w>(walk: &'w StageWalk<'_>, chain: &[usize], end: &StageState) -> Vec<&'w StepProblem> {
    let problems = chain.iter().enumerate().flat_map(|(at, number)| {
        let later = chain.get(at + 1..).unwrap_or_default();
        let later = later.iter().filter_map(|number| walk.stages.get(*number));
        let later: Vec<&BuildStep> = later.flat_map(|stage| &stage.steps).collect();
        let own = walk.problems.get(number).map_or(&[][..], Vec::as_slice).iter();
        own.filter(move |problem| {
            let facts = &problem.facts;
            facts.trap != "off-path" || !walk.may_be_searched(end, &facts.folder, later.iter().copied())
        })
    });
    problems.collect()
}

/// That no step brings the library, if it is certain.
fn absent_library(stages: &[BuildStage], chain: &[usize], end: &StageState) -> Option<StepProblem> {
    let first = stages.get(*chain.first()?)?;
    let last = stages.get(*chain.last()?)?;
    (end.presence == LibraryPresence::Absent).then(|| StepProblem {
        place: last.from.clone(),
        facts: BuildStepFacts {
            what: first.base.clone(),
            trap: "no-source",
            cuda: end.cuda.first().copied().map(shown_version),
            ..BuildStepFacts::default()
        },
        edit: None,
    })
}

/// A problem as a rule subject, for a build that ends in a state.
fn subject_of(problem: &StepProblem, end: &StageState, is_concerned: bool) -> RuleSubject {
    let is_open = matches!(end.presence, LibraryPresence::Unknown(_));
    // What a step brought before others were not seen is most likely still there.
    let is_brought = matches!(end.presence, LibraryPresence::Present(_)) || (is_open && end.was_brought);
    RuleSubject::of_build_step(&problem.facts, is_brought, is_open, is_concerned)
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
    let line = |place: usize| 1 + line_ends.partition_point(|end| *end < place);
    let written = text.get(span.clone()).unwrap_or_default();
    (line(span.start), line(span.start + written.trim_end().len()))
}
