//! Rules as data: what each speaks of, when it finds something, and what it says.
//!
//! A rule is one file: it names a kind of subject, which of its fields must have which values, and what to say.
//! [`compile_rule`] checks it whole; `judge::rule` applies the compiled rules to the subjects of an image.

mod compile;
mod compiled_rule;
mod field_value;
mod subject_field;
mod subject_kind;
mod template;

pub use compile::compile_rule;
pub(crate) use compiled_rule::SeverityRaise;
pub use compiled_rule::{DisabledPhases, Rule, RuleCure, Severity};
pub(crate) use field_value::FieldCondition;
pub use field_value::FieldValue;
pub use subject_field::SubjectField;
pub use subject_kind::{RuleQuestion, SubjectKind};
