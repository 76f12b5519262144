//! A phase of a project: what an image is for.

use serde::Deserialize;

/// A phase that an image is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phase {
    /// The stem of its file.
    pub name: String,
    /// What is done in it, in one line.
    pub summary: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    summary: String,
}

impl Phase {
    /// Reads the phase `name` from the text of its file.
    ///
    /// # Errors
    /// A key that no phase has, or text that is no YAML; the message holds the line and column.
    pub fn read(name: &str, text: &str) -> Result<Self, String> {
        let source: Source = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        Ok(Self {
            name: name.to_owned(),
            summary: source.summary,
        })
    }
}
