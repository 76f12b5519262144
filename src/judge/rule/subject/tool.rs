//! A profiling tool that a run was asked about and that would not work.

use super::rule_subject::{RuleSubject, text};
use crate::knowledge::rule::SubjectKind;

impl RuleSubject {
    /// Tools by their names that keep each other out, and why, in sentences.
    pub fn of_rivals(tools: &str, why: &str) -> Self {
        SubjectKind::Rivals.subject([("tools", text(tools)), ("why", text(why))])
    }

    /// A tool by the name in its profile, its state in the image and the reasons for it.
    pub fn of_tool(name: &str, state: &str, because: &[String]) -> Self {
        SubjectKind::Tool.subject([
            ("tool", text(name)),
            ("state", text(state)),
            ("why", text(because.join("; "))),
        ])
    }
}
