//! Advice for people.

use std::fmt::Write as _;

use super::super::profilers::{cupti_need_words, overhead_words};
use super::super::text_layout::{BOLD, DIM, GOOD, REMARK, styled, wrap_paragraph};
use super::{apis, bytes, instead, needed_by, release, together, too_new, verdict, why};
use crate::judge::plan::advice::ToolAdvice;
use crate::knowledge::{Profiler, SEVERITY_PHASES};

/// The answer, `width` columns wide.
pub fn advice_text(advice: &ToolAdvice<'_>, width: usize) -> String {
    let style = if advice.needs_cupti() { REMARK } else { GOOD };
    let mut out = styled(
        style,
        wrap_paragraph("", &verdict(advice), width).trim_end(),
    );
    out.push('\n');
    for tool in &advice.tools {
        self::tool(&mut out, advice, tool, width);
    }
    if advice.needs_cupti() {
        files(&mut out, advice, width);
        sources(&mut out, advice, width);
    }
    first(&mut out, advice, width);
    on_the_host(&mut out, advice, width);
    out
}

fn tool(out: &mut String, advice: &ToolAdvice<'_>, tool: &Profiler, width: usize) {
    let said = &tool.said;
    let name = styled(BOLD, &said.name);
    let _ = writeln!(out, "\n{name}  CUPTI: {}", cupti_need_words(said.cupti));
    let lines = [
        ("why", why(tool).to_owned()),
        ("APIs", apis(advice.knowledge.tables, tool)),
        ("gives", said.gives.clone()),
        ("without", said.without.clone()),
        ("besides", said.besides.join("; ")),
        ("cost", overhead_words(tool)),
        ("instead", instead(advice, tool)),
    ];
    for (label, text) in lines.iter().filter(|(_, text)| !text.is_empty()) {
        out.push_str(&wrap_paragraph(&format!("  {label:9}"), text, width));
    }
}

fn files(out: &mut String, advice: &ToolAdvice<'_>, width: usize) {
    let Some(chosen) = &advice.release else {
        return;
    };
    let _ = writeln!(out, "\n{}", styled(BOLD, "files"));
    out.push_str(&wrap_paragraph("  ", &release(chosen), width));
    let name = |file: &crate::judge::plan::advice::FileNeed| file.name.len();
    let widest = advice.files.iter().map(name).max().unwrap_or(0);
    for file in &advice.files {
        let options = if file.optional { "options: " } else { "" };
        let label = format!("  {:widest$}  {:>8}  ", file.name, bytes(file));
        out.push_str(&wrap_paragraph(
            &label,
            &format!("{options}{}", needed_by(file)),
            width,
        ));
    }
    let _ = writeln!(out, "  {}", together(advice));
    for words in too_new(advice) {
        let _ = writeln!(out, "  {words}");
    }
}

fn sources(out: &mut String, advice: &ToolAdvice<'_>, width: usize) {
    let _ = writeln!(out, "\n{}", styled(BOLD, "where from"));
    for source in &advice.sources {
        let text = format!("{} ({})", source.whose, source.certainty.name());
        out.push_str(&wrap_paragraph(&format!("  {:8}", source.id), &text, width));
        // A command is copied: it is not broken.
        let _ = writeln!(out, "          {}", styled(BOLD, &source.command));
        out.push_str(&wrap_paragraph("          ", &source.brings, width));
    }
}

fn first(out: &mut String, advice: &ToolAdvice<'_>, width: usize) {
    let general = &advice.knowledge.tables.advice;
    let _ = writeln!(out, "\n{}", styled(BOLD, "what to do first"));
    for (number, step) in general.order.iter().enumerate() {
        out.push_str(&wrap_paragraph(&format!("  {}. ", number + 1), step, width));
    }
    out.push_str(&wrap_paragraph("  bursts: ", &general.bursts, width));
    out.push_str(&wrap_paragraph(
        "  add CUPTI when ",
        &general.need.join("; "),
        width,
    ));
    out.push_str(&wrap_paragraph(
        "  leave it out when ",
        &general.no_need.join("; "),
        width,
    ));
}

fn on_the_host(out: &mut String, advice: &ToolAdvice<'_>, width: usize) {
    let asked = |id: &String| advice.tools.iter().any(|tool| tool.said.host.contains(id));
    let mut conditions = advice
        .knowledge
        .tables
        .host
        .iter()
        .filter(|condition| asked(&condition.id))
        .peekable();
    if conditions.peek().is_some() {
        let _ = writeln!(out, "\n{}", styled(BOLD, "on the host"));
    }
    for condition in conditions {
        let text = format!("{} ({})", condition.says, condition.certainty.name());
        out.push_str(&wrap_paragraph("  · ", &text, width));
    }
}

/// The tools that can be asked about.
pub fn tool_list_text(tools: &[Profiler], width: usize) -> String {
    let mut out = String::new();
    let name = |tool: &Profiler| tool.id.len();
    let widest = tools.iter().map(name).max().unwrap_or(0);
    let head = format!("{:widest$}  {:14}  gives", "tool", "CUPTI");
    let _ = writeln!(out, "{}", styled(DIM, head));
    for tool in tools {
        let label = format!(
            "{:widest$}  {:14}  ",
            tool.id,
            cupti_need_words(tool.said.cupti)
        );
        out.push_str(&wrap_paragraph(&label, &tool.said.gives, width));
    }
    let hint = format!(
        "cupti-audit advise --tool TOOL answers for a tool, --phase for {}",
        SEVERITY_PHASES.join(", ")
    );
    out.push('\n');
    out.push_str(&wrap_paragraph("", &hint, width));
    out
}
