//! `advise`: whether CUPTI is needed, without an image.

use crate::cli::{AdviseArgs, AnswerFormat};
use crate::judge::outcome::RunExit;
use crate::judge::plan::advice::{self, ToolAdvice};
use crate::knowledge::Knowledge;
use crate::knowledge::Profiler;
use crate::report::advice::{json, markdown, text};

use super::{color, fail, json_line, project_config, width, write};

/// Advises on the tools that were named, or lists those that can be.
pub fn advise(args: &AdviseArgs) -> RunExit {
    color(args.color);
    let known = match project_config::known(&args.own) {
        Ok(known) => known,
        Err(exit) => return exit,
    };
    if args.tools.is_empty() && args.phase.is_none() {
        return list(&known.profilers, args.format);
    }
    let advice = match advice(args, &known) {
        Ok(advice) => advice,
        Err(error) => return fail(&error),
    };
    let text = match args.format {
        AnswerFormat::Text => Ok(text::report(&advice, width())),
        AnswerFormat::Json => json_line(json::line(&advice)),
        AnswerFormat::Markdown => Ok(markdown::report(&advice)),
    };
    write(text, RunExit::Clean)
}

fn advice<'k>(args: &AdviseArgs, knowledge: &'k Knowledge) -> Result<ToolAdvice<'k>, String> {
    let known = knowledge.profilers.as_slice();
    let phase = match &args.phase {
        Some(name) => Some(knowledge.phase(name)?),
        None => None,
    };
    let mut tools: Vec<&Profiler> = Vec::new();
    for name in &args.tools {
        let tool = advice::tool(name, known)?;
        if !tools.contains(&tool) {
            tools.push(tool);
        }
    }
    if let Some(phase) = phase.filter(|_| tools.is_empty()) {
        tools = advice::tools_of_phase(phase, known);
    }
    advice::advise(args.phase.as_deref(), tools, known, args.cuda.as_deref())
}

fn list(known: &[Profiler], format: AnswerFormat) -> RunExit {
    let text = match format {
        AnswerFormat::Text => Ok(text::list(known, width())),
        AnswerFormat::Json => json_line(json::list(known)),
        AnswerFormat::Markdown => Ok(markdown::list(known)),
    };
    write(text, RunExit::Clean)
}
