//! Terminal output: results go to standard output, errors to standard error.

use std::borrow::Cow;
use std::io::{self, Write as _};

use crate::cli::harmless_text::make_harmless;
use crate::judge::outcome::RunExit;
use crate::report::{Page, ReportFormat, page_text, wrap_lines};
use image_linkage::escape::escape_controls;
use serde_json::Value;

/// The terminal width, or 100 without a terminal.
pub(super) fn terminal_width() -> usize {
    terminal_size::terminal_size().map_or(100, |(width, _)| usize::from(width.0))
}

/// Wraps lines to the terminal width; without a terminal they stay unchanged.
pub(super) fn wrapped_for_terminal(text: String) -> String {
    match terminal_size::terminal_size() {
        Some((width, _)) => wrap_lines(&text, usize::from(width.0)),
        None => text,
    }
}

/// Writes a result without commands for CI systems.
pub(super) fn write_result(text: &str, exit: RunExit) -> RunExit {
    write_verbatim(&make_harmless(text), exit)
}

/// Writes a result unchanged for programs. A closed pipe, as with `head`, is not a failure.
pub(super) fn write_verbatim(text: &str, exit: RunExit) -> RunExit {
    let mut out = anstream::stdout().lock();
    // Flush, because a full disk would otherwise only show at exit, where errors are lost.
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => exit,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => exit,
        Err(error) => cannot_write(&error),
    }
}

fn cannot_write(error: &io::Error) -> RunExit {
    report_error(&format!("cannot write the result: {error}"))
}

/// Writes an answer in the requested format.
pub(super) fn write_answer(format: ReportFormat, page: &Page, json: &Value, exit: RunExit) -> RunExit {
    let text = match format {
        ReportFormat::Json => format!("{json}\n"),
        _ => page_text(page, format, terminal_width()),
    };
    write_result(&text, exit)
}

pub(super) fn report_warning(warning: &str) {
    say("warning: ", warning);
}

/// Exits with the argument error, or with the requested help.
pub(crate) fn refuse_arguments(error: &clap::Error) -> ! {
    let text = error.render().to_string();
    // An argument may come from a pull request.
    let is_odd = text.chars().any(|c| c.is_control() && c != '\n') || matches!(make_harmless(&text), Cow::Owned(_));
    if is_odd || error.use_stderr() && text.len() > SHOWN {
        for line in text.lines() {
            say("", line);
        }
        std::process::exit(error.exit_code());
    }
    let code = match error.print().and_then(|()| io::stdout().flush()) {
        Err(failure) if failure.kind() != io::ErrorKind::BrokenPipe => cannot_write(&failure) as i32,
        _ => error.exit_code(),
    };
    std::process::exit(code)
}

/// Writes a result to standard error because standard output has other data.
pub(super) fn write_notice(text: &str) {
    // If standard error fails, nothing can report it.
    let _ = anstream::stderr().write_all(make_harmless(text).as_bytes());
}

/// Reports an error. All messages pass through [`say`], so that none contains terminal sequences or CI commands.
pub(crate) fn report_error(error: &dyn std::fmt::Display) -> RunExit {
    say("error: ", &error.to_string());
    RunExit::Open
}

/// The number of bytes shown of a message: a file may have a line of a million, and an argument 100,000.
const SHOWN: usize = 4 << 10;

fn say(kind: &str, text: &str) {
    // Names are already escaped, so keep backslashes.
    let line = format!("{kind}{}", escape_controls(text));
    // If standard error fails, nothing can report it; the exit code remains.
    let _ = writeln!(io::stderr().lock(), "{}", cut_middle(&make_harmless(&line)));
}

/// Cuts a long message in its middle, because its end gives the reason.
fn cut_middle(line: &str) -> Cow<'_, str> {
    let (start, rest) = line.split_at(line.floor_char_boundary(SHOWN / 2));
    let (middle, end) = rest.split_at(rest.ceil_char_boundary(rest.len().saturating_sub(SHOWN / 2)));
    match middle.len() {
        0 => Cow::Borrowed(line),
        bytes => Cow::Owned(format!("{start}… {bytes} bytes …{end}")),
    }
}

/// Why a command ends without a result.
pub(crate) enum CommandError {
    /// The error was already reported.
    Said(RunExit),
    /// An error that is not yet reported.
    Why(String),
}

impl CommandError {
    /// Reports the error if that is still needed.
    pub(crate) fn report(self) -> RunExit {
        match self {
            Self::Said(exit) => exit,
            Self::Why(error) => report_error(&error),
        }
    }
}

impl From<RunExit> for CommandError {
    fn from(exit: RunExit) -> Self {
        Self::Said(exit)
    }
}

impl<E: std::fmt::Display> From<E> for CommandError {
    fn from(error: E) -> Self {
        Self::Why(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::{SHOWN, cut_middle};

    #[test]
    fn a_long_message_keeps_its_start_and_its_end() {
        for whole in ["", "error: no", &"é".repeat(SHOWN / 2)] {
            assert_eq!(cut_middle(whole), whole);
        }
        let x = "x".repeat(100_000);
        let cut = cut_middle(&format!("error: {x}: no such file")).into_owned();
        assert!(
            cut.starts_with("error: xxx") && cut.ends_with("xxx: no such file"),
            "{cut}"
        );
        assert!(cut.contains("x… 95925 bytes …x") && cut.len() < SHOWN + 40, "{cut}");
        assert!(cut_middle(&"é".repeat(SHOWN)).contains("é… 4096 bytes …é"));
    }
}
