//! The loader's answer to one request, independent of the process that made it.

use std::sync::Arc;

use crate::facts::objects::resolved_objects::{opened_object, unresolved_objects};
use image_linkage::elf::ByteString;
use image_linkage::loader::{
    LoadResolution, LoadedObject, LoaderBudget, ObjectNames, RequestOutcome, SearchStage, SearchStep, TraceLine,
    UnresolvedRequest, trace_lines,
};
use image_linkage::path::RootPath;

/// The loader's answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadAnswer {
    /// The file that satisfies the request, or why none does.
    pub result: Result<LoadedFile, LoadFailure>,
    /// The search that led to it.
    pub search: Search,
}

/// A file that satisfies a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedFile {
    /// The path under which the loader opened it.
    pub path: ByteString,
    /// The path with links resolved.
    pub real_path: RootPath,
    /// How it was found.
    pub how: SearchStage,
}

/// Why a request fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadFailure {
    /// Never `Loaded`.
    pub outcome: RequestOutcome,
    /// The loader's message, with access denials and ignored settings.
    pub message: String,
    /// The missing symbol version, if that is the cause.
    pub missing_version: Option<ByteString>,
}

impl LoadAnswer {
    /// The answer if the request resolves to `object`.
    pub(crate) fn of_object(object: &LoadedObject, objects: &[LoadedObject]) -> Self {
        let file = LoadedFile {
            path: object.path.clone(),
            real_path: object.real_path.clone(),
            how: object.how,
        };
        Self {
            result: Ok(file),
            search: Search::new(&object.trace, objects, Some(object.how)),
        }
    }

    pub(crate) fn of_failure(failure: &UnresolvedRequest, objects: &[LoadedObject]) -> Self {
        let reason = LoadFailure {
            outcome: failure.outcome,
            message: failure.message.clone(),
            missing_version: failure.missing_version.clone(),
        };
        Self {
            result: Err(reason),
            search: Search::new(&failure.trace, objects, None),
        }
    }

    /// The answer to a dlopen; `None` if no object opened and none failed.
    pub(crate) fn of_open(opened: &LoadResolution) -> Option<Self> {
        if let Some(object) = opened_object(opened).filter(|_| opened.loads()) {
            return Some(Self::of_object(object, &opened.objects));
        }
        let failure = unresolved_objects(opened).next()?;
        Some(Self::of_failure(failure, &opened.objects))
    }

    pub(crate) fn failed(outcome: RequestOutcome, message: String, search: Search) -> Self {
        let failure = LoadFailure {
            outcome,
            message,
            missing_version: None,
        };
        Self {
            result: Err(failure),
            search,
        }
    }

    /// The answer to a request that the loader did not search for.
    pub(crate) fn not_found(message: String) -> Self {
        Self::failed(RequestOutcome::NotFound, message, Search::default())
    }

    /// The outcome of the request.
    pub fn outcome(&self) -> RequestOutcome {
        match &self.result {
            Ok(_) => RequestOutcome::Loaded,
            Err(failure) => failure.outcome,
        }
    }

    /// Whether a file satisfies the request.
    pub fn is_loaded(&self) -> bool {
        self.result.is_ok()
    }

    /// The file that satisfies the request.
    pub fn file(&self) -> Option<&LoadedFile> {
        self.result.as_ref().ok()
    }

    /// The path of that file, with links resolved.
    pub fn real_path(&self) -> Option<&RootPath> {
        self.file().map(|file| &file.real_path)
    }

    /// The loader's message; empty if the request succeeds.
    pub fn message(&self) -> &str {
        self.result.as_ref().err().map_or("", |failure| &failure.message)
    }

    /// How the file was found, for reports.
    pub fn way(&self) -> Option<String> {
        let file = self.file()?;
        Some(file.how.text(&self.search.objects))
    }
}

/// The steps of a search.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Search {
    steps: Arc<[SearchStep]>,
    /// The objects that the steps refer to by number.
    objects: ObjectNames,
}

impl Search {
    pub(crate) fn new(steps: &[SearchStep], objects: &[LoadedObject], how: Option<SearchStage>) -> Self {
        Self {
            steps: steps.into(),
            objects: ObjectNames::of_trace(objects, steps, how),
        }
    }

    /// The steps in the loader's order.
    pub fn steps(&self) -> &[SearchStep] {
        &self.steps
    }

    /// The steps as lines of a report.
    pub fn lines(&self) -> Vec<TraceLine> {
        trace_lines(&self.steps, &self.objects)
    }

    /// Shares equal steps with another search, because thousands of objects may search the same directories. Steps that
    /// are not shared count against the budget.
    pub(crate) fn share_with(&mut self, other: Option<&Self>, budget: &LoaderBudget) {
        match other.filter(|other| other.steps == self.steps) {
            Some(other) => self.steps = Arc::clone(&other.steps),
            None => budget.keep_trace(&self.steps),
        }
    }
}
