//! `advise`: whether CUPTI is needed, without an image.

use crate::cli::tools::AdviseArgs;
use crate::judge::outcome::RunExit;
use crate::judge::plan::advice::{self, ToolAdvice};
use crate::knowledge::Knowledge;
use crate::knowledge::Profiler;
use crate::report::advice::{json, page};

use super::command_error::CommandError;
use super::project_config;
use super::terminal::{set_color_choice, write_answer};

/// Advises on the tools that were named, or lists those that can be.
pub fn run_advise(args: &AdviseArgs) -> Result<RunExit, CommandError> {
    set_color_choice(args.color);
    let known = project_config::load_config_and_knowledge(&args.own)?;
    // Who asks nothing is told what can be asked.
    if args.tools.is_empty() && args.phase.is_none() {
        let (page, json) = (page::tool_list_page(&known), json::tool_list_json(&known.profilers));
        return Ok(write_answer(args.format, &page, &json, RunExit::Clean));
    }
    let advice = advice(args, &known)?;
    let (page, json) = (page::advice_page(&advice), json::advice_json(&advice));
    Ok(write_answer(args.format, &page, &json, RunExit::Clean))
}

fn advice<'k>(args: &AdviseArgs, knowledge: &'k Knowledge) -> Result<ToolAdvice<'k>, String> {
    let known = knowledge.profilers.as_slice();
    let phase = args.phase.as_ref().map(|name| knowledge.phase(name)).transpose()?;
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
