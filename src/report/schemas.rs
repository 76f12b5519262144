//! The contracts of the documents in JSON, as JSON Schemas (draft 2020-12).

/// A document and its contract.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SchemaDocument {
    /// What it is called on the command line.
    pub name: &'static str,
    /// Its JSON Schema, as text.
    pub schema: &'static str,
}

/// The contract of a project's config, which is YAML.
pub(crate) const CONFIG_SCHEMA: &str = include_str!("schemas/config.schema.json");

/// All documents, the report first.
pub(crate) static SCHEMAS: &[SchemaDocument] = &[
    SchemaDocument {
        name: "report",
        schema: include_str!("report-v1.schema.json"),
    },
    SchemaDocument {
        name: "links",
        schema: include_str!("schemas/links-v1.schema.json"),
    },
    SchemaDocument {
        name: "diff",
        schema: include_str!("schemas/diff-v1.schema.json"),
    },
    SchemaDocument {
        name: "check",
        schema: include_str!("schemas/check-v1.schema.json"),
    },
    SchemaDocument {
        name: "tree",
        schema: include_str!("schemas/tree-v1.schema.json"),
    },
    SchemaDocument {
        name: "profilers",
        schema: include_str!("schemas/profilers-v1.schema.json"),
    },
    SchemaDocument {
        name: "advice",
        schema: include_str!("schemas/advice-v1.schema.json"),
    },
    SchemaDocument {
        name: "tools",
        schema: include_str!("schemas/tools-v1.schema.json"),
    },
    SchemaDocument {
        name: "attestation",
        schema: include_str!("schemas/attestation-v1.schema.json"),
    },
    SchemaDocument {
        name: "unread",
        schema: include_str!("schemas/unread-v1.schema.json"),
    },
    SchemaDocument {
        name: "work",
        schema: include_str!("schemas/work-v1.schema.json"),
    },
    SchemaDocument {
        name: "fleet",
        schema: include_str!("schemas/fleet-v1.schema.json"),
    },
    SchemaDocument {
        name: "fleet-result",
        schema: include_str!("schemas/fleet-result-v1.schema.json"),
    },
    SchemaDocument {
        name: "fleet-failure",
        schema: include_str!("schemas/fleet-failure-v1.schema.json"),
    },
    SchemaDocument {
        name: "fleet-image",
        schema: include_str!("schemas/fleet-image-v1.schema.json"),
    },
    SchemaDocument {
        name: "config",
        schema: CONFIG_SCHEMA,
    },
];
