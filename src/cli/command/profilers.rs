//! `profilers`: which profiling tools would work in an image.

use crate::cli::tools::ProfilersArgs;
use crate::facts::ImageFacts;
use crate::judge::outcome::RunExit;
use crate::judge::plan::profilers::installed_tools;
use crate::judge::plan::{host_notes, profilers};
use crate::knowledge::Profiler;
use crate::report::profilers::{ProfilerMatrix, json::profilers_json, page::profilers_page};

use super::command_error::CommandError;
use super::image_reader::read_single_image;
use super::terminal::{set_color_choice, write_answer};

/// Judges the profiling tools in one image.
pub fn run_profilers(mut args: ProfilersArgs) -> Result<RunExit, CommandError> {
    set_color_choice(args.read.output.color);
    let (facts, knowledge) = read_single_image(&args.image_name, &mut args.read)?;
    Ok(show(&args, &facts, &knowledge.profilers))
}

fn show(args: &ProfilersArgs, facts: &ImageFacts, known: &[Profiler]) -> RunExit {
    let tools = installed_tools::find_installed_tools(facts, known, &args.read.image.environment);
    let entries = profilers::assess_tools(facts, &tools, known);
    let host = host_notes::gather_host_notes(facts, &entries);
    let matrix = ProfilerMatrix { facts, entries, host };
    // A tool that is not ready is an answer; only what could not be checked changes the code.
    let exit = if facts.gaps.is_empty() {
        RunExit::Clean
    } else {
        RunExit::Open
    };
    write_answer(args.format, &profilers_page(&matrix), &profilers_json(&matrix), exit)
}
