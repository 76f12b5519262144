//! The JSON contracts: their schemas, and the fields that several of them share.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::facts::{ByWorld, ImageFacts};
use crate::knowledge::ToolOverhead;
use image_source::Image;

/// The contracts of all documents, the report first: the name on the command line, and the JSON Schema (draft 2020-12).
pub(crate) const SCHEMAS: [(&str, &str); 17] = [
    ("report", include_str!("report-v1.schema.json")),
    ("links", include_str!("schemas/links-v1.schema.json")),
    ("diff", include_str!("schemas/diff-v1.schema.json")),
    ("check", include_str!("schemas/check-v1.schema.json")),
    ("tree", include_str!("schemas/tree-v1.schema.json")),
    ("profilers", include_str!("schemas/profilers-v1.schema.json")),
    ("advice", include_str!("schemas/advice-v1.schema.json")),
    ("explain", include_str!("schemas/explain-v1.schema.json")),
    ("tools", include_str!("schemas/tools-v1.schema.json")),
    ("attestation", include_str!("schemas/attestation-v1.schema.json")),
    ("unread", include_str!("schemas/unread-v1.schema.json")),
    ("worklist", include_str!("schemas/worklist-v1.schema.json")),
    ("fleet", include_str!("schemas/fleet-v1.schema.json")),
    ("fleet-result", include_str!("schemas/fleet-result-v1.schema.json")),
    ("fleet-failure", include_str!("schemas/fleet-failure-v1.schema.json")),
    ("fleet-image", include_str!("schemas/fleet-image-v1.schema.json")),
    ("config", include_str!("schemas/config.schema.json")),
];

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
