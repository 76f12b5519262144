//! One thing that rules speak of, and how its fields are written.

use std::collections::BTreeMap;

use super::Evidence;
use crate::judge::rule::FindingLocation;
use crate::knowledge::rule::{FieldValue, SubjectKind};
use image_linkage::escape;

/// Something a rule can speak of.
#[derive(Debug, Clone)]
pub struct RuleSubject {
    /// What a rule names by `subject`.
    pub kind: SubjectKind,
    /// One value for each name of [`SubjectKind::fields`].
    pub fields: BTreeMap<&'static str, FieldValue>,
    /// Where it lies; none for the image as a whole.
    pub locations: Vec<FindingLocation>,
    /// What shows it, for the reports; no rule asks for it.
    pub evidence: Vec<Evidence>,
}

pub(super) fn text(value: impl Into<String>) -> FieldValue {
    FieldValue::Text(value.into())
}

/// Text from a file or the environment of the image.
pub(super) fn escaped(value: &str) -> FieldValue {
    FieldValue::Text(escape::escape_bytes(value.as_bytes()))
}

pub(super) fn flag(value: bool) -> FieldValue {
    FieldValue::Flag(value)
}

/// The fields by name.
pub(super) fn fields<const N: usize>(pairs: [(&'static str, FieldValue); N]) -> BTreeMap<&'static str, FieldValue> {
    BTreeMap::from(pairs)
}
