//! What is known of the library in a stage: that it is absent, that it is there, or from which line on nobody knows.

use super::paths::{PathOverlap, compare_path};
use crate::facts::software::cuda_runtime::CudaVersion;
use crate::knowledge::Knowledge;
use crate::knowledge::packages::PackageManager;

/// The state of the library in a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LibraryPresence {
    Absent,
    /// In at least one copy.
    Present(Vec<LibraryCopy>),
    Unknown(BuildDoubt),
}

/// What a step does that may not run.
pub(super) const CONDITION: &str = "adds or removes it under a condition";

/// The first step whose effect the Dockerfile does not show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildDoubt {
    /// The line of its instruction.
    pub line: usize,
    /// What it does: a verb and its object.
    pub why: String,
}

/// A copy of the library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LibraryCopy {
    /// The image, package or stage that it comes from.
    pub source: String,
    /// The package that owns it, if a package manager does.
    pub owner: Option<PackageOwner>,
    /// Its folder; `None` if it is in a Python package.
    pub folder: Option<String>,
    /// The CUDA version of the library.
    pub cuda: Option<CudaVersion>,
}

/// The package that owns a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PackageOwner {
    pub manager: PackageManager,
    /// Its name; `None` if it is one of several.
    pub name: Option<String>,
    /// The package that was installed, if it only depends on the owner. `None` if it was removed again.
    pub via: Option<String>,
}

/// Whether a step takes a copy away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CopyFate {
    Kept,
    Removed,
    Unknown,
}

impl LibraryPresence {
    /// The state in words.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Absent => "no step brings it".to_owned(),
            Self::Present(copies) => {
                let sources: Vec<&str> = copies.iter().map(|copy| &*copy.source).collect();
                format!("from {}", sources.join(", "))
            }
            Self::Unknown(doubt) => format!("not known, because line {} {}", doubt.line, doubt.why),
        }
    }

    /// Adds a copy. What may have happened before does not matter any more.
    pub(super) fn add(&mut self, copy: LibraryCopy) {
        match self {
            Self::Present(copies) => copies.push(copy),
            Self::Absent | Self::Unknown(_) => *self = Self::Present(vec![copy]),
        }
    }

    /// Something may have been added.
    pub(super) fn may_gain(&mut self, doubt: BuildDoubt) {
        if *self == Self::Absent {
            *self = Self::Unknown(doubt);
        }
    }

    /// Takes copies away. The source of the last one, if none is left.
    pub(super) fn remove(&mut self, doubt: &BuildDoubt, fate: impl Fn(&mut LibraryCopy) -> CopyFate) -> Option<String> {
        let Self::Present(copies) = self else {
            return None;
        };
        let mut last = None;
        let mut is_unsure = false;
        copies.retain_mut(|copy| match fate(copy) {
            CopyFate::Kept => true,
            CopyFate::Removed => {
                last = Some(copy.source.clone());
                false
            }
            CopyFate::Unknown => {
                is_unsure = true;
                false
            }
        });
        if !copies.is_empty() {
            return None;
        }
        if is_unsure {
            *self = Self::Unknown(doubt.clone());
            return None;
        }
        *self = Self::Absent;
        last
    }

    /// The state if steps that lead from here to `after` may not run.
    pub(super) fn joined(self, after: Self, line: usize) -> Self {
        match (self, after) {
            (before, after) if before == after => before,
            // A copy that is there either way.
            (Self::Present(mut copies), Self::Present(others)) if copies.iter().any(|own| others.contains(own)) => {
                copies.retain(|own| others.contains(own));
                Self::Present(copies)
            }
            (Self::Unknown(doubt), _) | (_, Self::Unknown(doubt)) => Self::Unknown(doubt),
            _ => {
                let why = CONDITION.to_owned();
                Self::Unknown(BuildDoubt { line, why })
            }
        }
    }
}

impl LibraryCopy {
    /// Whether deleting a path takes the copy away.
    pub(super) fn fate_of_deletion(&self, path: &str, is_recursive: bool, known: &Knowledge) -> CopyFate {
        match compare_path(self, path, known) {
            PathOverlap::Apart => CopyFate::Kept,
            // Without -r, rm refuses a folder.
            PathOverlap::Around(_) if !is_recursive => CopyFate::Kept,
            PathOverlap::Around(_) | PathOverlap::Files => CopyFate::Removed,
            PathOverlap::Unknown => CopyFate::Unknown,
        }
    }
}

impl PackageOwner {
    /// Whether removing packages takes this one away.
    pub(super) fn fate_of_removal(
        &mut self,
        names: &[String],
        with_orphans: bool,
        is_related: impl Fn(&str) -> bool,
    ) -> CopyFate {
        let covers = |own: &str| names.iter().any(|name| is_covered(own, name));
        if self.name.as_deref().is_some_and(covers) {
            return CopyFate::Removed;
        }
        let is_requester = self.via.as_deref().is_some_and(covers);
        if is_requester {
            self.via = None;
        }
        let is_orphan = self.name != self.via && self.via.is_none();
        let may_be = names.iter().any(|name| is_related(name) && !is_requester);
        if may_be || (is_orphan && with_orphans) {
            CopyFate::Unknown
        } else {
            CopyFate::Kept
        }
    }
}

/// Whether a name with an optional final `*` stands for a package.
fn is_covered(own: &str, name: &str) -> bool {
    match name.strip_suffix('*') {
        Some(stem) => !stem.is_empty() && own.starts_with(stem),
        None => own == name,
    }
}
