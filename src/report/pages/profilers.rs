//! Reports which profiling tools would work in an image: as a page, and as JSON.

use serde_json::{Value, json};

use crate::facts::{ApiAvailability, ImageFacts};
use crate::judge::plan::host_notes::HostNotes;
use crate::judge::plan::profilers::{ApiUse, ReadinessState, ToolAssessment};
use crate::knowledge::host::HostCondition;
use crate::knowledge::{CuptiNeed, Profiler, ToolCondition};
use crate::report::json_parts::{gap_reports, image_identity, map_worlds, overhead_report, program_version};
use crate::report::page::{Block, Page, Table, gap_entries};
use crate::report::text_layout::joined;
use crate::report::words::{image_name, platform_name};
use crate::size::count_words;

/// The identifier of the JSON contract `cupti-audit/profilers/v1`, which only gains fields.
const SCHEMA: &str = "cupti-audit/profilers/v1";

/// The states in display order.
const STATES: [ReadinessState; 4] = [
    ReadinessState::Ready,
    ReadinessState::Unknown,
    ReadinessState::NotReady,
    ReadinessState::NotApplicable,
];

/// The assessment of all tools for one image.
pub(crate) struct ProfilerMatrix<'a> {
    /// For the image's name and its gaps.
    pub facts: &'a ImageFacts,
    /// All known tools, including those that do not apply to this image.
    pub entries: Vec<ToolAssessment<'a>>,
    /// The notes on the host.
    pub host: HostNotes,
}

/// A state in words.
fn words(state: ReadinessState) -> &'static str {
    match state {
        ReadinessState::Ready => "ready",
        ReadinessState::Unknown => "not known",
        ReadinessState::NotReady => "not ready",
        ReadinessState::NotApplicable => "not applicable",
    }
}

/// A tool's need of CUPTI, in words.
pub fn cupti_need_words(cupti: CuptiNeed) -> &'static str {
    match cupti {
        CuptiNeed::InImage => "in the image",
        CuptiNeed::BringsItsOwn => "brings its own",
        CuptiNeed::ReadsTraces => "reads traces",
        CuptiNeed::None => "none",
    }
}

/// The names of the APIs; optional ones in brackets.
fn apis(apis: &[ApiUse]) -> String {
    let names = apis.iter().map(|used| match &used.api.name {
        name if used.optional => format!("({name})"),
        name => name.clone(),
    });
    // Not separated by commas, here and below: some names contain one, such as "Perfetto, Chrome trace".
    joined(names, "; ")
}

/// The names of the useful fallbacks: those that are ready, else those that could become so, with their state.
fn fallback_names(tool: &ToolAssessment<'_>) -> String {
    // Tools that are not applicable or unknown do not help.
    for state in [ReadinessState::Ready, ReadinessState::NotReady] {
        let mut names = Vec::new();
        for fallback in tool.fallbacks.iter().filter(|fallback| fallback.state == state) {
            names.push(match state {
                ReadinessState::Ready => fallback.profiler.profile.name.clone(),
                _ => format!("{} ({})", fallback.profiler.profile.name, words(state)),
            });
        }
        if !names.is_empty() {
            return names.join("; ");
        }
    }
    String::new()
}

/// A tool's overhead in one line.
pub(crate) fn overhead_words(profiler: &Profiler) -> String {
    let overhead = &profiler.profile.overhead;
    format!(
        "{} ({}: {})",
        overhead.figure,
        overhead.certainty.name(),
        overhead.source
    )
}

/// The page of one image.
pub(crate) fn profilers_page(matrix: &ProfilerMatrix<'_>) -> Page {
    let host = &matrix.host;
    let (mut counts, mut sections) = (Vec::new(), Vec::new());
    for state in STATES {
        let mut tools: Vec<&ToolAssessment<'_>> = matrix.entries.iter().collect();
        tools.retain(|tool| tool.here.as_is.state == state);
        if tools.is_empty() {
            continue;
        }
        counts.push(format!("{} {}", tools.len(), words(state)));
        sections.push(if state == ReadinessState::NotApplicable {
            not_applicable(&tools)
        } else {
            let table = Table {
                columns: vec!["tool", "CUPTI", "APIs", "because", "overhead", "instead"],
                details: vec!["besides"],
                rows: tools.iter().map(|tool| tool_row(tool)).collect(),
            };
            Block::section(words(state), vec![Block::Table(table)])
        });
    }
    let tools = count_words(matrix.entries.len(), "profiling tool");
    let mut blocks = vec![
        Block::Title(format!("Profiling tools in {}", image_name(matrix.facts))),
        Block::text(format!(
            "{}; {tools}: {}",
            platform_name(matrix.facts),
            counts.join(", ")
        )),
    ];
    blocks.extend(sections);
    let conditions = vec![host_list(&host.conditions)];
    blocks.push(Block::section("of the host, which an image does not show", conditions));
    if !host.drivers.is_empty() {
        let mut rows = Vec::new();
        for row in &host.drivers {
            // Minor-version compatibility starts with CUDA 11, so 10 has a dash.
            let branch = row.minor_compatibility.as_deref().unwrap_or("–");
            rows.push([&row.cuda, &row.driver, branch].map(str::to_owned).to_vec());
        }
        let columns = ["CUDA", "oldest driver", "minor-version compatibility"];
        blocks.extend(Block::titled_table(
            "oldest drivers, as reported by the CUDA release notes",
            &columns,
            rows,
        ));
    }
    blocks.extend(gap_entries(matrix.facts));
    Page(blocks)
}

/// The host conditions, each with its source.
pub(super) fn host_list(conditions: &[&HostCondition]) -> Block {
    let mut lines = Vec::new();
    for one in conditions {
        lines.push(format!("{} ({}: {})", one.says, one.certainty.name(), one.source));
    }
    Block::List(lines)
}

fn tool_row(tool: &ToolAssessment<'_>) -> Vec<String> {
    let about = &tool.profiler.profile;
    let (here, other) = (&tool.here.as_is, &tool.here.nvidia);
    let mut because = here.because.clone();
    // Most tools are the same in both worlds, and a second reason for each would double the page.
    if other.state != here.state {
        let state = words(other.state);
        let why = other.because.join("; ");
        because.push(format!("under the NVIDIA container runtime {state}: {why}"));
    }
    vec![
        about.name.clone(),
        cupti_need_words(about.cupti).to_owned(),
        apis(&tool.apis),
        because.join("; "),
        format!("{} ({})", about.overhead.figure, about.overhead.certainty.name()),
        fallback_names(tool),
        about.besides.join("; "),
    ]
}

/// The tools that do not apply to the image: a reason for each that the image has a part of, and the names of the rest.
fn not_applicable(tools: &[&ToolAssessment<'_>]) -> Block {
    let (mut rows, mut absent) = (Vec::new(), Vec::new());
    for tool in tools {
        let (profile, because) = (&tool.profiler.profile, &tool.here.as_is.because);
        // The first condition asks for the tool or its framework.
        if profile
            .applies
            .first()
            .is_some_and(|first| *because == [first.otherwise.as_str()])
        {
            absent.push(profile.name.as_str());
        } else {
            rows.push(vec![profile.name.clone(), because.join("; ")]);
        }
    }
    let mut blocks = Vec::new();
    if !rows.is_empty() {
        blocks.push(Block::table(&["tool", "because"], rows));
    }
    if !absent.is_empty() {
        blocks.push(Block::text(format!("not in the image: {}", absent.join("; "))));
    }
    Block::section(words(ReadinessState::NotApplicable), blocks)
}

/// The report of one image as JSON.
pub(crate) fn profilers_json(matrix: &ProfilerMatrix<'_>) -> Value {
    json!({
        "schema": SCHEMA,
        "tool": program_version(),
        "image": image_identity(&matrix.facts.image),
        "profilers": matrix.entries.iter().map(tool_json).collect::<Value>(),
        "host": host_json(&matrix.host),
        "gaps": gap_reports(matrix.facts),
    })
}

fn tool_json(entry: &ToolAssessment<'_>) -> Value {
    let Profiler { id, profile: about } = entry.profiler;
    // All fallbacks with their states; the page only has the useful ones.
    let fallbacks = (entry.fallbacks.iter()).map(|tool| json!({"id": tool.profiler.id, "state": tool.state.name()}));
    json!({
        "id": id,
        "name": about.name,
        "cupti": about.cupti.name(),
        "here": map_worlds(&entry.here, |here| json!({"state": here.state.name(), "because": here.because})),
        "apis": entry.apis.iter().map(api_json).collect::<Value>(),
        "needs": needs(entry.profiler),
        "overhead": overhead_report(&about.overhead),
        "gives": about.gives,
        "without": about.without,
        "host": about.host,
        "fallbacks": fallbacks.collect::<Value>(),
    })
}

fn api_json(used: &ApiUse) -> Value {
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
    json!({
        "distributions": all_names(conditions, |condition| &condition.distributions),
        "executables": all_names(conditions, |condition| &condition.executables),
        "environment": all_names(conditions, |condition| &condition.environment),
        "capabilities": profiler.profile.capabilities,
        "besides": profiler.profile.besides,
    })
}

fn all_names(conditions: &[ToolCondition], of: fn(&ToolCondition) -> &Vec<String>) -> Value {
    conditions.iter().flat_map(of).map(String::as_str).collect()
}

fn host_json(notes: &HostNotes) -> Value {
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
