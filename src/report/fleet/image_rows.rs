//! One row per image: a line of JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::fleet::{FleetSummary, ImageResult};

const SCHEMA: &str = "cupti-audit/fleet-image/v1";

/// One line of JSON per image; images that were not audited come last.
pub(crate) fn json_lines(summary: &FleetSummary) -> String {
    let mut lines = String::new();
    let results = summary.results.iter().map(json_row);
    let failures = summary.failures.iter().map(|one| {
        json!({
            "schema": SCHEMA, "digest": one.digest, "platform": one.platform, "names": one.names,
            "exit_code": 2, "error": one.error,
        })
    });
    for row in results.chain(failures) {
        let _ = writeln!(lines, "{row}");
    }
    lines
}

fn json_row(result: &ImageResult) -> Value {
    json!({
        "schema": SCHEMA,
        "digest": result.digest,
        "platform": result.platform,
        "names": result.names,
        "repositories": result.repositories(),
        "used_by": result.used_by,
        "exit_code": result.exit_code,
        "verdict": result.verdict,
        "errors": result.count("error"),
        "warnings": result.count("warning"),
        "notes": result.count("note"),
        "rules": rules(result),
        "dead_bytes": result.dead_bytes(),
        "phases": result.phases,
        // Null instead of an empty object, for which Parquet has no column type.
        "tools": (!result.tools.is_empty()).then_some(&result.tools),
    })
}

fn rules(result: &ImageResult) -> Vec<&str> {
    let mut rules: Vec<&str> = result.findings.iter().map(|finding| finding.rule.as_str()).collect();
    rules.sort_unstable();
    rules.dedup();
    rules
}
