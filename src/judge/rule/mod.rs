//! Applies rules to turn the facts of an image into findings.
//!
//! The facts become flat [`RuleSubject`]s with named fields. [`judge_subjects`] matches them against the rules, which
//! are data ([`crate::knowledge::rule`]). [`suppression`] marks the findings that a project already knows.

mod finding;
mod judge;
mod subject;
pub mod suppression;

pub use crate::knowledge::rule::{FieldValue, Rule, RuleCure, RuleQuestion, Severity, SubjectKind};
pub use finding::{Finding, FindingLocation, PackageRepair, SuppressionMark};
pub use judge::{judge_subjects, sort_findings};
pub use subject::{
    BuildStepFacts, Evidence, RuleSubject, StoppedWork, UnmetNeed, gpu_code_gaps, image_subjects, link_subjects,
};
