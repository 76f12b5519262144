//! Advice for programs: `cupti-audit/advice/v1`, a contract to which fields are only ever added.

use serde::Serialize;

use super::{verdict, why};
use crate::judge::plan::advice::{ARCH, AdvisedRelease, FileNeed, ToolAdvice};
use crate::knowledge::Profiler;
use crate::knowledge::advice::InstallSource;
use crate::report::json_parts::OverheadReport;

const SCHEMA: &str = "cupti-audit/advice/v1";

/// The schema of the list of tools.
const LIST: &str = "cupti-audit/tools/v1";

#[derive(Serialize)]
struct AdviceReport<'a> {
    schema: &'static str,
    phase: Option<&'a str>,
    cupti_needed: bool,
    verdict: String,
    tools: Vec<ToolReport<'a>>,
    // Null where no tool needs CUPTI in the image; `files` and `sources` are empty then.
    release: Option<ReleaseReport<'a>>,
    files: Vec<FileReport<'a>>,
    // The options can be most of it: libnvperf_host is several times as large as libcupti.
    bytes: u64,
    bytes_with_options: u64,
    not_in_release: Vec<&'a str>,
    sources: Vec<SourceReport<'a>>,
    first: FirstStepsReport<'a>,
}

#[derive(Serialize)]
struct ToolReport<'a> {
    id: &'a str,
    name: &'a str,
    aliases: &'a [String],
    cupti: &'static str,
    why: &'static str,
    apis: &'a [String],
    optional_apis: &'a [String],
    gives: &'a str,
    without: &'a str,
    besides: &'a [String],
    overhead: OverheadReport<'a>,
    host: &'a [String],
    fallbacks: &'a [String],
}

#[derive(Serialize)]
struct ReleaseReport<'a> {
    cuda: String,
    assumed: bool,
    sizes_of: &'a str,
    sizes_exact: bool,
    // Told with the sizes, since the files of another processor have others.
    arch: &'static str,
}

#[derive(Serialize)]
struct FileReport<'a> {
    name: &'a str,
    bytes: Option<u64>,
    optional: bool,
    apis: Vec<&'a str>,
}

#[derive(Serialize)]
struct SourceReport<'a> {
    id: &'a str,
    whose: &'a str,
    command: &'a str,
    brings: &'a str,
    certainty: &'static str,
}

#[derive(Serialize)]
struct FirstStepsReport<'a> {
    order: &'a [String],
    bursts: &'a str,
    need: &'a [String],
    no_need: &'a [String],
}

#[derive(Serialize)]
struct ToolListReport<'a> {
    schema: &'static str,
    tools: Vec<ToolReport<'a>>,
}

/// The answer, as a line of JSON.
///
/// Errors: Never for a report made here; the signature is serde's.
pub(crate) fn advice_json(advice: &ToolAdvice<'_>) -> serde_json::Result<String> {
    let (bytes, bytes_with_options) = advice.bytes();
    let general = &advice.knowledge.tables.advice;
    serde_json::to_string(&AdviceReport {
        schema: SCHEMA,
        phase: advice.phase.as_deref(),
        cupti_needed: advice.needs_cupti(),
        verdict: verdict(advice),
        tools: advice.tools.iter().map(|tool| self::tool(tool)).collect(),
        release: advice.release.as_ref().map(release),
        files: advice.files.iter().map(file).collect(),
        bytes,
        bytes_with_options,
        not_in_release: advice.not_in_release.iter().map(|api| &*api.id).collect(),
        sources: advice.sources.iter().map(source).collect(),
        first: FirstStepsReport {
            order: &general.order,
            bursts: &general.bursts,
            need: &general.need,
            no_need: &general.no_need,
        },
    })
}

/// The tools that can be asked about, as a line of JSON.
///
/// Errors: Never, as for [`advice_json`].
pub(crate) fn tool_list_json(tools: &[Profiler]) -> serde_json::Result<String> {
    serde_json::to_string(&ToolListReport {
        schema: LIST,
        tools: tools.iter().map(tool).collect(),
    })
}

fn tool(tool: &Profiler) -> ToolReport<'_> {
    let said = &tool.profile;
    ToolReport {
        id: &tool.id,
        name: &said.name,
        aliases: &said.aliases,
        cupti: said.cupti.name(),
        why: why(tool),
        apis: &said.apis,
        optional_apis: &said.optional_apis,
        gives: &said.gives,
        without: &said.without,
        besides: &said.besides,
        overhead: OverheadReport::from(&said.overhead),
        host: &said.host,
        fallbacks: &said.fallbacks,
    }
}

fn release(chosen: &AdvisedRelease) -> ReleaseReport<'_> {
    let (major, minor) = chosen.release.cuda;
    ReleaseReport {
        // Without a patch version: it is what the user asked for, and packages are named by these two numbers.
        cuda: format!("{major}.{minor}"),
        assumed: chosen.assumed,
        sizes_of: &chosen.sizes_of,
        sizes_exact: chosen.release.exact.is_some(),
        arch: ARCH,
    }
}

fn file(file: &FileNeed) -> FileReport<'_> {
    FileReport {
        name: &file.name,
        bytes: file.bytes,
        optional: file.optional,
        apis: file.apis.iter().map(|api| &*api.id).collect(),
    }
}

fn source(source: &InstallSource) -> SourceReport<'_> {
    SourceReport {
        id: &source.id,
        whose: &source.whose,
        command: &source.command,
        brings: &source.brings,
        certainty: source.certainty.name(),
    }
}
