//! The page of the tools: ready ones first, each with its reason, overhead and fallbacks.

use crate::size::count_words;
use std::fmt::Write as _;

use super::{ProfilerMatrix, apis, cupti_need_words, fallback_names, overhead_words, words};
use crate::judge::plan::profilers::{ReadinessState, ToolAssessment};
use crate::knowledge::minimum_driver::MinimumDriver;
use crate::report::blocks::{Block, ReportPage, TableRow};
use crate::report::text_layout::{BAD, BOLD, DIM, DOUBTFUL, GOOD, joined, styled};
use crate::report::words::{image_name, platform_name};

/// The width of the name column, enough for the longest name.
const NAMES: usize = 36;

/// The states in display order.
const STATES: [ReadinessState; 4] = [
    ReadinessState::Ready,
    ReadinessState::Unknown,
    ReadinessState::NotReady,
    ReadinessState::NotApplicable,
];

/// The report of one image.
pub(crate) fn profilers_page<'a>(matrix: &'a ProfilerMatrix<'_>) -> ReportPage<'a> {
    let name = image_name(matrix.facts);
    let host = &matrix.host;
    let columns = vec!["tool", "here", "CUPTI", "APIs", "because", "overhead", "instead"];
    let mut blocks = vec![
        Block::Title(format!("Profiling tools in {name}")),
        Block::TextLines(head(matrix, &name)),
        Block::Table(columns, rows(matrix)),
        Block::Caption("of the host, which an image does not show"),
        Block::HostConditions(host.conditions.clone()),
    ];
    if !host.drivers.is_empty() {
        let versions = host.cuda.join(", ");
        let source = "(reported: CUDA release notes)";
        blocks.push(Block::TextLines(format!(
            "  oldest driver for CUDA {versions} {source}\n"
        )));
        let columns = vec!["CUDA", "oldest driver", "minor-version compatibility"];
        blocks.push(Block::Table(columns, drivers(matrix)));
    }
    blocks.push(Block::Gaps(matrix.facts));
    ReportPage(blocks)
}

fn in_state<'m, 'p>(
    matrix: &'m ProfilerMatrix<'p>,
    state: ReadinessState,
) -> impl Iterator<Item = &'m ToolAssessment<'p>> {
    let entries = matrix.entries.iter();
    entries.filter(move |entry| entry.here.as_is.state == state)
}

/// The text above the table.
fn head(matrix: &ProfilerMatrix<'_>, name: &str) -> String {
    // 14 columns fit the longest state, `not applicable`; the same below.
    let counts = STATES.map(|state| (in_state(matrix, state).count(), words(state)));
    let counts = counts.iter().filter(|(number, _)| *number > 0);
    let counts = counts.map(|(number, state)| format!("{number} {state}"));
    format!(
        "{}  {}\n{}: {}\n\n{}\n",
        styled(BOLD, name),
        platform_name(matrix.facts),
        count_words(matrix.entries.len(), "profiling tool"),
        joined(counts, ", "),
        styled(DIM, format!("  {:NAMES$}  {:14}  CUPTI", "tool", "here"))
    )
}

fn rows(matrix: &ProfilerMatrix<'_>) -> Vec<TableRow> {
    let in_order = STATES.map(|state| in_state(matrix, state));
    let mut rows: Vec<TableRow> = in_order.into_iter().flatten().map(row).collect();
    // In text, a heading precedes the first tool that is not applicable. Those tools are last, and the only ones
    // without a line so far.
    let beside = rows.iter().position(|row| row.line.is_empty());
    if let Some(first) = beside.and_then(|first| rows.get_mut(first)) {
        "\nnot applicable".clone_into(&mut first.line);
    }
    let absent = in_state(matrix, ReadinessState::NotApplicable).filter(|entry| is_absent(entry));
    let names = absent.map(|entry| entry.profiler.profile.name.as_str());
    if let Some(last) = rows.last_mut() {
        let label = "  · not in the image: ".to_owned();
        last.labelled.push((label, joined(names, "; ")));
    }
    rows
}

/// Whether the image contains no part of a tool: its first condition asks for the tool or its framework.
fn is_absent(entry: &ToolAssessment<'_>) -> bool {
    let first = entry.profiler.profile.applies.first();
    first.is_some_and(|condition| entry.here.as_is.because == [condition.otherwise.as_str()])
}

fn row(entry: &ToolAssessment<'_>) -> TableRow {
    let said = &entry.profiler.profile;
    let here = &entry.here.as_is;
    let mut because = here.because.join("; ");
    if let Some((other, why)) = under_runtime(entry) {
        let _ = write!(because, "; {other}: {why}");
    }
    let overhead = &said.overhead;
    let mut row = TableRow {
        cells: vec![
            said.name.clone(),
            words(here.state).to_owned(),
            cupti_need_words(said.cupti).to_owned(),
            apis(&entry.apis),
            because,
            format!("{} ({})", overhead.figure, overhead.certainty.name()),
            fallback_names(entry),
        ],
        ..TableRow::default()
    };
    if here.state == ReadinessState::NotApplicable {
        // In text an absent tool gets one line at most; its overhead and fallbacks do not matter here.
        let label = format!("  · {:NAMES$}  ", said.name);
        let told = (!is_absent(entry)).then(|| (label, here.because.join("; ")));
        row.labelled = told.into_iter().collect();
    } else {
        row.line = line(entry);
        row.labelled = labelled(entry);
    }
    row
}

/// The text line of a tool.
fn line(entry: &ToolAssessment<'_>) -> String {
    let said = &entry.profiler.profile;
    let state = entry.here.as_is.state;
    let (mark, style) = match state {
        ReadinessState::Ready => ("✓", GOOD),
        ReadinessState::Unknown => ("?", DOUBTFUL),
        ReadinessState::NotReady => ("✗", BAD),
        ReadinessState::NotApplicable => ("·", DIM),
    };
    // Padded before styling, because `format!` counts terminal sequences.
    let name = styled(BOLD, format!("{:NAMES$}", said.name));
    let state = styled(style, format!("{:14}", words(state)));
    let cupti = cupti_need_words(said.cupti);
    format!("{} {name}  {state}  {cupti}", styled(style, mark))
}

/// The details below a tool's text line.
fn labelled(entry: &ToolAssessment<'_>) -> Vec<(String, String)> {
    let because = entry.here.as_is.because.iter();
    let because = because.map(|why| ("because", why.clone()));
    let runtime = under_runtime(entry).map(|(other, why)| ("at run", format!("{other}; {why}")));
    let rest = [
        ("APIs", apis(&entry.apis)),
        ("besides", entry.profiler.profile.besides.join("; ")),
        ("cost", overhead_words(entry.profiler)),
        ("instead", fallback_names(entry)),
    ];
    let all = because.chain(runtime).chain(rest);
    all.map(|(label, text)| (format!("    {label:9}"), text)).collect()
}

/// The state under the container runtime and its reason, if it differs from the image's own.
fn under_runtime(entry: &ToolAssessment<'_>) -> Option<(String, String)> {
    // Most tools are the same in both worlds, and a second reason for each would double the page.
    let other = &entry.here.nvidia;
    let state = format!("under the NVIDIA container runtime {}", words(other.state));
    (other.state != entry.here.as_is.state).then(|| (state, other.because.join("; ")))
}

fn drivers(matrix: &ProfilerMatrix<'_>) -> Vec<TableRow> {
    let row = |row: &MinimumDriver| {
        let branch = row.minor_compatibility.as_deref();
        let compatible = branch.map_or_else(String::new, |branch| {
            format!("; {branch} or later by minor-version compatibility")
        });
        // Minor-version compatibility starts with CUDA 11. For 10 the table has a dash, and the text nothing.
        let cells = [row.cuda.as_str(), &row.driver, branch.unwrap_or("–")].map(str::to_owned);
        let line = format!("    {:8} {}{compatible}", row.cuda, row.driver);
        TableRow::new(cells.into(), line)
    };
    matrix.host.drivers.iter().map(row).collect()
}
