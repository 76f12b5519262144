//! The values of fields, and the conditions of rules on them.

use std::collections::BTreeMap;
use std::fmt;

use crate::size::format_size;

/// The value of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldValue {
    /// `true` or `false` in a rule's file.
    Flag(bool),
    /// A word, compared exactly.
    Text(String),
    /// A count, which rules can compare.
    Number(u64),
    /// A number of bytes, shown as a size.
    Bytes(u64),
}

impl FieldValue {
    /// The numeric value, if it is one.
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

/// A field, and the value to compare it with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldCondition {
    pub(super) field: &'static str,
    pub(super) comparison: FieldComparison,
    pub(super) value: FieldValue,
}

impl FieldCondition {
    /// Whether a subject with these fields meets the condition.
    pub(crate) fn holds(&self, fields: &BTreeMap<&'static str, FieldValue>) -> bool {
        let Some(found) = fields.get(self.field) else {
            return false;
        };
        let order = found.number().cmp(&self.value.number());
        match self.comparison {
            // Rules treat sizes and counts as plain numbers.
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

/// A comparison of a subject's number with a rule's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldComparison {
    Is,
    AtLeast,
    AtMost,
    Above,
    Below,
}

impl FieldComparison {
    /// The operators in a rule's file. Longer ones come first, because shorter ones are their prefixes.
    pub(super) const SIGNS: [(&str, Self); 4] = [
        (">=", Self::AtLeast),
        ("<=", Self::AtMost),
        (">", Self::Above),
        ("<", Self::Below),
    ];
}
