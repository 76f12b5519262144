//! The values of fields, and what a rule asks of them.

use std::collections::BTreeMap;
use std::fmt;

use crate::size::format_size;

/// The value of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldValue {
    /// `true` or `false` in a rule's file.
    Flag(bool),
    /// A word, compared letter by letter.
    Text(String),
    /// A count, which may be compared.
    Number(u64),
    /// A number of bytes, which a sentence says as a size.
    Bytes(u64),
}

impl FieldValue {
    /// Its number, where it is one.
    fn number(&self) -> Option<u64> {
        match self {
            Self::Number(number) | Self::Bytes(number) => Some(*number),
            Self::Flag(_) | Self::Text(_) => None,
        }
    }
}

impl fmt::Display for FieldValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => flag.fmt(f),
            Self::Text(text) => text.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Bytes(bytes) => f.write_str(&format_size(*bytes)),
        }
    }
}

/// A field and the value it must have, or be compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldCondition {
    pub(super) field: &'static str,
    pub(super) comparison: FieldComparison,
    pub(super) value: FieldValue,
}

impl FieldCondition {
    /// Whether a subject with these fields meets it.
    pub(crate) fn holds(&self, fields: &BTreeMap<&'static str, FieldValue>) -> bool {
        let Some(found) = fields.get(self.field) else {
            return false;
        };
        let order = found.number().cmp(&self.value.number());
        match self.comparison {
            // Sizes and counts are one number to a rule.
            FieldComparison::Is => found == &self.value || (found.number().is_some() && order.is_eq()),
            FieldComparison::AtLeast => order.is_ge(),
            FieldComparison::AtMost => order.is_le(),
            FieldComparison::Above => order.is_gt(),
            FieldComparison::Below => order.is_lt(),
        }
    }
}

impl fmt::Display for FieldCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut signs = FieldComparison::SIGNS.iter();
        let (field, value) = (self.field, &self.value);
        match signs.find(|(_, comparison)| *comparison == self.comparison) {
            Some((sign, _)) => write!(f, "{field} is {sign} {value}"),
            None => write!(f, "{field} is {value}"),
        }
    }
}

/// How a number of a subject is compared with that of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldComparison {
    Is,
    AtLeast,
    AtMost,
    Above,
    Below,
}

impl FieldComparison {
    /// The signs in a rule's file; those of two letters come first, as they begin with those of one.
    pub(super) const SIGNS: [(&str, Self); 4] = [
        (">=", Self::AtLeast),
        ("<=", Self::AtMost),
        (">", Self::Above),
        ("<", Self::Below),
    ];
}
