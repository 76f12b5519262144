//! A requested profiling tool that would not work.

use super::rule_subject::{RuleSubject, text};
use crate::knowledge::rule::SubjectKind;

impl RuleSubject {
    /// Tools that exclude each other, and the reason, as sentences.
    pub fn of_rivals(tools: &str, why: &str) -> Self {
        SubjectKind::Rivals.subject([("tools", text(tools)), ("why", text(why))])
    }

    /// A tool by its profile's name, its state in the image and the reasons.
    pub fn of_tool(name: &str, state: &str, because: &[String]) -> Self {
        SubjectKind::Tool.subject([
            ("tool", text(name)),
            ("state", text(state)),
            ("why", text(because.join("; "))),
        ])
    }
}
