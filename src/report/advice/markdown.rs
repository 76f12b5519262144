//! Advice as a page in Markdown.

use std::fmt::Write as _;

use super::super::markdown::escape_markdown;
use super::super::profilers::{cupti_need_words, overhead_words};
use super::{apis, bytes, instead, needed_by, release, together, too_new, verdict};
use crate::judge::plan::advice::ToolAdvice;
use crate::knowledge::Profiler;

/// The answer.
pub fn advice_markdown(advice: &ToolAdvice<'_>) -> String {
    let mut out = format!(
        "## {}\n\n| tool | CUPTI | APIs | gives | overhead | instead |\n|---|---|---|---|---|---|\n",
        escape_markdown(&verdict(advice))
    );
    for tool in &advice.tools {
        row(
            &mut out,
            &[
                &tool.said.name,
                cupti_need_words(tool.said.cupti),
                &apis(advice.knowledge.tables, tool),
                &tool.said.gives,
                &overhead_words(tool),
                &instead(advice, tool),
            ],
        );
    }
    if let Some(chosen) = &advice.release {
        let _ = writeln!(
            out,
            "\n### Files\n\n{}\n\n| file | size | for |\n|---|---|---|",
            escape_markdown(&release(chosen))
        );
        for file in &advice.files {
            let options = if file.optional { "options: " } else { "" };
            let wanted = format!("{options}{}", needed_by(file));
            row(&mut out, &[&file.name, &bytes(file), &wanted]);
        }
        let _ = writeln!(out, "\n{}", escape_markdown(&together(advice)));
        for words in too_new(advice) {
            let _ = writeln!(out, "\n{}", escape_markdown(&words));
        }
        sources(&mut out, advice);
    }
    first(&mut out, advice);
    out
}

fn row(out: &mut String, cells: &[&str]) {
    let cells: Vec<String> = cells.iter().map(|cell| escape_markdown(cell)).collect();
    let _ = writeln!(out, "| {} |", cells.join(" | "));
}

fn sources(out: &mut String, advice: &ToolAdvice<'_>) {
    out.push_str("\n### Where from\n");
    for source in &advice.sources {
        let _ = writeln!(
            out,
            "\n{} ({}): {}\n\n```sh\n{}\n```",
            escape_markdown(&source.whose),
            source.certainty.name(),
            escape_markdown(&source.brings),
            source.command
        );
    }
}

fn first(out: &mut String, advice: &ToolAdvice<'_>) {
    let general = &advice.knowledge.tables.advice;
    out.push_str("\n### What to do first\n\n");
    for (number, step) in general.order.iter().enumerate() {
        let _ = writeln!(out, "{}. {}", number + 1, escape_markdown(step));
    }
    let _ = writeln!(out, "\n{}", escape_markdown(&general.bursts));
}

/// The tools that can be asked about.
pub fn tool_list_markdown(tools: &[Profiler]) -> String {
    let mut out = "| tool | CUPTI | gives |\n|---|---|---|\n".to_owned();
    for tool in tools {
        row(
            &mut out,
            &[
                &tool.id,
                cupti_need_words(tool.said.cupti),
                &tool.said.gives,
            ],
        );
    }
    out
}
