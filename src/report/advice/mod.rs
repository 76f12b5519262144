//! Advice without an image: for people, in text and Markdown ([`page`]), and for programs ([`json`]).

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
        // Advice without an image: it may hold what neither the phase nor the tools ask about.
        (_, false) => {
            let linked = &advice.knowledge.tables.advice.linked;
            format!("CUPTI is not needed for this, but by what cannot run without it: {linked}")
        }
        (true, true) => format!("CUPTI is needed in the image, for {phase}"),
        (false, true) => format!("CUPTI is needed in the image, for {}", names.join("; ")),
    }
}

/// Why a tool needs CUPTI, or why not.
fn why(tool: &Profiler) -> &'static str {
    match tool.profile.cupti {
        // What the runtime mounts are the driver's libraries (`driver-libraries.yaml`); CUPTI is one of the toolkit's.
        CuptiNeed::InImage => "it opens or links the libcupti of the image; the container runtime never brings one",
        CuptiNeed::BringsItsOwn => "it comes with a CUPTI of its own",
        CuptiNeed::ReadsTraces => "it reads what another tool wrote; that tool needs what it needs",
        CuptiNeed::None => "it does without CUPTI",
    }
}

/// The APIs of a tool by name; those of options in brackets.
fn apis(tables: &KnowledgeTables, tool: &Profiler) -> String {
    // A profile that names an unknown API is refused when it is read, so that the id alone is never shown.
    let name = |id: &String| tables.find_api(id).map_or_else(|| id.clone(), |api| api.name.clone());
    let needed = tool.profile.apis.iter().map(name);
    let optional = tool.profile.optional_apis.iter();
    let optional = optional.map(|id| format!("({})", name(id)));
    joined(needed.chain(optional), "; ")
}

/// The release that the sizes are of, and why that one.
fn release(chosen: &AdvisedRelease) -> String {
    let (major, minor) = chosen.release.cuda;
    let sizes = &chosen.sizes_of;
    // Sizes differ little between neighbouring releases; where those of another one stand in, the line says so.
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

/// The APIs that need a file, by name.
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

/// The APIs that other releases have, in words.
fn other_releases(advice: &ToolAdvice<'_>) -> Vec<String> {
    // An API without either is in every release, and never among these.
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

/// The fallbacks of a tool, by name.
fn instead(advice: &ToolAdvice<'_>, tool: &Profiler) -> String {
    let name = |id: &String| {
        let known = advice.knowledge.profilers.iter().find(|profiler| profiler.id == *id);
        known.map_or_else(|| id.clone(), |profiler| profiler.profile.name.clone())
    };
    joined(tool.profile.fallbacks.iter().map(name), "; ")
}
