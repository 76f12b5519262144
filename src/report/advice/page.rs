//! The page of advice, and the page of all known tools.

use super::{apis, bytes, instead, needed_by, other_releases, release, together, verdict, why};
use crate::judge::plan::advice::{FileNeed, ToolAdvice};
use crate::knowledge::host::HostCondition;
use crate::knowledge::{Knowledge, Profiler};
use crate::report::blocks::{Block, ReportPage, TableRow};
use crate::report::profilers::{cupti_need_words, overhead_words};
use crate::report::text_layout::{BOLD, DIM, styled};
use crate::report::words::ReportTone;

/// The page that answers without an image.
pub(crate) fn advice_page<'a>(advice: &'a ToolAdvice<'_>) -> ReportPage<'a> {
    let tone = if advice.needs_cupti() {
        ReportTone::Remark
    } else {
        ReportTone::Good
    };
    // The table only has room for what is compared; reasons and notes are in the text.
    let columns = vec!["tool", "CUPTI", "APIs", "gives", "overhead", "instead"];
    let tools = advice.tools.iter().map(|tool| self::tool(advice, tool));
    let mut blocks = vec![
        Block::Answer(tone, verdict(advice)),
        Block::Table(columns, tools.collect()),
    ];
    // If nothing needs CUPTI in the image, there are no files to add.
    if let Some(chosen) = &advice.release {
        blocks.push(Block::Heading("files"));
        blocks.push(Block::Paragraph("  ", release(chosen)));
        blocks.push(Block::Table(vec!["file", "size", "for"], files(&advice.files)));
        blocks.push(Block::Line(together(advice)));
        blocks.extend(other_releases(advice).into_iter().map(Block::Line));
        blocks.push(Block::Heading("where from"));
        blocks.extend(advice.sources.iter().map(Block::Command));
    }
    let general = &advice.knowledge.tables.advice;
    blocks.extend([
        Block::Heading("what to do first"),
        Block::Steps(&general.order),
        Block::Paragraph("  bursts: ", general.bursts.clone()),
        Block::TextOnly(vec![
            Block::Paragraph("  add CUPTI when ", general.need.join("; ")),
            Block::Paragraph("  leave it out when ", general.no_need.join("; ")),
        ]),
    ]);
    let host = host(advice);
    if !host.is_empty() {
        blocks.push(Block::TextOnly(vec![
            Block::Heading("on the host"),
            Block::HostConditions(host),
        ]));
    }
    ReportPage(blocks)
}

fn tool(advice: &ToolAdvice<'_>, tool: &Profiler) -> TableRow {
    let said = &tool.profile;
    let cupti = cupti_need_words(said.cupti);
    let (apis, cost, instead) = (
        apis(advice.knowledge.tables, tool),
        overhead_words(tool),
        instead(advice, tool),
    );
    let labelled = [
        ("why", why(tool)),
        ("APIs", &apis),
        ("gives", &said.gives),
        ("without", &said.without),
        ("besides", &said.besides.join("; ")),
        ("cost", &cost),
        ("instead", &instead),
    ];
    TableRow {
        line: format!("\n{}  CUPTI: {cupti}", styled(BOLD, &said.name)),
        labelled: labelled
            .map(|(label, text)| (format!("  {label:9}"), text.to_owned()))
            .into(),
        cells: [&said.name, cupti, &apis, &said.gives, &cost, &instead]
            .map(str::to_owned)
            .into(),
    }
}

fn files(files: &[FileNeed]) -> Vec<TableRow> {
    // File names are known and short, so the column needs no limit.
    let widest = files.iter().map(|file| file.name.len()).max().unwrap_or(0);
    let row = |file: &FileNeed| {
        let options = if file.optional { "options: " } else { "" };
        let (size, wanted) = (bytes(file), format!("{options}{}", needed_by(file)));
        let label = format!("  {:widest$}  {size:>8}  ", file.name);
        TableRow {
            labelled: vec![(label, wanted.clone())],
            cells: vec![file.name.clone(), size, wanted],
            ..TableRow::default()
        }
    };
    files.iter().map(row).collect()
}

/// The host conditions of the tools.
fn host(advice: &ToolAdvice<'_>) -> Vec<&'static HostCondition> {
    let asked = |id: &String| advice.tools.iter().any(|tool| tool.profile.host.contains(id));
    let conditions = advice.knowledge.tables.host.iter();
    conditions.filter(|condition| asked(&condition.id)).collect()
}

/// The page of all known tools.
pub(crate) fn tool_list_page(known: &Knowledge) -> ReportPage<'_> {
    let tools = &known.profilers;
    let widest = tools.iter().map(|tool| tool.id.len()).max().unwrap_or(0);
    // 14 columns fit the longest need, `brings its own`; the same below.
    let head = format!("{:widest$}  {:14}  gives", "tool", "CUPTI");
    let row = |tool: &Profiler| {
        let (id, cupti, gives) = (&*tool.id, cupti_need_words(tool.profile.cupti), &*tool.profile.gives);
        TableRow {
            labelled: vec![(format!("{id:widest$}  {cupti:14}  "), gives.to_owned())],
            cells: [id, cupti, gives].map(str::to_owned).into(),
            ..TableRow::default()
        }
    };
    let hint = format!(
        "cupti-audit advise --tool TOOL answers for a tool, --phase for {}",
        known.phase_names().join(", ")
    );
    ReportPage(vec![
        Block::TextLines(styled(DIM, head) + "\n"),
        Block::Table(vec!["tool", "CUPTI", "gives"], tools.iter().map(row).collect()),
        Block::TextOnly(vec![Block::TextLines("\n".to_owned()), Block::Paragraph("", hint)]),
    ])
}
