//! Reports the missing dependencies of an image's objects: sentences for every form, and JSON.

use crate::size::count_words;
use serde_json::{Value, json};

use super::json_parts::{gap_reports, image_identity, program_version};
use crate::facts::object_links::{LackedLibrary, ObjectLinks};
use crate::judge::outcome::AuditedImage;
use image_linkage::escape::escape_bytes;
use image_linkage::loader::TraceLine;

/// The identifier of the JSON contract.
const SCHEMA: &str = "cupti-audit/links/v1";

/// The checked and the skipped objects, as sentences.
pub(super) fn asked_words(links: &ObjectLinks) -> Vec<String> {
    let asked = [(links.programs, "program"), (links.libraries, "library")];
    let words = asked.map(|(count, thing)| count_words(count, thing)).join(", ");
    let mut sentences = vec![format!("asked: {words}")];
    let mut of_driver = Vec::new();
    for (name, count) in &links.from_driver {
        of_driver.push(format!("{} ({})", escape_bytes(name), count_words(*count, "object")));
    }
    if !of_driver.is_empty() {
        sentences.push(format!("comes with the driver at run time: {}", of_driver.join(", ")));
    }
    let skipped = [
        (links.foreign, "for another processor or loader"),
        (links.denied, "that the user of the image may not load"),
    ];
    let mut not_asked = Vec::new();
    for (count, what) in skipped.into_iter().filter(|(count, _)| *count > 0) {
        not_asked.push(format!("{} {what}", count_words(count, "object")));
    }
    if !not_asked.is_empty() {
        sentences.push(format!("not asked: {}", not_asked.join(", ")));
    }
    sentences
}

/// The report of one image, version 1 of the contract.
pub(super) fn links_json(audit: &AuditedImage, links: &ObjectLinks, findings: &Value) -> Value {
    let driver = links
        .from_driver
        .iter()
        .map(|(name, count)| json!({"name": escape_bytes(name), "needed_by": count}));
    json!({
        "schema": SCHEMA,
        "tool": program_version(),
        "verdict": audit.verdict(),
        "exit_code": audit.exit() as u8,
        "image": image_identity(&audit.facts.image),
        "objects": {
            "programs": links.programs,
            "libraries": links.libraries,
            "failing": links.failing.len(),
            "foreign": links.foreign,
            "denied": links.denied,
        },
        "failing_objects": links.failing.iter().map(ToString::to_string).collect::<Value>(),
        "lacks": links.lacks.iter().map(lack).collect::<Value>(),
        "from_driver": driver.collect::<Value>(),
        "findings": findings,
        "gaps": gap_reports(&audit.facts),
    })
}

fn lack(lack: &LackedLibrary) -> Value {
    let needed_by = lack
        .needed_by
        .iter()
        .map(|(path, layer)| json!({"path": path.to_string(), "layer": layer}));
    json!({
        "name": escape_bytes(&lack.name),
        "version": lack.version.as_deref().map(escape_bytes),
        "outcome": lack.outcome.name(),
        "message": lack.message,
        "trace": lack.searched.iter().map(TraceLine::text).collect::<Value>(),
        "needed_by": needed_by.collect::<Value>(),
        "stops": lack.stops,
        "stops_programs": lack.stops_programs,
        "elsewhere": lack.elsewhere.iter().map(ToString::to_string).collect::<Value>(),
    })
}
