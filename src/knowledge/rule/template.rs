//! Messages with placeholders for the values of a check.

/// A message and its placeholders.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
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
                _ if at == 0 => parts.push(TemplatePart::Text(piece.to_owned())),
                Some((field, rest)) => {
                    parts.push(TemplatePart::field(field));
                    parts.push(TemplatePart::Text(rest.to_owned()));
                }
                // A brace that is not closed. No value has such a name.
                None => parts.push(TemplatePart::field(&format!("{{{piece}"))),
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

    /// The message with the values of its placeholders.
    pub fn fill(&self, value: impl Fn(&str) -> String) -> String {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                TemplatePart::Text(words) => text += words,
                TemplatePart::Field { name, .. } => text += &value(name),
            }
        }
        text
    }

    /// The message with the words or names of its fields, for explanations.
    pub fn with_field_names(&self) -> String {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                TemplatePart::Text(words) | TemplatePart::Field { words: Some(words), .. } => text += words,
                TemplatePart::Field { name, words: None } => text.extend(["<", name, ">"]),
            }
        }
        text
    }
}
