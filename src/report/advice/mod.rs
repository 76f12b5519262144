//! Advice without an image: [`page`] in text and Markdown, [`json`] for programs.

pub(crate) mod json;
pub(crate) mod page;

use crate::judge::plan::advice::{ARCH, AdvisedRelease, FileNeed, ToolAdvice};
use crate::knowledge::api::CuptiApi;
use crate::knowledge::{CuptiNeed, KnowledgeTables, Profiler};
use crate::report::text_layout::joined;
use crate::size::format_size;

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
    // Profiles with an unknown API are rejected when they are read, so the bare id is never shown.
    let name = |id: &String| tables.find_api(id).map_or_else(|| id.clone(), |api| api.name.clone());
    let needed = tool.profile.apis.iter().map(name);
    let optional = tool.profile.optional_apis.iter();
    let optional = optional.map(|id| format!("({})", name(id)));
    joined(needed.chain(optional), "; ")
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
    // An API without limits is in every release and never in this list.
    let when = |api: &&CuptiApi| match (&api.until, &api.since) {
        (Some(until), _) => format!("{} ended with CUDA {until}", api.name),
        (None, since) => format!(
            "{} is there from CUDA {} on",
            api.name,
            since.as_deref().unwrap_or_default()
        ),
    };
    advice.not_in_release.iter().map(when).collect()
}

/// The names of a tool's fallbacks.
fn instead(advice: &ToolAdvice<'_>, tool: &Profiler) -> String {
    let name = |id: &String| {
        let known = advice.knowledge.profilers.iter().find(|profiler| profiler.id == *id);
        known.map_or_else(|| id.clone(), |profiler| profiler.profile.name.clone())
    };
    joined(tool.profile.fallbacks.iter().map(name), "; ")
}
