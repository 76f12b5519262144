//! The tools as a table in Markdown, for a page or a comment.

use std::fmt::Write as _;

use super::{ProfilerMatrix, apis, cupti_need_words, elsewhere, fallback_names, words};
use crate::judge::plan::profilers::{ReadinessState, ToolAssessment};
use crate::report::markdown::escape_markdown;
use image_linkage::escape;

/// The report of one image.
pub fn profilers_markdown(matrix: &ProfilerMatrix<'_>) -> String {
    let reference = escape::escape_bytes(matrix.facts.image.reference.as_bytes());
    let mut out = format!(
        "## Profiling tools in {}\n\n\
         | tool | here | CUPTI | APIs | because | overhead | instead |\n|---|---|---|---|---|---|---|\n",
        escape_markdown(&reference)
    );
    for state in [
        ReadinessState::Ready,
        ReadinessState::Unknown,
        ReadinessState::NotReady,
        ReadinessState::NotApplicable,
    ] {
        let entries = matrix.entries.iter();
        for entry in entries.filter(|entry| entry.here.as_is.state == state) {
            row(&mut out, entry);
        }
    }
    host(&mut out, matrix);
    if !matrix.facts.gaps.is_empty() {
        out.push_str("\nNot checked:\n\n");
        for gap in &matrix.facts.gaps {
            let _ = writeln!(
                out,
                "- {}: {}",
                escape_markdown(&gap.what),
                escape_markdown(&gap.why)
            );
        }
    }
    out
}

fn row(out: &mut String, entry: &ToolAssessment<'_>) {
    let said = &entry.profiler.said;
    let mut because = entry.here.as_is.because.join("; ");
    if let Some(other) = elsewhere(entry) {
        let _ = write!(
            because,
            "; under the NVIDIA container runtime {}: {}",
            words(other.state),
            other.because.join("; ")
        );
    }
    let overhead = format!(
        "{} ({})",
        said.overhead.figure,
        said.overhead.certainty.name()
    );
    let cells = [
        said.name.as_str(),
        words(entry.here.as_is.state),
        cupti_need_words(said.cupti),
        &apis(&entry.apis),
        &because,
        &overhead,
        &fallback_names(entry),
    ];
    let cells: Vec<String> = cells.iter().map(|text| escape_markdown(text)).collect();
    let _ = writeln!(out, "| {} |", cells.join(" | "));
}

fn host(out: &mut String, matrix: &ProfilerMatrix<'_>) {
    out.push_str("\nOf the host, which an image does not show:\n\n");
    for condition in &matrix.host.conditions {
        let _ = writeln!(
            out,
            "- {} ({}: {})",
            escape_markdown(&condition.says),
            condition.certainty.name(),
            escape_markdown(&condition.source)
        );
    }
    if matrix.host.drivers.is_empty() {
        return;
    }
    out.push_str("\n| CUDA | oldest driver | minor-version compatibility |\n|---|---|---|\n");
    for row in &matrix.host.drivers {
        let branch = row.minor_compatibility.as_deref().unwrap_or("–");
        let _ = writeln!(out, "| {} | {} | {branch} |", row.cuda, row.driver);
    }
}
