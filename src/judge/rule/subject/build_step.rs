//! An instruction of a Dockerfile that does not bring libcupti as it seems to.

use super::rule_subject::{RuleSubject, escaped, flag, text};
use crate::knowledge::rule::SubjectKind;

/// What is known of an instruction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BuildStepFacts {
    /// The package, or the paths that are copied.
    pub what: String,
    /// What it brings: `nothing`, `no-package`, `headers`, `missing`, `other-release` or `off-path`.
    pub brings: &'static str,
    /// The stage or image that is copied from.
    pub from: String,
    /// What would bring the library.
    pub instead: String,
    /// The CUDA of what is brought.
    pub release: Option<String>,
    /// The CUDA of the stage.
    pub cuda: Option<String>,
    /// The folder that no search path leads to.
    pub folder: String,
    /// Whether a search path leads to where the library would lie, were it among what is copied.
    pub searched: bool,
}

impl RuleSubject {
    /// An instruction in a build that brings the library in another way, or may, and that speaks of it, or not.
    pub fn of_build_step(facts: &BuildStepFacts, is_brought: bool, is_open: bool, is_concerned: bool) -> Self {
        SubjectKind::BuildStep.subject([
            ("what", escaped(&facts.what)),
            ("brings", text(facts.brings)),
            ("from", escaped(&facts.from)),
            ("instead", escaped(&facts.instead)),
            ("release", text(facts.release.clone().unwrap_or_default())),
            ("cuda", text(facts.cuda.clone().unwrap_or_default())),
            ("folder", escaped(&facts.folder)),
            ("searched", flag(facts.searched)),
            ("brought", flag(is_brought)),
            ("open", flag(is_open)),
            ("concerned", flag(is_concerned)),
        ])
    }
}
