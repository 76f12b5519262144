//! Advice as a page in Markdown.

use std::fmt::Write as _;

use super::super::markdown::plain;
use super::super::profilers::{need, overhead};
use super::{apis, bytes, instead, needed_by, release, together, too_new, verdict};
use crate::judge::plan::advice::ToolAdvice;
use crate::knowledge::Profiler;
use crate::knowledge::advice::general;

/// The answer.
pub fn report(advice: &ToolAdvice<'_>) -> String {
    let mut out = format!(
        "## {}\n\n| tool | CUPTI | APIs | gives | overhead | instead |\n|---|---|---|---|---|---|\n",
        plain(&verdict(advice))
    );
    for tool in &advice.tools {
        row(
            &mut out,
            &[
                &tool.said.name,
                need(tool.said.cupti),
                &apis(tool),
                &tool.said.gives,
                &overhead(tool),
                &instead(advice, tool),
            ],
        );
    }
    if let Some(chosen) = &advice.release {
        let _ = writeln!(
            out,
            "\n### Files\n\n{}\n\n| file | size | for |\n|---|---|---|",
            plain(&release(chosen))
        );
        for file in &advice.files {
            let options = if file.optional { "options: " } else { "" };
            let wanted = format!("{options}{}", needed_by(file));
            row(&mut out, &[&file.name, &bytes(file), &wanted]);
        }
        let _ = writeln!(out, "\n{}", plain(&together(advice)));
        for words in too_new(advice) {
            let _ = writeln!(out, "\n{}", plain(&words));
        }
        sources(&mut out, advice);
    }
    first(&mut out);
    out
}

fn row(out: &mut String, cells: &[&str]) {
    let cells: Vec<String> = cells.iter().map(|cell| plain(cell)).collect();
    let _ = writeln!(out, "| {} |", cells.join(" | "));
}

fn sources(out: &mut String, advice: &ToolAdvice<'_>) {
    out.push_str("\n### Where from\n");
    for source in &advice.sources {
        let _ = writeln!(
            out,
            "\n{} ({}): {}\n\n```sh\n{}\n```",
            plain(&source.whose),
            source.certainty.name(),
            plain(&source.brings),
            source.command
        );
    }
}

fn first(out: &mut String) {
    let general = general();
    out.push_str("\n### What to do first\n\n");
    for (number, step) in general.order.iter().enumerate() {
        let _ = writeln!(out, "{}. {}", number + 1, plain(step));
    }
    let _ = writeln!(out, "\n{}", plain(&general.bursts));
}

/// The tools that can be asked about.
pub fn list(tools: &[Profiler]) -> String {
    let mut out = "| tool | CUPTI | gives |\n|---|---|---|\n".to_owned();
    for tool in tools {
        row(
            &mut out,
            &[&tool.id, need(tool.said.cupti), &tool.said.gives],
        );
    }
    out
}
