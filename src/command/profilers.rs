//! `profilers`: which profiling tools would work in an image.

use std::io;

use cupti_audit::cli::{PageFormat, ProfilersArgs};
use cupti_audit::facts::{ImageFacts, tools};
use cupti_audit::plan::{host, profilers};
use cupti_audit::profile::Profiler;
use cupti_audit::report::Exit;
use cupti_audit::report::profilers::{Matrix, json, markdown, text};

use super::{color, read_one, width, write};

/// Judges the profiling tools in one image.
pub fn profilers(mut args: ProfilersArgs) -> Exit {
    color(args.output.color);
    match read_one(&args.image_name, &args.own, &mut args.image, &args.output) {
        Ok((facts, knowledge)) => show(&args, &facts, &knowledge.profilers),
        Err(exit) => exit,
    }
}

fn show(args: &ProfilersArgs, facts: &ImageFacts, known: &[Profiler]) -> Exit {
    let tools = tools::find(facts, known, &args.image.environment);
    let entries = profilers::judge(facts, &tools, known);
    let host = host::notes(facts, &entries);
    let matrix = Matrix {
        facts,
        entries,
        host,
    };
    let text = match args.format {
        PageFormat::Text => Ok(text::report(&matrix, width())),
        PageFormat::Json => json::line(&matrix)
            .map(|line| line + "\n")
            .map_err(io::Error::other),
        PageFormat::Markdown => Ok(markdown::report(&matrix)),
    };
    let exit = if facts.gaps.is_empty() {
        Exit::Clean
    } else {
        Exit::Open
    };
    write(text, exit)
}
