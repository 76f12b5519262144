//! `profilers`: which profiling tools would work in an image.

use crate::cli::{AnswerFormat, ProfilersArgs};
use crate::judge::facts::{ImageFacts, installed_tools};
use crate::judge::outcome::RunExit;
use crate::judge::plan::{host_notes, profilers};
use crate::knowledge::Profiler;
use crate::report::profilers::{ProfilerMatrix, json, markdown, text};

use super::{color, json_line, read_one, width, write};

/// Judges the profiling tools in one image.
pub fn profilers(mut args: ProfilersArgs) -> RunExit {
    color(args.read.output.color);
    match read_one(&args.image_name, &mut args.read) {
        Ok((facts, knowledge)) => show(&args, &facts, &knowledge.profilers),
        Err(exit) => exit,
    }
}

fn show(args: &ProfilersArgs, facts: &ImageFacts, known: &[Profiler]) -> RunExit {
    let tools = installed_tools::find(facts, known, &args.read.image.environment);
    let entries = profilers::judge(facts, &tools, known);
    let host = host_notes::notes(facts, &entries);
    let matrix = ProfilerMatrix {
        facts,
        entries,
        host,
    };
    let text = match args.format {
        AnswerFormat::Text => Ok(text::report(&matrix, width())),
        AnswerFormat::Json => json_line(json::line(&matrix)),
        AnswerFormat::Markdown => Ok(markdown::report(&matrix)),
    };
    let exit = if facts.gaps.is_empty() {
        RunExit::Clean
    } else {
        RunExit::Open
    };
    write(text, exit)
}
