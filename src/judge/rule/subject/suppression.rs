//! A suppression in the config that deserves a remark.

use super::rule_subject::{RuleSubject, text};
use crate::judge::rule::suppression::Suppression;
use crate::knowledge::rule::{FieldValue, SubjectKind};

impl RuleSubject {
    /// A suppression and its `state`. It belongs to the run, not to an image.
    pub fn of_suppression(suppression: &Suppression, state: &str) -> Self {
        let until = suppression.until.as_ref();
        let place = match suppression.line {
            0 => "on the command line".to_owned(),
            line => format!("on line {line} of the config"),
        };
        SubjectKind::Suppression.subject([
            ("target", text(suppression.target.name())),
            ("rule", text(suppression.rule.clone())),
            ("reason", text(suppression.reason.clone())),
            ("until", text(until.map_or_else(String::new, ToString::to_string))),
            ("place", text(place)),
            ("line", FieldValue::Number(u64::from(suppression.line))),
            ("state", text(state)),
        ])
    }
}
