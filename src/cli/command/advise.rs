//! `advise`: whether CUPTI is needed, without an image.

use crate::cli::{AdviseArgs, PageFormat};
use crate::judge::outcome::Exit;
use crate::judge::plan::advice::{self, Advice};
use crate::knowledge::Knowledge;
use crate::knowledge::Profiler;
use crate::report::advice::{json, markdown, text};

use super::{color, fail, json_line, project_config, width, write};

/// Advises on the tools that were named, or lists those that can be.
pub fn advise(args: &AdviseArgs) -> Exit {
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
        PageFormat::Text => Ok(text::report(&advice, width())),
        PageFormat::Json => json_line(json::line(&advice)),
        PageFormat::Markdown => Ok(markdown::report(&advice)),
    };
    write(text, Exit::Clean)
}

fn advice<'k>(args: &AdviseArgs, knowledge: &'k Knowledge) -> Result<Advice<'k>, String> {
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

fn list(known: &[Profiler], format: PageFormat) -> Exit {
    let text = match format {
        PageFormat::Text => Ok(text::list(known, width())),
        PageFormat::Json => json_line(json::list(known)),
        PageFormat::Markdown => Ok(markdown::list(known)),
    };
    write(text, Exit::Clean)
}
