//! Which profiling tools would work in an image: [`page`] is for people, in text and Markdown, [`json`] for programs.

pub(crate) mod json;
pub(crate) mod page;

use crate::facts::ImageFacts;
use crate::judge::plan::host_notes::HostNotes;
use crate::judge::plan::profilers::{ApiUse, FallbackTool, ReadinessState, ToolAssessment};
use crate::knowledge::CuptiNeed;
use crate::report::text_layout::joined;

/// What is said of the tools of one image.
pub(crate) struct ProfilerMatrix<'a> {
    /// For the image's name and for what could not be checked.
    pub facts: &'a ImageFacts,
    /// Every tool that is known, also those that have nothing to look at in this image.
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

/// What a tool needs of CUPTI, in words.
pub(super) fn cupti_need_words(cupti: CuptiNeed) -> &'static str {
    match cupti {
        CuptiNeed::InImage => "in the image",
        CuptiNeed::BringsItsOwn => "brings its own",
        CuptiNeed::ReadsTraces => "reads traces",
        CuptiNeed::None => "none",
    }
}

/// The APIs by name; those of some options alone in brackets.
fn apis(apis: &[ApiUse]) -> String {
    let names = apis.iter().map(|used| match &used.api.name {
        name if used.optional => format!("({name})"),
        name => name.clone(),
    });
    // Not by commas, here and below: there are tools with a comma in their names, such as "Perfetto, Chrome trace".
    joined(names, "; ")
}

/// The tools to take instead that are worth naming: those that are ready, else those that could be made so.
fn instead<'e, 'p>(entry: &'e ToolAssessment<'p>) -> Vec<&'e FallbackTool<'p>> {
    let of = |wanted: ReadinessState| -> Vec<&FallbackTool<'p>> {
        let fallbacks = entry.fallbacks.iter();
        fallbacks.filter(|fallback| fallback.state == wanted).collect()
    };
    // What is not applicable or not known is no way out.
    match of(ReadinessState::Ready) {
        ready if ready.is_empty() => of(ReadinessState::NotReady),
        ready => ready,
    }
}

/// The fallbacks by name, with what is the matter with them.
fn fallback_names(entry: &ToolAssessment<'_>) -> String {
    let names = instead(entry).into_iter().map(|fallback| match fallback.state {
        ReadinessState::Ready => fallback.profiler.profile.name.clone(),
        state => format!("{} ({})", fallback.profiler.profile.name, words(state)),
    });
    joined(names, "; ")
}

/// What a tool costs, in one line.
pub(super) fn overhead_words(profiler: &crate::knowledge::Profiler) -> String {
    let overhead = &profiler.profile.overhead;
    format!(
        "{} ({}: {})",
        overhead.figure,
        overhead.certainty.name(),
        overhead.source
    )
}
