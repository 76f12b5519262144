//! `profilers`: which profiling tools would work in an image.

use std::io;

use cupti_audit::cli::{PageFormat, ProfilersArgs};
use cupti_audit::facts::tools;
use cupti_audit::plan::{host, profilers};
use cupti_audit::profile;
use cupti_audit::report::Exit;
use cupti_audit::report::profilers::{Matrix, json, markdown, text};

use super::{color, fail, read, width, write};

/// Judges the profiling tools in one image.
pub fn profilers(args: &ProfilersArgs) -> Exit {
    color(args.output.color);
    let facts = match read(&args.image_name, &args.image, &args.output) {
        Ok(facts) => facts,
        Err(error) => return fail(&error),
    };
    let known = profile::profilers();
    let tools = tools::find(&facts, known, &args.image.environment);
    let entries = profilers::judge(&facts, &tools, known);
    let host = host::notes(&facts, &entries);
    let matrix = Matrix {
        facts: &facts,
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
