//! Something that a phase needs, wants or forbids, and that is not so in the image.

use super::evidence::Evidence;
use super::rule_subject::{RuleSubject, flag, text};
use crate::knowledge::rule::SubjectKind;

/// What a phase asks for in vain; the plan finds it.
pub struct UnmetNeed {
    /// The API or the tool, by its name in sentences.
    pub what: String,
    /// Why it cannot be used, or that it can where it must not.
    pub words: String,
    /// The loader's search, where one failed.
    pub evidence: Vec<Evidence>,
    /// Whether only another build of the program has it.
    pub other_build: bool,
}

impl RuleSubject {
    /// The need of a phase, and the key of the phase's file that asks for it: `needs`, `wants` or `forbids`.
    pub fn of_unmet_need(phase: &str, level: &str, need: UnmetNeed) -> Self {
        SubjectKind::Need
            .subject([
                ("phase", text(phase)),
                ("level", text(level)),
                ("what", text(need.what)),
                ("why", text(need.words)),
                ("other_build", flag(need.other_build)),
            ])
            .shown_by(need.evidence)
    }
}
