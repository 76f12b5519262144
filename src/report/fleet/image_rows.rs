//! One row per image: a line of JSON or of CSV.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::fleet::{FleetSummary, ImageResult};
use crate::report::text_layout::joined;

const SCHEMA: &str = "cupti-audit/fleet-image/v1";

/// The CSV columns before those of the phases and tools.
const COLUMNS: [&str; 12] = [
    "digest",
    "platform",
    "names",
    "repositories",
    "used_by",
    "exit_code",
    "verdict",
    "errors",
    "warnings",
    "notes",
    "rules",
    "dead_bytes",
];

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

/// The audited images as CSV (RFC 4180). List values are separated by spaces, and each phase and tool has its column.
pub(crate) fn csv_table(summary: &FleetSummary) -> String {
    let phases: Vec<&String> = summary.phases.keys().collect();
    let tools: Vec<&String> = summary.tools.keys().collect();
    let columns = COLUMNS.iter().map(|name| (*name).to_owned());
    let of_phases = phases.iter().map(|phase| format!("phase_{phase}"));
    let head = columns
        .chain(of_phases)
        .chain(tools.iter().map(|tool| format!("tool_{tool}")));
    let mut out = csv_line(head);
    for result in &summary.results {
        let fixed = [
            result.digest.clone(),
            result.platform.clone(),
            result.names.join(" "),
            joined(result.repositories(), " "),
            result.used_by.join("; "),
            result.exit_code.to_string(),
            result.verdict.clone(),
            result.count("error").to_string(),
            result.count("warning").to_string(),
            result.count("note").to_string(),
            rules(result).join(" "),
            result.dead_bytes().to_string(),
        ];
        let of_phases = phases
            .iter()
            .map(|phase| result.phases.get(*phase).cloned().unwrap_or_default());
        let of_tools = tools
            .iter()
            .map(|tool| result.tools.get(*tool).cloned().unwrap_or_default());
        out += &csv_line(fixed.into_iter().chain(of_phases).chain(of_tools));
    }
    out
}

fn csv_line(cells: impl Iterator<Item = String>) -> String {
    let quoted = cells.map(|cell| {
        // Many CSV readers mistake a line break in a cell for a row. Other control characters could affect a terminal.
        let cell = cell.replace(char::is_control, " ");
        // Spreadsheets treat such a cell as a formula, and names come from other people.
        let is_formula = cell.starts_with(['=', '+', '-', '@']);
        let cell = if is_formula { format!("'{cell}") } else { cell };
        let needs_quotes = cell.contains([',', '"']);
        if needs_quotes {
            format!("\"{}\"", cell.replace('"', "\"\""))
        } else {
            cell
        }
    });
    joined(quoted, ",") + "\r\n"
}

#[cfg(test)]
mod tests {
    use super::csv_line;

    #[test]
    fn a_cell_is_never_a_formula_or_a_second_cell() {
        let cells = ["a", "b,c", "say \"x\"", "=1+1", "@x", "two\nlines\u{1b}", ""].map(str::to_owned);
        let line = csv_line(cells.into_iter());
        assert_eq!(line, "a,\"b,c\",\"say \"\"x\"\"\",'=1+1,'@x,two lines ,\r\n");
    }
}
