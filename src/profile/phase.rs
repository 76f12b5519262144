//! A phase of a project: what an image is for.

use serde::Deserialize;

use crate::yaml::{Document, Mistake};

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
    /// Reads the phase `name` from its file.
    ///
    /// # Errors
    /// All mistakes in the file.
    pub fn read(name: &str, document: &Document) -> Result<Self, Vec<Mistake>> {
        let source: Source = document.read()?;
        Ok(Self {
            name: name.to_owned(),
            summary: source.summary,
        })
    }
}
