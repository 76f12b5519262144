//! How a command writes: results to standard output, errors to standard error.

use std::borrow::Cow;
use std::io::{self, Write as _};

use crate::cli::harmless_text::make_harmless;
use crate::judge::outcome::RunExit;
use crate::report::{ReportFormat, page_text};
use crate::report::{ReportPage, wrap_lines};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use image_linkage::escape;
use serde_json::Value;

/// The width of the terminal; where there is none, that of a page.
pub(super) fn terminal_width() -> usize {
    terminal_size::terminal_size().map_or(100, |(width, _)| usize::from(width.0))
}

/// A text whose lines go on below where they are wider than the terminal; of a file or a pipe they stay whole.
pub(super) fn wrapped_for_terminal(text: String) -> String {
    match terminal_size::terminal_size() {
        Some((width, _)) => wrap_lines(&text, usize::from(width.0)),
        None => text,
    }
}

/// Writes a result, and nothing in it that the log of a CI system obeys.
pub(super) fn write_result(text: &str, exit: RunExit) -> RunExit {
    write_verbatim(&make_harmless(text), exit)
}

/// Writes a result that programs read as it is. A reader that has gone away, as behind `head`, is no failure.
pub(super) fn write_verbatim(text: &str, exit: RunExit) -> RunExit {
    let mut out = anstream::stdout().lock();
    // A full disk would else show when the program ends, where nobody looks at it.
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => exit,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => exit,
        Err(error) => cannot_write(&error),
    }
}

fn cannot_write(error: &io::Error) -> RunExit {
    report_error(&format!("cannot write the result: {error}"))
}

/// Writes an answer in the form that was asked for.
pub(super) fn write_answer(format: ReportFormat, page: &ReportPage<'_>, json: &Value, exit: RunExit) -> RunExit {
    let text = match format {
        ReportFormat::Json => format!("{json}\n"),
        _ => page_text(page, format, terminal_width()),
    };
    write_result(&text, exit)
}

pub(super) fn report_warning(warning: &str) {
    say("warning: ", warning);
}

/// Ends the program with what is wrong with its arguments, or with the help that they ask for.
pub(crate) fn refuse_arguments(mut error: clap::Error) -> ! {
    hint_at_own_option(&mut error);
    let text = error.render().to_string();
    // A pipeline may take an argument from a pull request.
    if text.chars().any(|c| c.is_control() && c != '\n') || matches!(make_harmless(&text), Cow::Owned(_)) {
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

/// Options of other scanners (trivy, grype, syft, dive, docker scout), and what is the same here.
const FOREIGN_OPTIONS: [(&str, &str); 9] = [
    ("--json", "--format json"),
    ("--sarif", "--format sarif"),
    ("--severity", "--fail-on SEVERITY"),
    (
        "--exit-code",
        "--fail-on SEVERITY: the exit code is 1 where a finding is that severe",
    ),
    (
        "--ignorefile",
        "`suppress` in cupti-audit.yaml, which cupti-audit config init writes",
    ),
    (
        "--ignore",
        "`suppress` in cupti-audit.yaml, which cupti-audit config init writes",
    ),
    ("-f", "--format FORMAT, or -o FORMAT=FILE"),
    ("--image", "the image alone, without an option"),
    ("--input", "docker-archive:FILE, or the path of the archive alone"),
];

fn hint_at_own_option(error: &mut clap::Error) {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else {
        return;
    };
    let own = FOREIGN_OPTIONS.iter().find(|(foreign, _)| foreign == given);
    if error.kind() == ErrorKind::UnknownArgument
        && let Some((_, own)) = own
    {
        let tip = format!("here this is {own}");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
        error.remove(ContextKind::SuggestedArg);
    }
}

/// Writes to standard error what would be a result, were standard output not something else's.
pub(super) fn write_notice(text: &str) {
    // Where nobody can be told, there is nobody to tell that.
    let _ = anstream::stderr().write_all(make_harmless(text).as_bytes());
}

/// Says what went wrong. All messages pass [`say`], so that no new one can bring what a terminal or the log of a CI system
/// obeys.
pub(crate) fn report_error(error: &dyn std::fmt::Display) -> RunExit {
    say("error: ", &error.to_string());
    RunExit::Open
}

/// The characters of a message that are shown: the one line of a file may have a million.
const SHOWN: usize = 32 << 10;

fn say(kind: &str, text: &str) {
    // The names in it are escaped already: a backslash stays as it is.
    let parts = text.split('\\').map(|part| escape::escape_bytes(part.as_bytes()));
    let line = format!("{kind}{}", parts.collect::<Vec<_>>().join("\\"));
    let line = make_harmless(&line);
    let end = line.char_indices().nth(SHOWN).map(|(end, _)| end);
    let mut stderr = io::stderr().lock();
    // Where nobody can be told, there is nobody to tell that: the exit code says it.
    let _ = match end.and_then(|end| line.split_at_checked(end)) {
        Some((start, rest)) => writeln!(stderr, "{start}… and {} bytes more", rest.len()),
        None => writeln!(stderr, "{line}"),
    };
}

/// Why a command ends without a result.
pub(crate) enum CommandError {
    /// It was said already.
    Said(RunExit),
    /// A sentence that is still to be said.
    Why(String),
}

impl CommandError {
    /// Says what is still to be said.
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
