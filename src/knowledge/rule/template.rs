//! Sentences with fields of a subject in braces.

use std::collections::BTreeMap;

use super::field_value::FieldValue;

/// What stands for the library that is asked about, in the sentences of every rule: its name for people, such as `CUPTI`, and
/// that of its file without `.so`, `libcupti`.
pub(super) const LIBRARY_FIELDS: [&str; 2] = ["library_name", "library_file"];

/// A sentence and the fields in it.
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
        /// What stands for the field in the description of a rule; `<name>` if there is none.
        words: Option<String>,
    },
}

impl TemplatePart {
    /// A field as it is written between braces.
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
    /// Reads a sentence; `{name}` stands for a field, `{name|words}` for one that descriptions replace by `words`.
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

    /// The fields that the sentence names.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            TemplatePart::Field { name, .. } => Some(name.as_str()),
            TemplatePart::Text(_) => None,
        })
    }

    /// Puts words in the place of a field, whatever subject there will be.
    pub(super) fn set_field(&mut self, field: &str, words: &str) {
        for part in &mut self.parts {
            if matches!(part, TemplatePart::Field { name, .. } if name == field) {
                *part = TemplatePart::Text(words.to_owned());
            }
        }
    }

    /// Goes on with another sentence, where that says something.
    pub(super) fn append(&mut self, between: &str, more: Self) {
        if !more.parts.is_empty() {
            self.parts.push(TemplatePart::Text(between.to_owned()));
            self.parts.extend(more.parts);
        }
    }

    /// The sentence with the values of a subject's fields.
    pub fn fill(&self, fields: &BTreeMap<&'static str, FieldValue>) -> String {
        let piece = |part: &TemplatePart| match part {
            TemplatePart::Text(text) => text.clone(),
            TemplatePart::Field { name, .. } => fields
                .get(name.as_str())
                .map(FieldValue::to_string)
                // Compiling refused every field that the subject has not, so that nothing is lost here.
                .unwrap_or_default(),
        };
        self.parts.iter().map(piece).collect()
    }

    /// The sentence with the words or the names of its fields, for explanations.
    pub fn with_field_names(&self) -> String {
        let piece = |part: &TemplatePart| match part {
            TemplatePart::Text(text) => text.clone(),
            TemplatePart::Field { words: Some(words), .. } => words.clone(),
            TemplatePart::Field { name, words: None } => format!("<{name}>"),
        };
        self.parts.iter().map(piece).collect()
    }
}
