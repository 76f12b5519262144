//! Rules applied: from the facts of an image to findings.
//!
//! The facts become flat [`RuleSubject`]s with named fields; [`judge_subjects`] compares them with the rules, which are
//! data ([`crate::knowledge::rule`]), and [`suppression`] says which findings a project knows of.

mod finding;
mod judge;
mod subject;
pub mod suppression;

pub use crate::knowledge::rule::{FieldValue, Rule, RuleCure, RuleQuestion, Severity, SubjectKind};
pub use finding::{Finding, FindingLocation, PackageRepair, SuppressionMark};
pub use judge::{judge_subjects, sort_findings};
pub use subject::{BuildStepFacts, Evidence, RuleSubject, UnmetNeed, image_subjects, link_subjects};
