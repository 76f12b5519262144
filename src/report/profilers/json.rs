//! The tools for programs: `cupti-audit/profilers/v1`, a contract to which fields are only ever added.

use serde::Serialize;

use super::ProfilerMatrix;
use crate::judge::facts::ApiAvailability;
use crate::judge::plan::profilers::{ApiUse, FallbackTool, ToolAssessment, ToolReadiness};
use crate::knowledge::{Profiler, ToolCondition};
use crate::report::json_parts::{
    BothWorlds, GapReport, ImageIdentity, OverheadReport, ProgramVersion, gap_reports, map_worlds,
};

const SCHEMA: &str = "cupti-audit/profilers/v1";

/// The report of one image, as a line of JSON.
///
/// Errors: Never for a report made here; the signature is serde's.
pub(crate) fn profilers_json(matrix: &ProfilerMatrix<'_>) -> serde_json::Result<String> {
    serde_json::to_string(&ProfilerMatrixReport {
        schema: SCHEMA,
        tool: ProgramVersion::this(),
        image: ImageIdentity::from(&matrix.facts.image),
        profilers: matrix.entries.iter().map(entry).collect(),
        host: host(matrix),
        gaps: gap_reports(matrix.facts),
    })
}

#[derive(Serialize)]
struct ProfilerMatrixReport<'a> {
    schema: &'static str,
    tool: ProgramVersion,
    image: ImageIdentity<'a>,
    profilers: Vec<ProfilerReport<'a>>,
    host: HostReport<'a>,
    gaps: Vec<GapReport<'a>>,
}

#[derive(Serialize)]
struct ProfilerReport<'a> {
    id: &'a str,
    name: &'a str,
    cupti: &'static str,
    here: BothWorlds<StateReport<'a>>,
    apis: Vec<ApiReport<'a>>,
    needs: NeedsReport<'a>,
    overhead: OverheadReport<'a>,
    gives: &'a str,
    without: &'a str,
    host: &'a [String],
    // All of them with their states; the page for people names only those that are worth taking.
    fallbacks: Vec<FallbackReport<'a>>,
}

#[derive(Serialize)]
struct StateReport<'a> {
    state: &'static str,
    because: &'a [String],
}

#[derive(Serialize)]
struct ApiReport<'a> {
    id: &'a str,
    name: &'a str,
    optional: bool,
    // Null where nothing in the image asks for CUPTI in the tool's name: only a process can use an API.
    usable: BothWorlds<Option<&'static str>>,
}

#[derive(Serialize)]
struct NeedsReport<'a> {
    distributions: Vec<&'a str>,
    executables: Vec<&'a str>,
    environment: Vec<&'a str>,
    capabilities: &'a [String],
    besides: &'a [String],
}

#[derive(Serialize)]
struct FallbackReport<'a> {
    id: &'a str,
    state: &'static str,
}

#[derive(Serialize)]
struct HostReport<'a> {
    conditions: Vec<HostConditionReport<'a>>,
    cuda: &'a [String],
    // An image tells its CUDA and nothing of the driver: whoever knows the host compares.
    minimum_drivers: Vec<MinimumDriverReport<'a>>,
}

#[derive(Serialize)]
struct HostConditionReport<'a> {
    id: &'a str,
    says: &'a str,
    certainty: &'static str,
    source: &'a str,
}

#[derive(Serialize)]
struct MinimumDriverReport<'a> {
    cuda: &'a str,
    driver: &'a str,
    minor_compatibility: Option<&'a str>,
}

fn entry<'a>(entry: &'a ToolAssessment<'a>) -> ProfilerReport<'a> {
    let Profiler { id, profile: said } = entry.profiler;
    ProfilerReport {
        id,
        name: &said.name,
        cupti: said.cupti.name(),
        here: map_worlds(&entry.here, state),
        apis: entry.apis.iter().map(api).collect(),
        needs: needs(entry.profiler),
        overhead: OverheadReport::from(&said.overhead),
        gives: &said.gives,
        without: &said.without,
        host: &said.host,
        fallbacks: entry.fallbacks.iter().map(fallback).collect(),
    }
}

fn state(readiness: &ToolReadiness) -> StateReport<'_> {
    StateReport {
        state: readiness.state.name(),
        because: &readiness.because,
    }
}

fn api(used: &ApiUse) -> ApiReport<'_> {
    ApiReport {
        id: &used.api.id,
        name: &used.api.name,
        optional: used.optional,
        usable: map_worlds(&used.usable, |usable| usable.map(ApiAvailability::name)),
    }
}

fn needs(profiler: &Profiler) -> NeedsReport<'_> {
    // The contract names what could be installed or set; folders and objects are only how it is found.
    let conditions = &profiler.profile.needs;
    let all = |of: fn(&ToolCondition) -> &Vec<String>| -> Vec<&str> {
        conditions.iter().flat_map(of).map(String::as_str).collect()
    };
    NeedsReport {
        distributions: all(|condition| &condition.distributions),
        executables: all(|condition| &condition.executables),
        environment: all(|condition| &condition.environment),
        capabilities: &profiler.profile.capabilities,
        besides: &profiler.profile.besides,
    }
}

fn fallback<'a>(fallback: &'a FallbackTool<'_>) -> FallbackReport<'a> {
    FallbackReport {
        id: &fallback.profiler.id,
        state: fallback.state.name(),
    }
}

fn host<'a>(matrix: &'a ProfilerMatrix<'_>) -> HostReport<'a> {
    let notes = &matrix.host;
    HostReport {
        conditions: notes
            .conditions
            .iter()
            .map(|condition| HostConditionReport {
                id: &condition.id,
                says: &condition.says,
                certainty: condition.certainty.name(),
                source: &condition.source,
            })
            .collect(),
        cuda: &notes.cuda,
        minimum_drivers: notes
            .drivers
            .iter()
            .map(|row| MinimumDriverReport {
                cuda: &row.cuda,
                driver: &row.driver,
                minor_compatibility: row.minor_compatibility.as_deref(),
            })
            .collect(),
    }
}
