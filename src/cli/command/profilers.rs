//! `profilers`: which profiling tools would work in an image.

use crate::cli::tools::{AnswerFormat, ProfilersArgs};
use crate::judge::facts::{ImageFacts, installed_tools};
use crate::judge::outcome::RunExit;
use crate::judge::plan::{host_notes, profilers};
use crate::knowledge::Profiler;
use crate::report::profilers::{ProfilerMatrix, json, page::profilers_page};

use super::image_reader::read_single_image;
use super::terminal::{json_line, set_color_choice, terminal_width, write_result};

/// Judges the profiling tools in one image.
pub fn run_profilers(mut args: ProfilersArgs) -> RunExit {
    set_color_choice(args.read.output.color);
    match read_single_image(&args.image_name, &mut args.read) {
        Ok((facts, knowledge)) => show(&args, &facts, &knowledge.profilers),
        Err(exit) => exit,
    }
}

fn show(args: &ProfilersArgs, facts: &ImageFacts, known: &[Profiler]) -> RunExit {
    let tools = installed_tools::find_installed_tools(facts, known, &args.read.image.environment);
    let entries = profilers::assess_tools(facts, &tools, known);
    let host = host_notes::gather_host_notes(facts, &entries);
    let matrix = ProfilerMatrix { facts, entries, host };
    let text = match args.format {
        AnswerFormat::Text => Ok(profilers_page(&matrix).text(terminal_width())),
        AnswerFormat::Json => json_line(json::profilers_json(&matrix)),
        AnswerFormat::Markdown => Ok(profilers_page(&matrix).markdown()),
    };
    // A tool that is not ready is an answer; only what could not be checked changes the code.
    let exit = if facts.gaps.is_empty() {
        RunExit::Clean
    } else {
        RunExit::Open
    };
    write_result(text, exit)
}
