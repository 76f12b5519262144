//! What shows that a finding is true: sentences and the steps of a search.

use crate::facts::{self, PlainOpen};
use image_linkage::escape;
use image_linkage::loader::{LoadResolution, UnresolvedRequest};
use image_linkage::loader::{TraceLine, trace_lines};

/// What shows that a finding is true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evidence {
    /// A sentence, such as the loader's own words.
    Words(String),
    /// A step of the loader's search.
    Searched(TraceLine),
}

impl Evidence {
    /// The evidence as one line.
    pub fn text(&self) -> String {
        match self {
            Self::Words(words) => words.clone(),
            Self::Searched(line) => line.text(),
        }
    }
}

/// What a plain dlopen is told, and the search before it.
pub(super) fn plain_open_evidence(plain: &PlainOpen) -> Vec<Evidence> {
    match facts::unresolved_objects(&plain.resolution).next() {
        Some(failure) => {
            let words = Evidence::Words(format!(
                "dlopen(\"{}\"): {}",
                escape::escape_bytes(&plain.name),
                failure.message
            ));
            std::iter::once(words)
                .chain(search_evidence(failure, &plain.resolution))
                .collect()
        }
        // No request failed, as there was nobody to make one.
        None if plain.resolution.root.is_none() => {
            vec![Evidence::Words(
                "the image has no dynamic loader: no linked program can start in it".to_owned(),
            )]
        }
        None => Vec::new(),
    }
}

pub(super) fn search_evidence(failure: &UnresolvedRequest, resolution: &LoadResolution) -> Vec<Evidence> {
    trace_lines(&failure.trace, &resolution.objects)
        .into_iter()
        .map(Evidence::Searched)
        .collect()
}
