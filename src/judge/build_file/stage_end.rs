//! A stage after its steps: what brings the library, what is not understood, and the problems of its steps.

use super::builder_words::Variables;
use super::paths::{LibraryPlace, WorkingFolder};
use super::search_path::SearchPath;
use super::stages::{StepPlace, extend};
use super::trap::StepFacts;
use crate::facts::software::cuda_runtime::{CudaVersion, parse_cuda_version};

/// The maximum number of sources of a stage.
const MOST_SOURCES: usize = 100;

/// The maximum number of steps of each kind that a stage remembers.
const MOST_STEPS: usize = 1000;

/// A stage after its last step.
#[derive(Debug, Clone, Default)]
pub(super) struct StageEnd {
    /// The base images and steps that bring the library, without those whose copy was deleted.
    pub sources: Vec<LibrarySource>,
    /// The steps that the Dockerfile does not show, in order.
    pub unseen: Vec<UnseenStep>,
    /// The CUDA versions of its base image and of the toolkits that its steps install.
    pub cuda: Vec<CudaVersion>,
    /// `ID` and `VERSION_ID` of its distribution, if the base image's name shows them.
    pub system: Option<(String, String)>,
    /// Whether the table has its base image.
    pub is_known_base: bool,
    pub search: SearchPath,
    pub folder: WorkingFolder,
    pub variables: Variables,
    /// Whether variables may name another index of packages.
    pub has_own_index: bool,
    /// Whether the usual wheels are others or none: on Arm, and with musl.
    pub has_other_wheels: bool,
    /// The step that deleted the last copy together with other files.
    pub loss: Option<StepProblem>,
}

/// A base image or a step that brings the library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibrarySource {
    /// The image, package or path.
    pub name: String,
    /// The line of its instruction.
    pub line: usize,
    pub(super) place: LibraryPlace,
    /// The CUDA version of the library.
    pub(super) cuda: Option<CudaVersion>,
    /// Whether it is a package whose import fails without the library.
    pub(super) links: bool,
}

/// A step that the Dockerfile does not show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnseenStep {
    /// The line of its instruction.
    pub line: usize,
    /// A verb and its object.
    pub why: String,
    /// Whether it may install packages.
    pub(super) may_install: bool,
}

/// A step that is a known trap.
#[derive(Debug, Clone)]
pub(super) struct StepProblem {
    pub place: StepPlace,
    pub facts: StepFacts,
    /// The edit that fixes the instruction.
    pub edit: Option<StepEdit>,
    /// The number of steps before it that the Dockerfile does not show.
    pub unseen_before: usize,
}

#[derive(Debug, Clone)]
pub(super) enum StepEdit {
    /// Another word in the place of one.
    Replace(String, String),
    Append(String),
}

impl StepProblem {
    pub(super) fn new(place: &StepPlace, facts: StepFacts) -> Self {
        Self {
            place: place.clone(),
            facts,
            edit: None,
            unseen_before: 0,
        }
    }

    /// The corrected instruction; `None` if it is not known, or if the word to replace is not written once.
    pub(super) fn replacement(&self, text: &str) -> Option<String> {
        let written = text.get(self.place.span.clone())?;
        match self.edit.as_ref()? {
            StepEdit::Append(more) => Some(format!("{}\n{more}", written.trim_end())),
            StepEdit::Replace(old, new) => {
                let (before, after) = written.split_once(old.as_str())?;
                (!after.contains(old.as_str())).then(|| format!("{before}{new}{after}"))
            }
        }
    }
}

impl StageEnd {
    /// Takes sources away: completes the problem of the step that does it. `None` if it certainly reaches none.
    pub(super) fn take_away(
        &mut self,
        is_reached: impl Fn(&LibrarySource) -> bool,
        mut problem: StepProblem,
    ) -> Option<StepProblem> {
        let (reached, left): (Vec<_>, Vec<_>) = std::mem::take(&mut self.sources).into_iter().partition(is_reached);
        let was_empty = reached.is_empty() && left.is_empty();
        self.sources = left;
        problem.facts.is_linked = reached.iter().any(|source| source.links);
        problem.facts.is_last = self.sources.is_empty();
        problem.unseen_before = self.unseen.len();
        // Without a known source, the library most likely came with PyTorch.
        problem.facts.instead = String::from(if problem.facts.is_linked || was_empty {
            "PyTorch from PyPI does not import without it"
        } else {
            "torch.profiler and other profilers see no GPU without it"
        });
        (!reached.is_empty() || !self.unseen.is_empty()).then_some(problem)
    }

    /// Takes sources away with other files. It is a problem only if nothing else brings the library.
    pub(super) fn lose(&mut self, is_reached: impl Fn(&LibrarySource) -> bool, problem: StepProblem) {
        let had_source = !self.sources.is_empty();
        let lossy = self.take_away(is_reached, problem);
        if had_source && self.sources.is_empty() {
            self.loss = lossy;
        }
    }

    /// Notes a step that the Dockerfile does not show.
    pub(super) fn unseen(&mut self, line: usize, why: String, may_install: bool) {
        let step = UnseenStep { line, why, may_install };
        if !self.unseen.contains(&step) {
            self.unseen.push(step);
        }
    }

    /// Forgets what no real Dockerfile has. A stage takes all of this from its base stage.
    pub(super) fn limit(&mut self) {
        self.sources.truncate(MOST_SOURCES);
        self.unseen.truncate(MOST_STEPS);
        self.search.truncate(MOST_STEPS);
    }

    pub(super) fn set_variables(&mut self, variables: &Variables) {
        extend(&mut self.variables, variables);
        let version = variables
            .get("CUDA_VERSION")
            .and_then(|version| parse_cuda_version(version));
        if self.cuda.is_empty() {
            self.cuda.extend(version);
        }
    }
}

pub(super) fn shown_version((major, minor): CudaVersion) -> String {
    format!("{major}.{minor}")
}
