//! A Dockerfile instruction that does not install libcupti as it seems to.

use super::rule_subject::{RuleSubject, escaped, flag, text};
use crate::knowledge::rule::SubjectKind;

/// The facts of an instruction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BuildStepFacts {
    /// The package, or the copied paths.
    pub what: String,
    /// The kind of trap, as `STEP_TRAP` of the subject's kind lists them.
    pub trap: &'static str,
    /// The stage or image that it copies from, the index that it installs from, or the source of what it removes.
    pub from: String,
    /// The alternative that would install the library.
    pub instead: String,
    /// The CUDA version of the copied or installed files.
    pub release: Option<String>,
    /// The CUDA version of the stage.
    pub cuda: Option<String>,
    /// The folder that is not on any search path, or where the library is instead.
    pub folder: String,
}

impl RuleSubject {
    /// An instruction as a subject. The flags tell whether the build gets the library in another way, whether that is
    /// open, and whether the build mentions the library.
    pub fn of_build_step(facts: &BuildStepFacts, is_brought: bool, is_open: bool, is_concerned: bool) -> Self {
        SubjectKind::BuildStep.subject([
            ("what", escaped(&facts.what)),
            ("trap", text(facts.trap)),
            ("from", escaped(&facts.from)),
            ("instead", escaped(&facts.instead)),
            ("release", text(facts.release.clone().unwrap_or_default())),
            ("cuda", text(facts.cuda.clone().unwrap_or_default())),
            ("folder", escaped(&facts.folder)),
            ("brought", flag(is_brought)),
            ("open", flag(is_open)),
            ("concerned", flag(is_concerned)),
        ])
    }
}
