//! Terminal output: results go to standard output, errors to standard error.

use std::borrow::Cow;
use std::io::{self, Write as _};

use crate::cli::harmless_text::make_harmless;
use crate::judge::outcome::RunExit;
use crate::report::{ReportFormat, page_text};
use crate::report::{ReportPage, wrap_lines};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use image_linkage::escape;
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

/// Exits with the argument error, or with the requested help.
pub(crate) fn refuse_arguments(mut error: clap::Error) -> ! {
    if error.kind() == ErrorKind::UnknownArgument {
        drop_weak_tips(&mut error);
        hint_at_own_option(&mut error);
    }
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

/// Options of other tools (docker, skopeo, trivy, grype, syft, dive), and commands with a word too many, with a tip.
#[rustfmt::skip] // A row is a line.
const TIPS: [(&[&str], &str); 21] = [
    (&["--json"], "here this is --format json"),
    (&["--sarif"], "here this is --format sarif"),
    (&["--severity"], "here this is --fail-on SEVERITY"),
    (&["--exit-code"], "here this is --fail-on SEVERITY: the exit code is 1 where a finding is that severe"),
    (&["--ignore", "--ignorefile"], "here this is `suppress` in cupti-audit.yaml, which cupti-audit config init writes"),
    (&["--image"], "here this is the image alone, without an option"),
    (&["--input"], "here this is docker-archive:FILE, or the path of the archive alone"),
    (&["--arch", "--os"], "here this is --platform OS/ARCH, such as --platform linux/arm64"),
    (&["--insecure", "--tls-verify"], "here this is --insecure-registry HOST"),
    (&["--creds", "--username", "--password", "--registry-token"], "here this is docker login HOST; its stored password is read"),
    (&["--authfile"], "here this is the variable REGISTRY_AUTH_FILE"),
    (&["--entrypoint"], "here this is --command WORDS"),
    (&["-i", "-t", "--rm", "--network", "--shm-size", "--volume"], "no container is started; leave out the options of docker run"),
    (&["--gpus"], "no GPU is needed: leave --gpus out; --gpu NAME, such as --gpu h100, checks if CUPTI fits that GPU"),
    (&["-m"], "--args and --command take a whole command as one word: --args 'python3 -m train'"),
    (&["-f"], "for a Dockerfile: cupti-audit check FILE; for the format of a report: --format FORMAT"),
    (&["--format"], "this command writes no report; leave --format out"),
    (&["advise"], "advise reads no image: name a tool with --tool; for an image: cupti-audit profilers IMAGE"),
    (&["profilers"], "profilers takes only an image; for one tool: cupti-audit IMAGE --tool TOOL"),
    (&["rules"], "rules lists all rules; for one: cupti-audit explain RULE"),
    (&["verify"], "verify audits its own container, and a command follows --; for an image: cupti-audit IMAGE"),
];

/// Removes the tip to write `-- -x`, because no image begins with a dash, and that of an option with another meaning.
fn drop_weak_tips(error: &mut clap::Error) {
    if let Some(ContextValue::StyledStrs(tips)) = error.remove(ContextKind::Suggested) {
        let tips: Vec<_> = tips
            .into_iter()
            .filter(|tip| !tip.to_string().contains("as a value"))
            .collect();
        if !tips.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.trim_start_matches('-').to_owned()),
        _ => None,
    };
    if let (Some(given), Some(meant)) = (text(ContextKind::InvalidArg), text(ContextKind::SuggestedArg))
        && strsim::damerau_levenshtein(&given, &meant) > meant.len() / 3
    {
        error.remove(ContextKind::SuggestedArg);
        // It shows the option, too.
        error.remove(ContextKind::Usage);
    }
}

fn hint_at_own_option(error: &mut clap::Error) {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else {
        return;
    };
    let usage = error
        .get(ContextKind::Usage)
        .map(ToString::to_string)
        .unwrap_or_default();
    // A usage begins with `Usage: cupti-audit COMMAND`.
    let command = usage.split_whitespace().nth(2).filter(|_| !given.starts_with('-'));
    let is_meant = |name: &&str| *name == given || Some(*name) == command;
    if let Some((_, tip)) = TIPS.iter().find(|(names, _)| names.iter().any(is_meant)) {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![(*tip).into()]));
        // The usage shows the option that clap suggests.
        if error.remove(ContextKind::SuggestedArg).is_some() {
            error.remove(ContextKind::Usage);
        }
    }
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
    let parts = text.split('\\').map(|part| escape::escape_bytes(part.as_bytes()));
    let line = format!("{kind}{}", parts.collect::<Vec<_>>().join("\\"));
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
