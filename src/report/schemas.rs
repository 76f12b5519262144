//! The contracts of the JSON documents, as JSON Schemas (draft 2020-12).

/// All documents, the report first: the name on the command line, and the JSON Schema.
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
