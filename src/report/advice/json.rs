//! Advice as JSON: `cupti-audit/advice/v1`, a stable contract that only gains fields.

use serde_json::{Value, json};

use super::{verdict, why};
use crate::judge::plan::advice::{ARCH, AdvisedRelease, FileNeed, ToolAdvice};
use crate::knowledge::Profiler;
use crate::knowledge::advice::InstallSource;
use crate::report::json_parts::overhead_report;

const SCHEMA: &str = "cupti-audit/advice/v1";

/// The schema of the list of tools.
const LIST: &str = "cupti-audit/tools/v1";

/// The advice as JSON.
pub(crate) fn advice_json(advice: &ToolAdvice<'_>) -> Value {
    // Optional files can be most of the size: libnvperf_host is several times as large as libcupti.
    let (bytes, bytes_with_options) = advice.bytes();
    let general = &advice.knowledge.tables.advice;
    json!({
        "schema": SCHEMA,
        "phase": advice.phase,
        "cupti_needed": advice.needs_cupti(),
        "verdict": verdict(advice),
        "tools": advice.tools.iter().map(|tool| self::tool(tool)).collect::<Value>(),
        // Null if no tool needs CUPTI in the image; then `files` and `sources` are empty.
        "release": advice.release.as_ref().map(release),
        "files": advice.files.iter().map(file).collect::<Value>(),
        "bytes": bytes,
        "bytes_with_options": bytes_with_options,
        "not_in_release": advice.not_in_release.iter().map(|api| &*api.id).collect::<Value>(),
        "sources": advice.sources.iter().map(source).collect::<Value>(),
        "first": {
            "order": general.order,
            "bursts": general.bursts,
            "need": general.need,
            "no_need": general.no_need,
        },
    })
}

/// All known tools.
pub(crate) fn tool_list_json(tools: &[Profiler]) -> Value {
    json!({"schema": LIST, "tools": tools.iter().map(tool).collect::<Value>()})
}

fn tool(tool: &Profiler) -> Value {
    let said = &tool.profile;
    json!({
        "id": tool.id,
        "name": said.name,
        "aliases": said.aliases,
        "cupti": said.cupti.name(),
        "why": why(tool),
        "apis": said.apis,
        "optional_apis": said.optional_apis,
        "gives": said.gives,
        "without": said.without,
        "besides": said.besides,
        "overhead": overhead_report(&said.overhead),
        "host": said.host,
        "fallbacks": said.fallbacks,
    })
}

fn release(chosen: &AdvisedRelease) -> Value {
    let (major, minor) = chosen.release.cuda;
    json!({
        // Without a patch version: users ask for two numbers, and package names contain two.
        "cuda": format!("{major}.{minor}"),
        "assumed": chosen.assumed,
        "sizes_of": chosen.sizes_of,
        "sizes_exact": chosen.release.exact.is_some(),
        // Stated with the sizes, because they differ by processor.
        "arch": ARCH,
    })
}

fn file(file: &FileNeed) -> Value {
    json!({
        "name": file.name,
        "bytes": file.bytes,
        "optional": file.optional,
        "apis": file.apis.iter().map(|api| &*api.id).collect::<Value>(),
    })
}

fn source(source: &InstallSource) -> Value {
    json!({
        "id": source.id,
        "whose": source.whose,
        "command": source.command,
        "brings": source.brings,
        "certainty": source.certainty.name(),
    })
}
