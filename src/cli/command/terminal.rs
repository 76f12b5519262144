//! How a command writes: results to standard output, errors to standard error.
#![expect(
    clippy::print_stderr,
    reason = "results go to standard output, everything else to standard error"
)]

use std::io::{self, Write as _};

use crate::cli::shared_args::ColorArg;
use crate::judge::outcome::RunExit;

/// A line of JSON as a result.
pub(super) fn json_line(line: serde_json::Result<String>) -> io::Result<String> {
    Ok(line.map_err(io::Error::other)? + "\n")
}

pub(super) fn set_color_choice(when: ColorArg) {
    match when {
        // anstream itself looks at the terminal and at NO_COLOR.
        ColorArg::Auto => {}
        ColorArg::Always => anstream::ColorChoice::Always.write_global(),
        ColorArg::Never => anstream::ColorChoice::Never.write_global(),
    }
}

/// The width of the terminal; where there is none, that of a page.
pub(super) fn terminal_width() -> usize {
    terminal_size::terminal_size().map_or(100, |(width, _)| usize::from(width.0))
}

/// Writes a result. A reader that has gone away, as behind `head`, is no failure.
pub(super) fn write_result(text: io::Result<String>, exit: RunExit) -> RunExit {
    let written = text.and_then(|text| {
        let mut out = anstream::stdout().lock();
        out.write_all(text.as_bytes())?;
        // A full disk would else show when the program ends, where nobody looks at it.
        out.flush()
    });
    match written {
        Ok(()) => exit,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => exit,
        Err(error) => report_error(&format!("cannot write the result: {error}")),
    }
}

pub(super) fn report_error(error: &dyn std::fmt::Display) -> RunExit {
    eprintln!("error: {error}");
    RunExit::Open
}
