//! Evidence for a finding: messages and the steps of a search.

use crate::facts::{self, PlainOpen};
use image_linkage::escape;
use image_linkage::loader::{LoadResolution, UnresolvedRequest};
use image_linkage::loader::{TraceLine, trace_lines};

/// Evidence for a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evidence {
    /// A sentence, such as a loader message.
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

/// The message of a plain dlopen, preceded by its search.
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
        // No request failed, because no process could make one.
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
