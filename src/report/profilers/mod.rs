//! Reports which profiling tools would work in an image: [`page`] in text and Markdown, [`json`] for programs.

pub(crate) mod json;
pub(crate) mod page;

use crate::facts::ImageFacts;
use crate::judge::plan::host_notes::HostNotes;
use crate::judge::plan::profilers::{ApiUse, FallbackTool, ReadinessState, ToolAssessment};
use crate::knowledge::CuptiNeed;
use crate::report::text_layout::joined;

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

/// The useful fallbacks: those that are ready, else those that could become so.
fn instead<'e, 'p>(entry: &'e ToolAssessment<'p>) -> Vec<&'e FallbackTool<'p>> {
    let of = |wanted: ReadinessState| -> Vec<&FallbackTool<'p>> {
        let fallbacks = entry.fallbacks.iter();
        fallbacks.filter(|fallback| fallback.state == wanted).collect()
    };
    // Tools that are not applicable or unknown do not help.
    match of(ReadinessState::Ready) {
        ready if ready.is_empty() => of(ReadinessState::NotReady),
        ready => ready,
    }
}

/// The names of the fallbacks, with their state if not ready.
fn fallback_names(entry: &ToolAssessment<'_>) -> String {
    let names = instead(entry).into_iter().map(|fallback| match fallback.state {
        ReadinessState::Ready => fallback.profiler.profile.name.clone(),
        state => format!("{} ({})", fallback.profiler.profile.name, words(state)),
    });
    joined(names, "; ")
}

/// A tool's overhead in one line.
pub(super) fn overhead_words(profiler: &crate::knowledge::Profiler) -> String {
    let overhead = &profiler.profile.overhead;
    format!(
        "{} ({}: {})",
        overhead.figure,
        overhead.certainty.name(),
        overhead.source
    )
}
