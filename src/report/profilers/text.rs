//! The tools for people: the ready ones first, each with its reason, its cost and what to take instead.

use std::fmt::Write as _;

use anstyle::Style;

use super::super::text_layout::{
    BAD, BOLD, DIM, DOUBTFUL, GOOD, count_words, styled, wrap_paragraph,
};
use super::{
    ProfilerMatrix, apis, cupti_need_words, elsewhere, fallback_names, overhead_words, words,
};
use crate::judge::plan::profilers::{ReadinessState, ToolAssessment};
use image_linkage::escape;

/// The widest column of names.
const NAMES: usize = 36;

/// The report of one image, `width` columns wide.
pub fn profilers_text(matrix: &ProfilerMatrix<'_>, width: usize) -> String {
    let image = &matrix.facts.image;
    let mut out = format!(
        "{}  {}\n",
        styled(BOLD, escape::escape_bytes(image.reference.as_bytes())),
        escape::escape_bytes(image.platform.to_string().as_bytes())
    );
    let _ = writeln!(out, "{}\n", summary(matrix));
    let head = format!("  {:NAMES$}  {:14}  CUPTI", "tool", "here");
    let _ = writeln!(out, "{}", styled(DIM, head));
    for state in [
        ReadinessState::Ready,
        ReadinessState::Unknown,
        ReadinessState::NotReady,
    ] {
        let entries = matrix.entries.iter();
        for entry in entries.filter(|entry| entry.here.as_is.state == state) {
            tool(&mut out, entry, width);
        }
    }
    not_applicable(&mut out, matrix, width);
    host(&mut out, matrix, width);
    for gap in &matrix.facts.gaps {
        let _ = writeln!(
            out,
            "{} {}: {}",
            styled(DOUBTFUL, "not checked:"),
            gap.what,
            gap.why
        );
    }
    out
}

fn summary(matrix: &ProfilerMatrix<'_>) -> String {
    let states = [
        ReadinessState::Ready,
        ReadinessState::Unknown,
        ReadinessState::NotReady,
        ReadinessState::NotApplicable,
    ];
    let counts = states.map(|state| {
        let entries = matrix.entries.iter();
        let number = entries
            .filter(|entry| entry.here.as_is.state == state)
            .count();
        (state, number)
    });
    let said: Vec<String> = counts
        .iter()
        .filter(|(_, number)| *number > 0)
        .map(|(state, number)| format!("{number} {}", words(*state)))
        .collect();
    format!(
        "{}: {}",
        count_words(matrix.entries.len(), "profiling tool"),
        said.join(", ")
    )
}

fn mark(state: ReadinessState) -> (&'static str, Style) {
    match state {
        ReadinessState::Ready => ("✓", GOOD),
        ReadinessState::Unknown => ("?", DOUBTFUL),
        ReadinessState::NotReady => ("✗", BAD),
        ReadinessState::NotApplicable => ("·", DIM),
    }
}

fn tool(out: &mut String, entry: &ToolAssessment<'_>, width: usize) {
    let said = &entry.profiler.said;
    let here = &entry.here.as_is;
    let (mark, style) = mark(here.state);
    let names = format!("{:NAMES$}", said.name);
    let state = format!("{:14}", words(here.state));
    let _ = writeln!(
        out,
        "{} {}  {}  {}",
        styled(style, mark),
        styled(BOLD, names),
        styled(style, state),
        cupti_need_words(said.cupti)
    );
    let mut line = |label: &str, text: &str| {
        if !text.is_empty() {
            out.push_str(&wrap_paragraph(&format!("    {label:9}"), text, width));
        }
    };
    for reason in &here.because {
        line("because", reason);
    }
    if let Some(other) = elsewhere(entry) {
        let text = format!("{}; {}", words(other.state), other.because.join("; "));
        line(
            "at run",
            &format!("under the NVIDIA container runtime {text}"),
        );
    }
    line("APIs", &apis(&entry.apis));
    line("besides", &said.besides.join("; "));
    line("cost", &overhead_words(entry.profiler));
    line("instead", &fallback_names(entry));
}

fn not_applicable(out: &mut String, matrix: &ProfilerMatrix<'_>, width: usize) {
    let entries = matrix.entries.iter();
    let beside: Vec<&ToolAssessment<'_>> = entries
        .filter(|entry| entry.here.as_is.state == ReadinessState::NotApplicable)
        .collect();
    if beside.is_empty() {
        return;
    }
    out.push_str("\nnot applicable\n");
    for entry in beside {
        let label = format!("  · {:NAMES$}  ", entry.profiler.said.name);
        out.push_str(&wrap_paragraph(
            &label,
            &entry.here.as_is.because.join("; "),
            width,
        ));
    }
}

fn host(out: &mut String, matrix: &ProfilerMatrix<'_>, width: usize) {
    let notes = &matrix.host;
    out.push_str("\nof the host, which an image does not show\n");
    for condition in &notes.conditions {
        let text = format!("{} ({})", condition.says, condition.certainty.name());
        out.push_str(&wrap_paragraph("  · ", &text, width));
    }
    if notes.drivers.is_empty() {
        return;
    }
    let versions = notes.cuda.join(", ");
    let _ = writeln!(
        out,
        "  oldest driver for CUDA {versions} (reported: CUDA release notes)"
    );
    for row in &notes.drivers {
        let branch = row
            .minor_compatibility
            .as_ref()
            .map(|branch| format!("; {branch} or later by minor-version compatibility"));
        let _ = writeln!(
            out,
            "    {:8} {}{}",
            row.cuda,
            row.driver,
            branch.unwrap_or_default()
        );
    }
}
