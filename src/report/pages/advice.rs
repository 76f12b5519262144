//! Advice without an image, and the list of all known tools: as pages, and as JSON.

use serde_json::{Value, json};

use super::profilers::{cupti_need_words, overhead_words};
use crate::judge::plan::advice::{ARCH, AdvisedRelease, FileNeed, ToolAdvice};
use crate::knowledge::advice::InstallSource;
use crate::knowledge::{CuptiNeed, Knowledge, KnowledgeTables, Profiler};
use crate::report::json_parts::overhead_report;
use crate::report::page::{Block, Page, Table};
use crate::report::pages::profilers::host_list;
use crate::report::text_layout::joined;
use crate::report::words::ReportTone;
use crate::size::format_size;

/// The identifier of the JSON contract `cupti-audit/advice/v1`, which only gains fields.
const SCHEMA: &str = "cupti-audit/advice/v1";

/// The schema of the list of tools.
const LIST: &str = "cupti-audit/tools/v1";

/// The page that answers without an image.
pub(crate) fn advice_page(advice: &ToolAdvice<'_>) -> Page {
    let tone = if advice.needs_cupti() {
        ReportTone::Remark
    } else {
        ReportTone::Good
    };
    let tools = Table {
        columns: vec!["tool", "CUPTI", "APIs", "gives", "overhead", "instead"],
        details: vec!["why", "without", "besides"],
        rows: advice.tools.iter().map(|tool| tool_row(advice, tool)).collect(),
    };
    let mut blocks = vec![Block::Verdict(tone, verdict(advice)), Block::Table(tools)];
    // If nothing needs CUPTI in the image, there are no files to add.
    if let Some(chosen) = &advice.release {
        let mut files = vec![
            Block::text(release(chosen)),
            Block::table(&["file", "size", "for"], advice.files.iter().map(file_row).collect()),
            Block::text(together(advice)),
        ];
        files.extend(other_releases(advice).into_iter().map(Block::text));
        blocks.push(Block::section("files", files));
        blocks.push(Block::section(
            "where from",
            advice.sources.iter().flat_map(source_blocks).collect(),
        ));
    }
    let general = &advice.knowledge.tables.advice;
    blocks.push(Block::section(
        "what to do first",
        vec![
            Block::Steps(general.order.clone()),
            Block::List(vec![
                format!("bursts: {}", general.bursts),
                format!("add CUPTI when {}", general.need.join("; ")),
                format!("leave it out when {}", general.no_need.join("; ")),
            ]),
        ],
    ));
    let mut host = advice.knowledge.tables.host.iter().collect::<Vec<_>>();
    host.retain(|condition| {
        advice
            .tools
            .iter()
            .any(|tool| tool.profile.host.contains(&condition.id))
    });
    if !host.is_empty() {
        blocks.push(Block::section("on the host", vec![host_list(&host)]));
    }
    Page(blocks)
}

fn tool_row(advice: &ToolAdvice<'_>, tool: &Profiler) -> Vec<String> {
    let about = &tool.profile;
    vec![
        about.name.clone(),
        cupti_need_words(about.cupti).to_owned(),
        apis(advice.knowledge.tables, tool),
        about.gives.clone(),
        overhead_words(tool),
        instead(advice, tool),
        why(tool).to_owned(),
        about.without.clone(),
        about.besides.join("; "),
    ]
}

fn file_row(file: &FileNeed) -> Vec<String> {
    let options = if file.optional { "options: " } else { "" };
    vec![file.name.clone(), bytes(file), format!("{options}{}", needed_by(file))]
}

fn source_blocks(source: &InstallSource) -> [Block; 2] {
    let (id, whose, certainty) = (&source.id, &source.whose, source.certainty.name());
    // The command comes from this program and never from an image.
    [
        Block::text(format!("{id}: {whose} ({certainty}); {}", source.brings)),
        Block::Code("sh", source.command.clone()),
    ]
}

/// The page of all known tools.
pub(crate) fn tool_list_page(known: &Knowledge) -> Page {
    let mut rows = Vec::new();
    for tool in &known.profilers {
        let cupti = cupti_need_words(tool.profile.cupti).to_owned();
        rows.push(vec![tool.id.clone(), cupti, tool.profile.gives.clone()]);
    }
    let hint = format!(
        "cupti-audit advise --tool TOOL answers for a tool, --phase for {}",
        known.phase_names().join(", ")
    );
    Page(vec![Block::table(&["tool", "CUPTI", "gives"], rows), Block::text(hint)])
}

/// The answer in one line.
fn verdict(advice: &ToolAdvice<'_>) -> String {
    let names: Vec<&str> = advice
        .tools
        .iter()
        .filter(|tool| tool.profile.cupti == CuptiNeed::InImage)
        .map(|tool| &*tool.profile.name)
        .collect();
    let phase = advice.phase.as_deref().unwrap_or_default();
    match (names.is_empty(), advice.needs_cupti()) {
        // Without an image: it may contain programs outside of the requested phase and tools.
        (_, false) => {
            let linked = &advice.knowledge.tables.advice.linked;
            format!("CUPTI is not needed for this. Some programs need it anyway: {linked}")
        }
        (true, true) => format!("CUPTI is needed in the image, for {phase}"),
        (false, true) => format!("CUPTI is needed in the image, for {}", names.join("; ")),
    }
}

/// Why a tool needs CUPTI, or why not.
fn why(tool: &Profiler) -> &'static str {
    match tool.profile.cupti {
        // The runtime mounts the driver's libraries (`driver-libraries.yaml`); CUPTI belongs to the toolkit.
        CuptiNeed::InImage => "it opens or links the libcupti of the image; the container runtime never brings one",
        CuptiNeed::BringsItsOwn => "it comes with a CUPTI of its own",
        CuptiNeed::ReadsTraces => "it reads what another tool wrote; that tool needs what it needs",
        CuptiNeed::None => "it does without CUPTI",
    }
}

/// The names of a tool's APIs; optional ones in brackets.
fn apis(tables: &KnowledgeTables, tool: &Profiler) -> String {
    let needed = tool.profile.apis.iter().map(|id| api_name(tables, id).to_owned());
    let optional = (tool.profile.optional_apis.iter()).map(|id| format!("({})", api_name(tables, id)));
    joined(needed.chain(optional), "; ")
}

fn api_name<'a>(tables: &'a KnowledgeTables, id: &'a str) -> &'a str {
    // Profiles with an unknown API are rejected when they are read, so the bare id is never shown.
    tables.find_api(id).map_or(id, |api| &api.name)
}

/// The release of the sizes, and why it was chosen.
fn release(chosen: &AdvisedRelease) -> String {
    let (major, minor) = chosen.release.cuda;
    let sizes = &chosen.sizes_of;
    // Sizes differ little between adjacent releases; the line says so if they come from another one.
    match (chosen.release.exact.is_some(), chosen.assumed) {
        (true, true) => {
            format!("CUDA {major}.{minor} is assumed, the newest 12.x that is known; sizes of {sizes}, {ARCH}")
        }
        (true, false) => format!("CUDA {major}.{minor}; sizes of {sizes}, {ARCH}"),
        (false, _) => {
            format!("CUDA {major}.{minor}; its sizes are not known, those of {sizes}, {ARCH}, are near to them")
        }
    }
}

fn bytes(file: &FileNeed) -> String {
    file.bytes.map_or("size not known".to_owned(), format_size)
}

/// The names of the APIs that need a file.
fn needed_by(file: &FileNeed) -> String {
    joined(file.apis.iter().map(|api| &*api.name), "; ")
}

fn together(advice: &ToolAdvice<'_>) -> String {
    match advice.bytes() {
        (needed, all) if needed == all => format!("together {}", format_size(needed)),
        (needed, all) => format!(
            "together {}, with all options {}",
            format_size(needed),
            format_size(all)
        ),
    }
}

/// The APIs that exist only in other releases, as sentences.
fn other_releases(advice: &ToolAdvice<'_>) -> Vec<String> {
    let mut sentences = Vec::new();
    for api in &advice.not_in_release {
        let name = &api.name;
        // An API without limits is in every release and never in this list.
        sentences.push(match (&api.until, &api.since) {
            (Some(until), _) => format!("{name} ended with CUDA {until}"),
            (None, since) => {
                let since = since.as_deref().unwrap_or_default();
                format!("{name} is there from CUDA {since} on")
            }
        });
    }
    sentences
}

/// The names of a tool's fallbacks.
fn instead(advice: &ToolAdvice<'_>, tool: &Profiler) -> String {
    let mut names = Vec::new();
    for id in &tool.profile.fallbacks {
        let known = advice.knowledge.profilers.iter().find(|profiler| profiler.id == *id);
        names.push(known.map_or(id.as_str(), |profiler| &profiler.profile.name));
    }
    names.join("; ")
}

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
        "tools": advice.tools.iter().map(|tool| tool_json(tool)).collect::<Value>(),
        // Null if no tool needs CUPTI in the image; then `files` and `sources` are empty.
        "release": advice.release.as_ref().map(release_json),
        "files": advice.files.iter().map(file_json).collect::<Value>(),
        "bytes": bytes,
        "bytes_with_options": bytes_with_options,
        "not_in_release": advice.not_in_release.iter().map(|api| &*api.id).collect::<Value>(),
        "sources": advice.sources.iter().map(source_json).collect::<Value>(),
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
    json!({"schema": LIST, "tools": tools.iter().map(tool_json).collect::<Value>()})
}

fn tool_json(tool: &Profiler) -> Value {
    let about = &tool.profile;
    json!({
        "id": tool.id,
        "name": about.name,
        "aliases": about.aliases,
        "cupti": about.cupti.name(),
        "why": why(tool),
        "apis": about.apis,
        "optional_apis": about.optional_apis,
        "gives": about.gives,
        "without": about.without,
        "besides": about.besides,
        "overhead": overhead_report(&about.overhead),
        "host": about.host,
        "fallbacks": about.fallbacks,
    })
}

fn release_json(chosen: &AdvisedRelease) -> Value {
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

fn file_json(file: &FileNeed) -> Value {
    json!({
        "name": file.name,
        "bytes": file.bytes,
        "optional": file.optional,
        "apis": file.apis.iter().map(|api| &*api.id).collect::<Value>(),
    })
}

fn source_json(source: &InstallSource) -> Value {
    json!({
        "id": source.id,
        "whose": source.whose,
        "command": source.command,
        "brings": source.brings,
        "certainty": source.certainty.name(),
    })
}
