//! A suppression of the config of which there is something to say.

use super::rule_subject::{RuleSubject, text};
use crate::judge::rule::suppression::Suppression;
use crate::knowledge::rule::{FieldValue, SubjectKind};

impl RuleSubject {
    /// A suppression and its `state`: it is of the run, not of an image.
    pub fn of_suppression(suppression: &Suppression, state: &str) -> Self {
        let until = suppression.until.as_ref();
        SubjectKind::Suppression.subject([
            ("rule", text(suppression.rule.clone())),
            ("reason", text(suppression.reason.clone())),
            ("until", text(until.map_or_else(String::new, ToString::to_string))),
            ("line", FieldValue::Number(u64::from(suppression.line))),
            ("state", text(state)),
        ])
    }
}
