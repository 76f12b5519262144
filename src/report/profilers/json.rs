//! The tools for programs: `cupti-audit/profilers/v1`, a contract to which fields are only ever added.

use serde::Serialize;

use super::Matrix;
use crate::judge::facts::Usable;
use crate::judge::plan::profilers::{ApiUse, Entry, Fallback, Readiness};
use crate::knowledge::{Condition, Profiler};
use crate::report::json_parts::{Gap, Image, Overhead, Tool, Worlds, gaps, worlds};

const SCHEMA: &str = "cupti-audit/profilers/v1";

/// The report of one image, as a line of JSON.
///
/// # Errors
/// Never for a report made here; the signature is serde's.
pub fn line(matrix: &Matrix<'_>) -> serde_json::Result<String> {
    serde_json::to_string(&Report {
        schema: SCHEMA,
        tool: Tool::this(),
        image: Image::from(&matrix.facts.image),
        profilers: matrix.entries.iter().map(entry).collect(),
        host: host(matrix),
        gaps: gaps(matrix.facts),
    })
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    tool: Tool,
    image: Image<'a>,
    profilers: Vec<ProfilerReport<'a>>,
    host: Host<'a>,
    gaps: Vec<Gap<'a>>,
}

#[derive(Serialize)]
struct ProfilerReport<'a> {
    id: &'a str,
    name: &'a str,
    cupti: &'static str,
    here: Worlds<StateReport<'a>>,
    apis: Vec<ApiReport<'a>>,
    needs: Needs<'a>,
    overhead: Overhead<'a>,
    gives: &'a str,
    without: &'a str,
    host: &'a [String],
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
    usable: Worlds<Option<&'static str>>,
}

#[derive(Serialize)]
struct Needs<'a> {
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
struct Host<'a> {
    conditions: Vec<HostCondition<'a>>,
    cuda: &'a [String],
    minimum_drivers: Vec<MinimumDriver<'a>>,
}

#[derive(Serialize)]
struct HostCondition<'a> {
    id: &'a str,
    says: &'a str,
    certainty: &'static str,
    source: &'a str,
}

#[derive(Serialize)]
struct MinimumDriver<'a> {
    cuda: &'a str,
    driver: &'a str,
    minor_compatibility: Option<&'a str>,
}

fn entry<'a>(entry: &'a Entry<'a>) -> ProfilerReport<'a> {
    let Profiler { id, said } = entry.profiler;
    ProfilerReport {
        id,
        name: &said.name,
        cupti: said.cupti.name(),
        here: worlds(&entry.here, state),
        apis: entry.apis.iter().map(api).collect(),
        needs: needs(entry.profiler),
        overhead: Overhead::from(&said.overhead),
        gives: &said.gives,
        without: &said.without,
        host: &said.host,
        fallbacks: entry.fallbacks.iter().map(fallback).collect(),
    }
}

fn state(readiness: &Readiness) -> StateReport<'_> {
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
        usable: worlds(&used.usable, |usable| usable.map(Usable::name)),
    }
}

fn needs(profiler: &Profiler) -> Needs<'_> {
    let conditions = &profiler.said.needs;
    let all = |of: fn(&Condition) -> &Vec<String>| -> Vec<&str> {
        conditions.iter().flat_map(of).map(String::as_str).collect()
    };
    Needs {
        distributions: all(|condition| &condition.distributions),
        executables: all(|condition| &condition.executables),
        environment: all(|condition| &condition.environment),
        capabilities: &profiler.said.capabilities,
        besides: &profiler.said.besides,
    }
}

fn fallback<'a>(fallback: &'a Fallback<'_>) -> FallbackReport<'a> {
    FallbackReport {
        id: &fallback.profiler.id,
        state: fallback.state.name(),
    }
}

fn host<'a>(matrix: &'a Matrix<'_>) -> Host<'a> {
    let notes = &matrix.host;
    Host {
        conditions: notes
            .conditions
            .iter()
            .map(|condition| HostCondition {
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
            .map(|row| MinimumDriver {
                cuda: row.cuda,
                driver: row.driver,
                minor_compatibility: row.minor_compatibility,
            })
            .collect(),
    }
}
