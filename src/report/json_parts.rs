//! Fields shared by several JSON contracts.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::facts::{ByWorld, ImageFacts};
use crate::knowledge::ToolOverhead;
use image_source::Image;

/// The program that made the report.
pub(super) fn program_version() -> Value {
    json!({"name": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION")})
}

/// The identity of the image.
pub(super) fn image_identity(image: &Image) -> Map<String, Value> {
    let digest = image.digest.as_ref().map(ToString::to_string);
    let fields = [
        ("reference", json!(image.reference)),
        ("source", json!(image.source.scheme())),
        ("digest", json!(digest)),
        ("platform", json!(image.platform.to_string())),
    ];
    fields
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .collect()
}

/// The gaps of an image.
pub(super) fn gap_reports(facts: &ImageFacts) -> Value {
    let gaps = facts.gaps.iter();
    gaps.map(|gap| json!({"what": gap.what, "why": gap.why})).collect()
}

/// Applies `of` to both worlds, with the command line's names as keys.
pub(super) fn map_worlds<'a, T, U: Serialize>(values: &'a ByWorld<T>, of: impl Fn(&'a T) -> U) -> Value {
    json!({"as-is": of(&values.as_is), "nvidia": of(&values.nvidia)})
}

/// The overhead of a profiling tool.
pub(super) fn overhead_report(overhead: &ToolOverhead) -> Value {
    json!({
        "figure": overhead.figure,
        "certainty": overhead.certainty.name(),
        "source": overhead.source,
    })
}

/// Removes null fields from an object.
pub(super) fn without_nulls(mut object: Value) -> Value {
    if let Value::Object(fields) = &mut object {
        fields.retain(|_, value| !value.is_null());
    }
    object
}
