//! Finds problems in a Dockerfile before it is built: steps that install no libcupti, the wrong one, or one off the
//! search path.
//!
//! Only the stages that lead to the image are judged, and only by the file itself. A script, a build context or a
//! private image may contain anything, so there are no findings about them.

mod installed_packages;
mod shell_commands;
mod stage_state;
mod stages;

use std::collections::BTreeSet;
use std::ops::Range;

use parse_dockerfile::Dockerfile;

use self::stage_state::{StageWalk, StepProblem};
use self::stages::{BuildStage, find_stage, read_stages};
use crate::facts::Gap;
use crate::judge::rule::{self, Finding};
use crate::knowledge::Knowledge;

/// The maximum number of ONBUILD instructions in a file.
const TRIGGERS: usize = 100;

/// The maximum number of stages in a file.
const STAGES: usize = 1000;

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
    /// The parts that could not be followed.
    pub gaps: Vec<Gap>,
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
    pub presence: &'static str,
}

/// The base images of the stages in the Dockerfile `text`, without duplicates, in file order. A name that depends on a
/// variable without a value keeps its `$`.
///
/// Errors: As [`check_build_file`].
pub fn list_base_images(text: &str) -> Result<Vec<String>, String> {
    let mut bases: Vec<String> = Vec::new();
    for stage in read_stages(&parse_build_file(text)?) {
        // `scratch` is the only name without an image (Dockerfile reference, "FROM scratch").
        if stage.parent.is_none() && stage.base != "scratch" && !bases.contains(&stage.base) {
            bases.push(stage.base);
        }
    }
    Ok(bases)
}

/// Parses the Dockerfile `text` within the limits.
fn parse_build_file(text: &str) -> Result<Dockerfile<'_>, String> {
    // The parser recurses into each of them, although a builder rejects nested ones.
    let triggers = text.to_lowercase().matches("onbuild").count();
    if triggers > TRIGGERS {
        return Err(format!("it has more than {TRIGGERS} ONBUILD instructions"));
    }
    let file: Dockerfile<'_> = parse_dockerfile::parse(text).map_err(|error| without_quoted(&error.to_string()))?;
    // Each stage may start from any earlier one.
    if file.stages().len() > STAGES {
        return Err(format!("it has more than {STAGES} stages"));
    }
    Ok(file)
}

/// The error text without the offending token. If a pull request makes the Dockerfile a link, the token would leak a
/// word of the linked file. The line and column still locate the error.
fn without_quoted(said: &str) -> String {
    let parts = said.split_once(" '").zip(said.rsplit_once('\''));
    parts.map_or_else(
        || said.to_owned(),
        |((before, _), (_, behind))| format!("{before}{behind}"),
    )
}

/// Judges the Dockerfile `text` for these phases, by its last stage or by the stage `target`.
///
/// Errors: A message with the line of a syntax error, or that the stage does not exist.
pub fn check_build_file(
    text: &str,
    target: Option<&str>,
    knowledge: &Knowledge,
    phases: &[String],
) -> Result<BuildFileReport, String> {
    let stages = read_stages(&parse_build_file(text)?);
    let last = match target {
        None => stages.len().checked_sub(1),
        Some(name) => find_stage(&stages, name),
    };
    let last = last.ok_or_else(|| format!("there is no stage {}", target.unwrap_or_default()))?;
    let line_ends: Vec<usize> = text.match_indices('\n').map(|(end, _)| end).collect();
    let is_concerned = text.to_lowercase().contains(&knowledge.library.package_word);
    let mut walk = StageWalk::new(&stages, knowledge);
    let chain = stage_chain(&stages, last);
    let reached: Vec<_> = chain.iter().map(|number| walk.state_of(*number)).collect();
    let asked = knowledge.phases_named(phases);
    let final_state = reached.last().ok_or("there is no stage")?;
    let problems = chain.iter().enumerate().flat_map(|(at, number)| {
        let later = chain.get(at + 1..).unwrap_or_default();
        let later = later.iter().filter_map(|number| stages.get(*number));
        let later = later.flat_map(|stage| &stage.steps);
        let own = walk.problems_of(*number).iter();
        own.filter(move |problem| !problem.is_mended_by(later.clone()))
    });
    let problems: Vec<&StepProblem> = problems.collect();
    let findings = problems.into_iter().flat_map(|problem| {
        let subject = problem.subject(final_state, is_concerned);
        let found = rule::judge_subjects(&knowledge.rules, &[subject], &asked);
        found.into_iter().map(|finding| StepFinding {
            finding,
            lines: lines_of(text, &line_ends, &problem.span),
            instruction: text.get(problem.span.clone()).unwrap_or_default().to_owned(),
            replacement: problem.replacement(text),
        })
    });
    let mut findings: Vec<StepFinding> = findings.collect();
    findings.sort_by_key(|found| found.lines);
    let summaries = chain.iter().zip(&reached).filter_map(|(number, state)| {
        let stage = stages.get(*number)?;
        Some(StageSummary {
            name: stage.name.clone(),
            base: stage.base.clone(),
            cuda: state.cuda.map(|(major, minor)| format!("{major}.{minor}")),
            presence: state.presence.words(),
        })
    });
    Ok(BuildFileReport {
        library_name: knowledge.library.name.clone(),
        library_file: knowledge.library.file_stem().to_owned(),
        findings,
        stages: summaries.collect(),
        gaps: Vec::new(),
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
    let line = |place: usize| 1 + line_ends.partition_point(|end| *end < place);
    let written = text.get(span.clone()).unwrap_or_default();
    (line(span.start), line(span.start + written.trim_end().len()))
}
