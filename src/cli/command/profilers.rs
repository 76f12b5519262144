//! `profilers`: which profiling tools would work in an image.

use crate::cli::{PageFormat, ProfilersArgs};
use crate::judge::facts::{ImageFacts, installed_tools};
use crate::judge::outcome::Exit;
use crate::judge::plan::{host_notes, profilers};
use crate::knowledge::Profiler;
use crate::report::profilers::{Matrix, json, markdown, text};

use super::{color, json_line, read_one, width, write};

/// Judges the profiling tools in one image.
pub fn profilers(mut args: ProfilersArgs) -> Exit {
    color(args.read.output.color);
    match read_one(&args.image_name, &mut args.read) {
        Ok((facts, knowledge)) => show(&args, &facts, &knowledge.profilers),
        Err(exit) => exit,
    }
}

fn show(args: &ProfilersArgs, facts: &ImageFacts, known: &[Profiler]) -> Exit {
    let tools = installed_tools::find(facts, known, &args.read.image.environment);
    let entries = profilers::judge(facts, &tools, known);
    let host = host_notes::notes(facts, &entries);
    let matrix = Matrix {
        facts,
        entries,
        host,
    };
    let text = match args.format {
        PageFormat::Text => Ok(text::report(&matrix, width())),
        PageFormat::Json => json_line(json::line(&matrix)),
        PageFormat::Markdown => Ok(markdown::report(&matrix)),
    };
    let exit = if facts.gaps.is_empty() {
        Exit::Clean
    } else {
        Exit::Open
    };
    write(text, exit)
}
