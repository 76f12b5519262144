//! `advise`: whether CUPTI is needed, without an image.

use crate::cli::option_values::{COLOR, one_of};
use crate::cli::shared_args::{ConfigArgs, trimmed};
use crate::judge::outcome::RunExit;
use crate::judge::plan::advice::{self, ToolAdvice};
use crate::knowledge::Knowledge;
use crate::knowledge::Profiler;
use crate::knowledge::data_files::SNIPPETS;
use crate::report::pages::advice::{advice_json, advice_page, tool_list_json, tool_list_page};
use crate::report::{ANSWER_FORMATS, ReportFormat};
use anstream::ColorChoice;
use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::cli::config::load::load_project;
use crate::cli::terminal::{CommandError, write_answer, write_verbatim};

const HELP: &str = "\
Without --tool and --phase, the tools that can be asked about are listed.

Exit codes:
  0  answered
  2  there is no such tool, or no such version

Examples:
  cupti-audit advise --tool torch.profiler --tool nsys
  cupti-audit advise --phase profiling --cuda 12.4
  cupti-audit advise --tool proton --format markdown
  cupti-audit advise --snippet pytorch >profiled.py";

/// Show whether a tool or phase needs CUPTI, and where to get it; no image is needed
///
/// Also tells which files they need, their cost and their source.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct AdviseArgs {
    /// Profiling tool to use, such as torch.profiler or nsys (repeatable)
    #[arg(long = "tool", short, value_name = "TOOL", value_delimiter = ',', value_parser = trimmed)]
    tools: Vec<String>,
    /// Purpose of the image: inference, training, profiling, or a phase of your own
    #[arg(long, short, value_name = "PHASE")]
    phase: Option<String>,
    /// CUDA version, such as 12.4 [default: the newest known 12.x]
    #[arg(long, value_name = "VERSION")]
    cuda: Option<String>,
    /// Print Python code that profiles a few training steps, and nothing else
    #[arg(long, value_name = "FRAMEWORK", value_parser = snippet_names(), conflicts_with_all = ["tools", "phase", "cuda", "format"])]
    snippet: Option<String>,
    /// Format of the answer
    #[arg(long, default_value = "text", value_parser = one_of(&ANSWER_FORMATS))]
    format: ReportFormat,
    /// When to use colours; `NO_COLOR` is respected
    // Defined here, because `advise` reads no image and has none of the image options.
    #[arg(long, value_parser = one_of(&COLOR), default_value = "auto", value_name = "WHEN")]
    color: ColorChoice,
    #[command(flatten)]
    own: ConfigArgs,
}

impl AdviseArgs {
    /// Advises on the named tools, or lists all tools.
    pub fn run(self) -> Result<RunExit, CommandError> {
        if let Some(name) = &self.snippet {
            let snippet = SNIPPETS.iter().find(|(known, ..)| known == name);
            let (_, code, _) = snippet.expect("clap accepts only these names");
            return Ok(write_verbatim(code, RunExit::Clean));
        }
        let (_, known) = load_project(&self.own)?;
        // Without a question, list the possible ones.
        if self.tools.is_empty() && self.phase.is_none() {
            let (page, json) = (tool_list_page(&known), tool_list_json(&known.profilers));
            return Ok(write_answer(self.format, &page, &json, RunExit::Clean));
        }
        let advice = advice(&self, &known)?;
        let (page, json) = (advice_page(&advice), advice_json(&advice));
        Ok(write_answer(self.format, &page, &json, RunExit::Clean))
    }
}

/// The frameworks that have a snippet (`profiles/snippets`).
fn snippet_names() -> PossibleValuesParser {
    SNIPPETS.iter().map(|(name, ..)| *name).collect::<Vec<_>>().into()
}

fn advice<'k>(args: &AdviseArgs, knowledge: &'k Knowledge) -> Result<ToolAdvice<'k>, String> {
    let known = knowledge.profilers.as_slice();
    let phase = args.phase.as_ref().map(|name| knowledge.phase(name)).transpose()?;
    let mut tools: Vec<&Profiler> = Vec::new();
    for name in &args.tools {
        let tool = advice::find_tool(name, known)?;
        // `nsys` and `nsight-systems` are names of the same tool.
        if !tools.contains(&tool) {
            tools.push(tool);
        }
    }
    advice::advise_on_tools(phase, tools, knowledge, args.cuda.as_deref())
}
