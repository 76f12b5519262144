//! What several of the JSON contracts have in common.

use serde::Serialize;

use crate::judge::facts::{self, ByWorld};
use crate::knowledge;

/// The program that made a report.
#[derive(Serialize)]
pub(super) struct ProgramVersion {
    name: &'static str,
    version: &'static str,
}

impl ProgramVersion {
    pub(super) fn this() -> Self {
        Self {
            name: env!("CARGO_PKG_NAME"),
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

/// Which image a report is of.
#[derive(Serialize)]
pub(super) struct ImageIdentity<'a> {
    reference: &'a str,
    source: &'static str,
    digest: Option<String>,
    platform: String,
}

impl<'a> From<&'a image_source::Image> for ImageIdentity<'a> {
    fn from(image: &'a image_source::Image) -> Self {
        Self {
            reference: &image.reference,
            source: image.source.scheme(),
            digest: image.digest.as_ref().map(ToString::to_string),
            platform: image.platform.to_string(),
        }
    }
}

#[derive(Serialize)]
pub(super) struct GapReport<'a> {
    what: &'a str,
    why: &'a str,
}

/// The gaps of an image.
pub(super) fn gap_reports(facts: &facts::ImageFacts) -> Vec<GapReport<'_>> {
    let gaps = facts.gaps.iter();
    gaps.map(|gap| GapReport {
        what: &gap.what,
        why: &gap.why,
    })
    .collect()
}

/// A value in each of the two worlds.
#[derive(Serialize)]
pub(super) struct BothWorlds<T> {
    // The name that the command line has for this world; no field of Rust can have a hyphen.
    #[serde(rename = "as-is")]
    as_is: T,
    nvidia: T,
}

/// What `of` makes of the values of the two worlds.
pub(super) fn map_worlds<'a, T, U>(values: &'a ByWorld<T>, of: impl Fn(&'a T) -> U) -> BothWorlds<U> {
    BothWorlds {
        as_is: of(&values.as_is),
        nvidia: of(&values.nvidia),
    }
}

/// What a profiling tool costs while it records.
#[derive(Serialize)]
pub(super) struct OverheadReport<'a> {
    figure: &'a str,
    certainty: &'static str,
    source: &'a str,
}

impl<'a> From<&'a knowledge::ToolOverhead> for OverheadReport<'a> {
    fn from(overhead: &'a knowledge::ToolOverhead) -> Self {
        Self {
            figure: &overhead.figure,
            certainty: overhead.certainty.name(),
            source: &overhead.source,
        }
    }
}
