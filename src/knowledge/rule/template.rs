//! Sentences with fields of a subject in braces.

use std::collections::BTreeMap;

use super::subject_kind::FieldValue;

/// A sentence and the fields in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageTemplate {
    parts: Vec<TemplatePart>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePart {
    Text(String),
    Field(String),
}

impl MessageTemplate {
    /// Reads a sentence; `{name}` stands for a field.
    pub fn new(text: &str) -> Self {
        let mut parts = Vec::new();
        for (at, piece) in text.split('{').enumerate() {
            match piece.split_once('}') {
                // A closing brace before the first opening one is text.
                Some((field, rest)) if at > 0 => {
                    parts.push(TemplatePart::Field(field.to_owned()));
                    parts.push(TemplatePart::Text(rest.to_owned()));
                }
                _ => parts.push(TemplatePart::Text(piece.to_owned())),
            }
        }
        Self { parts }
    }

    /// The fields that the sentence names.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            TemplatePart::Field(field) => Some(field.as_str()),
            TemplatePart::Text(_) => None,
        })
    }

    /// The sentence with the values of a subject's fields.
    pub fn fill(&self, fields: &BTreeMap<&'static str, FieldValue>) -> String {
        let piece = |part: &TemplatePart| match part {
            TemplatePart::Text(text) => text.clone(),
            TemplatePart::Field(field) => fields
                .get(field.as_str())
                .map(FieldValue::to_string)
                // Compiling refused every field that the subject has not, so that nothing is lost here.
                .unwrap_or_default(),
        };
        self.parts.iter().map(piece).collect()
    }

    /// The sentence with the names of its fields, for explanations.
    pub fn with_field_names(&self) -> String {
        let piece = |part: &TemplatePart| match part {
            TemplatePart::Text(text) => text.clone(),
            TemplatePart::Field(field) => format!("<{field}>"),
        };
        self.parts.iter().map(piece).collect()
    }
}
