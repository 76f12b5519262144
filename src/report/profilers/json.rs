//! The tools as JSON: `cupti-audit/profilers/v1`, a stable contract that only gains fields.

use serde_json::{Value, json};

use super::ProfilerMatrix;
use crate::facts::ApiAvailability;
use crate::judge::plan::host_notes::HostNotes;
use crate::judge::plan::profilers::{ApiUse, ToolAssessment};
use crate::knowledge::{Profiler, ToolCondition};
use crate::report::json_parts::{gap_reports, image_identity, map_worlds, overhead_report, program_version};

const SCHEMA: &str = "cupti-audit/profilers/v1";

/// The report of one image.
pub(crate) fn profilers_json(matrix: &ProfilerMatrix<'_>) -> Value {
    json!({
        "schema": SCHEMA,
        "tool": program_version(),
        "image": image_identity(&matrix.facts.image),
        "profilers": matrix.entries.iter().map(entry).collect::<Value>(),
        "host": host(&matrix.host),
        "gaps": gap_reports(matrix.facts),
    })
}

fn entry(entry: &ToolAssessment<'_>) -> Value {
    let Profiler { id, profile: said } = entry.profiler;
    // All fallbacks with their states; the page only has the useful ones.
    let fallbacks = entry.fallbacks.iter();
    let fallbacks = fallbacks.map(|tool| json!({"id": tool.profiler.id, "state": tool.state.name()}));
    json!({
        "id": id,
        "name": said.name,
        "cupti": said.cupti.name(),
        "here": map_worlds(&entry.here, |here| json!({"state": here.state.name(), "because": here.because})),
        "apis": entry.apis.iter().map(api).collect::<Value>(),
        "needs": needs(entry.profiler),
        "overhead": overhead_report(&said.overhead),
        "gives": said.gives,
        "without": said.without,
        "host": said.host,
        "fallbacks": fallbacks.collect::<Value>(),
    })
}

fn api(used: &ApiUse) -> Value {
    json!({
        "id": used.api.id,
        "name": used.api.name,
        "optional": used.optional,
        // Null if nothing in the image requests CUPTI for the tool: only a process can use an API.
        "usable": map_worlds(&used.usable, |usable| usable.map(ApiAvailability::name)),
    })
}

fn needs(profiler: &Profiler) -> Value {
    // The contract lists what a user can install or set; folders and objects are only used for detection.
    let conditions = &profiler.profile.needs;
    let all = |of: fn(&ToolCondition) -> &Vec<String>| -> Value {
        conditions.iter().flat_map(of).map(String::as_str).collect()
    };
    json!({
        "distributions": all(|condition| &condition.distributions),
        "executables": all(|condition| &condition.executables),
        "environment": all(|condition| &condition.environment),
        "capabilities": profiler.profile.capabilities,
        "besides": profiler.profile.besides,
    })
}

fn host(notes: &HostNotes) -> Value {
    let conditions = notes.conditions.iter().map(|condition| {
        json!({
            "id": condition.id,
            "says": condition.says,
            "certainty": condition.certainty.name(),
            "source": condition.source,
        })
    });
    // An image shows its CUDA version but not the driver; users who know the host compare them.
    let drivers = notes
        .drivers
        .iter()
        .map(|row| json!({"cuda": row.cuda, "driver": row.driver, "minor_compatibility": row.minor_compatibility}));
    json!({
        "conditions": conditions.collect::<Value>(),
        "cuda": notes.cuda,
        "minimum_drivers": drivers.collect::<Value>(),
    })
}
