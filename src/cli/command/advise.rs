//! `advise`: whether CUPTI is needed, without an image.

use crate::cli::tools::{AdviseArgs, AnswerFormat};
use crate::judge::outcome::RunExit;
use crate::judge::plan::advice::{self, ToolAdvice};
use crate::knowledge::Knowledge;
use crate::knowledge::Profiler;
use crate::report::advice::{json, page};

use super::project_config;
use super::terminal::{json_line, report_error, set_color_choice, terminal_width, write_result};

/// Advises on the tools that were named, or lists those that can be.
pub fn run_advise(args: &AdviseArgs) -> RunExit {
    set_color_choice(args.color);
    let known = match project_config::load_config_and_knowledge(&args.own) {
        Ok(known) => known,
        Err(exit) => return exit,
    };
    // Who asks nothing is told what can be asked.
    if args.tools.is_empty() && args.phase.is_none() {
        return list(&known, args.format);
    }
    let advice = match advice(args, &known) {
        Ok(advice) => advice,
        Err(error) => return report_error(&error),
    };
    let text = match args.format {
        AnswerFormat::Text => Ok(page::advice_page(&advice).text(terminal_width())),
        AnswerFormat::Json => json_line(json::advice_json(&advice)),
        AnswerFormat::Markdown => Ok(page::advice_page(&advice).markdown()),
    };
    write_result(text, RunExit::Clean)
}

fn advice<'k>(args: &AdviseArgs, knowledge: &'k Knowledge) -> Result<ToolAdvice<'k>, String> {
    let known = knowledge.profilers.as_slice();
    let phase = match &args.phase {
        Some(name) => Some(knowledge.phase(name)?),
        None => None,
    };
    let mut tools: Vec<&Profiler> = Vec::new();
    for name in &args.tools {
        let tool = advice::find_tool(name, known)?;
        // `nsys` and `nsight-systems` are two names of one tool.
        if !tools.contains(&tool) {
            tools.push(tool);
        }
    }
    advice::advise_on_tools(phase, tools, knowledge, args.cuda.as_deref())
}

fn list(known: &Knowledge, format: AnswerFormat) -> RunExit {
    let text = match format {
        AnswerFormat::Text => Ok(page::tool_list_page(known).text(terminal_width())),
        AnswerFormat::Json => json_line(json::tool_list_json(&known.profilers)),
        AnswerFormat::Markdown => Ok(page::tool_list_page(known).markdown()),
    };
    write_result(text, RunExit::Clean)
}
