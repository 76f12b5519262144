//! Something that a phase needs, wants or forbids, but the image does not satisfy.

use super::evidence::Evidence;
use super::rule_subject::{RuleSubject, flag, text};
use crate::knowledge::rule::SubjectKind;

/// An unmet need of a phase; the plan finds it.
pub struct UnmetNeed {
    /// The display name of the API or tool.
    pub what: String,
    /// Why it cannot be used, or that a forbidden one can be used.
    pub words: String,
    /// The loader's search, if one failed.
    pub evidence: Vec<Evidence>,
    /// Whether only another build of the program has it.
    pub other_build: bool,
}

impl RuleSubject {
    /// The need of a phase, and the key in the phase's file that demands it: `needs`, `wants` or `forbids`.
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
