//! A field of a subject kind: its name, its possible values, and their syntax in rules.

use crate::knowledge::mistake::unknown_name;
use image_linkage::escape;

use super::field_value::{FieldComparison, FieldCondition, FieldValue};

/// A field of a subject kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubjectField {
    /// The name in rules and messages.
    pub name: &'static str,
    values: FieldDomain,
}

/// The possible values of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FieldDomain {
    Flag,
    /// A number, which rules can compare.
    Number,
    Word(&'static [&'static str]),
    /// A built-in or user-defined phase.
    Phase,
    /// Text from an image, so it can be anything.
    Text,
}

impl SubjectField {
    /// Parses a condition in a rule's file; `phases` are the known names.
    ///
    /// Errors: A message with the possible values of the field.
    pub(super) fn read(self, written: &str, phases: &[&str]) -> Result<FieldCondition, String> {
        let condition = |comparison, value| FieldCondition {
            field: self.name,
            comparison,
            value,
        };
        let known = match self.values {
            // YAML also accepts `True`.
            FieldDomain::Flag => match written.to_ascii_lowercase().parse() {
                Ok(flag) => return Ok(condition(FieldComparison::Is, FieldValue::Flag(flag))),
                Err(_) => &["true", "false"],
            },
            FieldDomain::Number => {
                let (comparison, number) = self.read_number(written)?;
                return Ok(condition(comparison, FieldValue::Number(number)));
            }
            FieldDomain::Word(words) => words,
            FieldDomain::Phase => phases,
            FieldDomain::Text => &[written],
        };
        if known.contains(&written) {
            return Ok(condition(FieldComparison::Is, FieldValue::Text(written.to_owned())));
        }
        Err(format!(
            "field {}: {}",
            self.name,
            unknown_name("value", written, known)
        ))
    }

    fn read_number(self, written: &str) -> Result<(FieldComparison, u64), String> {
        let signs = FieldComparison::SIGNS;
        let signed = signs.iter().find_map(|(sign, comparison)| {
            let number = written.strip_prefix(sign)?;
            Some((*comparison, number))
        });
        let (comparison, number) = signed.unwrap_or((FieldComparison::Is, written));
        let number = number.trim().parse().map_err(|_| {
            let signs = signs.map(|(sign, _)| format!("\"{sign} 3\""));
            let (name, signs) = (self.name, signs.join(", "));
            let written = escape::escape_bytes(written.as_bytes());
            format!("field {name}: expected a number, such as 3, or a comparison, {signs}; found \"{written}\"")
        })?;
        Ok((comparison, number))
    }

    /// Whether the field allows this value. Rules cannot test for other values.
    pub fn allows(self, value: &FieldValue) -> bool {
        match (self.values, value) {
            (FieldDomain::Flag, FieldValue::Flag(_))
            | (FieldDomain::Number, FieldValue::Number(_) | FieldValue::Bytes(_))
            | (FieldDomain::Phase | FieldDomain::Text, FieldValue::Text(_)) => true,
            (FieldDomain::Word(words), FieldValue::Text(text)) => words.contains(&text.as_str()),
            _ => false,
        }
    }
}

pub(super) const fn flag(name: &'static str) -> SubjectField {
    field(name, FieldDomain::Flag)
}

pub(super) const fn number(name: &'static str) -> SubjectField {
    field(name, FieldDomain::Number)
}

pub(super) const fn word(name: &'static str, words: &'static [&'static str]) -> SubjectField {
    field(name, FieldDomain::Word(words))
}

pub(super) const fn phase(name: &'static str) -> SubjectField {
    field(name, FieldDomain::Phase)
}

pub(super) const fn text(name: &'static str) -> SubjectField {
    field(name, FieldDomain::Text)
}

const fn field(name: &'static str, values: FieldDomain) -> SubjectField {
    SubjectField { name, values }
}
