//! Messages with placeholders for the fields of a subject.

use std::collections::BTreeMap;

use super::field_value::FieldValue;

/// The library placeholders in every rule's texts: the display name, such as `CUPTI`, and the file name without `.so`,
/// `libcupti`.
pub(super) const LIBRARY_FIELDS: [&str; 2] = ["library_name", "library_file"];

/// A message and its placeholders.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(from = "String")]
pub struct MessageTemplate {
    parts: Vec<TemplatePart>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePart {
    Text(String),
    Field {
        name: String,
        /// The text for the field in a rule's description; `<name>` if there is none.
        words: Option<String>,
    },
}

impl TemplatePart {
    /// Parses a placeholder without its braces.
    fn field(written: &str) -> Self {
        let (name, words) = match written.split_once('|') {
            Some((name, words)) => (name, Some(words.to_owned())),
            None => (written, None),
        };
        Self::Field {
            name: name.to_owned(),
            words,
        }
    }
}

impl From<String> for MessageTemplate {
    fn from(text: String) -> Self {
        Self::new(&text)
    }
}

impl MessageTemplate {
    /// Parses a message. `{name}` is a placeholder; descriptions replace `{name|words}` by `words`.
    pub fn new(text: &str) -> Self {
        let mut parts = Vec::new();
        for (at, piece) in text.split('{').enumerate() {
            match piece.split_once('}') {
                // A closing brace before the first opening one is text.
                Some((field, rest)) if at > 0 => {
                    parts.push(TemplatePart::field(field));
                    parts.push(TemplatePart::Text(rest.to_owned()));
                }
                _ => parts.push(TemplatePart::Text(piece.to_owned())),
            }
        }
        Self { parts }
    }

    /// The fields that the message contains.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            TemplatePart::Field { name, .. } => Some(name.as_str()),
            TemplatePart::Text(_) => None,
        })
    }

    /// Replaces a field by a fixed text.
    pub(super) fn set_field(&mut self, field: &str, words: &str) {
        for part in &mut self.parts {
            if matches!(part, TemplatePart::Field { name, .. } if name == field) {
                *part = TemplatePart::Text(words.to_owned());
            }
        }
    }

    /// Appends another message, unless that is empty.
    pub(super) fn append(&mut self, between: &str, more: Self) {
        if !more.parts.is_empty() {
            self.parts.push(TemplatePart::Text(between.to_owned()));
            self.parts.extend(more.parts);
        }
    }

    /// The message with the values of a subject's fields.
    pub fn fill(&self, fields: &BTreeMap<&'static str, FieldValue>) -> String {
        let piece = |part: &TemplatePart| match part {
            TemplatePart::Text(text) => text.clone(),
            TemplatePart::Field { name, .. } => fields
                .get(name.as_str())
                .map(FieldValue::to_string)
                // Compilation rejects unknown fields, so nothing is lost here.
                .unwrap_or_default(),
        };
        self.parts.iter().map(piece).collect()
    }

    /// The message with the words or names of its fields, for explanations.
    pub fn with_field_names(&self) -> String {
        let piece = |part: &TemplatePart| match part {
            TemplatePart::Text(text) => text.clone(),
            TemplatePart::Field { words: Some(words), .. } => words.clone(),
            TemplatePart::Field { name, words: None } => format!("<{name}>"),
        };
        self.parts.iter().map(piece).collect()
    }
}
