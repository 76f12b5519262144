//! Rules as data: their subjects, conditions and messages.
//!
//! Each file has one rule: a kind of subject, the required values of its fields, and the message. [`compile_rule`]
//! validates it; `judge::rule` applies the compiled rules to the subjects of an image.

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
