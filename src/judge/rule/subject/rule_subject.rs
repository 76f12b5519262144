//! One thing that rules speak of, and how its fields are written.

use std::collections::BTreeMap;

use super::Evidence;
use crate::judge::rule::FindingLocation;
use crate::knowledge::rule::{FieldValue, SubjectKind};
use image_linkage::escape;

/// Something a rule can speak of.
#[derive(Debug, Clone)]
pub struct RuleSubject {
    /// Its kind.
    pub kind: SubjectKind,
    /// Its fields.
    pub fields: BTreeMap<&'static str, FieldValue>,
    /// Where it is.
    pub locations: Vec<FindingLocation>,
    /// What shows it.
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
pub(super) fn fields<const N: usize>(
    pairs: [(&'static str, FieldValue); N],
) -> BTreeMap<&'static str, FieldValue> {
    BTreeMap::from(pairs)
}
