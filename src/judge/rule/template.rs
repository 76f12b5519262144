//! Sentences with fields of a subject in braces.

use super::{Subject, Value};

/// A sentence and the fields in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Field(String),
}

impl Template {
    /// Reads a sentence; `{name}` stands for a field.
    pub fn new(text: &str) -> Self {
        let mut parts = Vec::new();
        for (at, piece) in text.split('{').enumerate() {
            match piece.split_once('}') {
                Some((field, rest)) if at > 0 => {
                    parts.push(Part::Field(field.to_owned()));
                    parts.push(Part::Text(rest.to_owned()));
                }
                _ => parts.push(Part::Text(piece.to_owned())),
            }
        }
        Self { parts }
    }

    /// The fields that the sentence names.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Field(field) => Some(field.as_str()),
            Part::Text(_) => None,
        })
    }

    /// The sentence with the values of `subject`.
    pub fn fill(&self, subject: &Subject) -> String {
        let piece = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Field(field) => subject
                .fields
                .get(field.as_str())
                .map(Value::to_string)
                .unwrap_or_default(),
        };
        self.parts.iter().map(piece).collect()
    }

    /// The sentence with the names of its fields, for explanations.
    pub fn plain(&self) -> String {
        let piece = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Field(field) => format!("<{field}>"),
        };
        self.parts.iter().map(piece).collect()
    }
}
