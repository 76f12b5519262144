//! `explain`: explains a rule, a pasted error, or the errors in a log.

use std::ffi::OsString;
use std::io::{self, BufRead, IsTerminal as _, Read as _};
use std::path::Path;

use crate::cli::config::load::load_with_errors;
use crate::cli::option_values::{COLOR, one_of};
use crate::cli::shared_args::ConfigArgs;
use crate::cli::terminal::{CommandError, terminal_width, write_result};
use crate::judge::log_errors::{FoundError, add_line};
use crate::judge::outcome::RunExit;
use crate::knowledge::Knowledge;
use crate::knowledge::known_errors::KnownErrors;
use crate::knowledge::mistake::suggestion;
use crate::report::explain::{errors_json, errors_text, rule_json};
use crate::report::rules::explain_rule;
use crate::report::{PLAIN_FORMATS, ReportFormat};
use anstream::ColorChoice;
use anstream::adapter::strip_bytes;
use clap::Args;
use image_linkage::escape::escape_bytes;

const HELP: &str = "\
Without an argument, or with `-`, it reads a log from standard input and explains each known error in it once.

Exit codes:
  0  explained
  2  nothing known was found

Examples:
  cupti-audit explain cupti-absent
  cupti-audit explain 'libcupti.so.12: cannot open shared object file'
  cupti-audit explain CUPTI_ERROR_INSUFFICIENT_PRIVILEGES
  cupti-audit explain 999
  kubectl logs JOB | cupti-audit explain";

/// The number of bytes of a line that are searched together. A longer line is split.
const LINE: u64 = 64 << 10;
/// The number of characters of a question that are shown.
const SHOWN: usize = 120;

/// Explain a rule, an error message or an error number of CUPTI
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct ExplainArgs {
    /// Rule id, error message, or error number of CUPTI
    #[arg(value_name = "ID|ERROR|NUMBER")]
    asked: Vec<OsString>,
    /// Format of the answer
    #[arg(long, default_value = "text", value_parser = one_of(&PLAIN_FORMATS))]
    format: ReportFormat,
    /// When to use colours; `NO_COLOR` is respected
    #[arg(long, value_parser = one_of(&COLOR), default_value = "auto", value_name = "WHEN")]
    color: ColorChoice,
    #[command(flatten)]
    own: ConfigArgs,
}

impl ExplainArgs {
    /// Explains the question, or the errors of a log.
    pub fn run(self) -> Result<RunExit, CommandError> {
        let (knowledge, known) = load_with_errors(&self.own)?;
        let asked = self.asked.join(" ".as_ref());
        let question = asked.to_string_lossy();
        if let Some(rule) = knowledge.rule(&question) {
            let phases = &knowledge.phases;
            return Ok(self.answer(
                || explain_rule(rule, phases, terminal_width()),
                || rule_json(rule, phases),
            ));
        }
        let found = match question.as_ref() {
            "" if io::stdin().is_terminal() => {
                return Err("nothing to explain; name a rule, an error or a number, or pipe a log in".into());
            }
            "" | "-" => read_log(&mut io::stdin().lock(), &known)?,
            _ => explain_question(asked.as_encoded_bytes(), &known)
                .ok_or_else(|| unknown(&question, &knowledge, &known))?,
        };
        let rules = &knowledge.rules;
        Ok(self.answer(
            || errors_text(&found, rules, terminal_width()),
            || errors_json(&found, rules),
        ))
    }

    fn answer(&self, text: impl Fn() -> String, json: impl Fn() -> serde_json::Value) -> RunExit {
        let answer = match self.format {
            ReportFormat::Json => format!("{}\n", json()),
            _ => text(),
        };
        write_result(&answer, RunExit::Clean)
    }
}

/// The result with a number, or the errors in a text; `None` if none is known.
fn explain_question<'k>(question: &[u8], known: &'k KnownErrors) -> Option<Vec<FoundError<'k>>> {
    let number = std::str::from_utf8(question).ok().and_then(|text| text.parse().ok());
    if let Some(number) = number {
        let (error, lines) = (known.of_number(number)?, None);
        return Some(vec![FoundError { error, lines }]);
    }
    let mut found = find_errors(&mut &*question, known).ok()?;
    // The line number of a single line tells nothing.
    if !question.trim_ascii().contains(&b'\n') {
        for one in &mut found {
            one.lines = None;
        }
    }
    (!found.is_empty()).then_some(found)
}

/// The errors in a log.
///
/// Errors: The log cannot be read, or contains no known error.
fn read_log<'k>(log: &mut impl BufRead, known: &'k KnownErrors) -> Result<Vec<FoundError<'k>>, String> {
    let found = find_errors(log, known).map_err(|error| format!("cannot read standard input: {error}"))?;
    if found.is_empty() {
        return Err(format!("the log contains no known error; {NEXT}"));
    }
    Ok(found)
}

/// The next step if an error is unknown.
const NEXT: &str = "to find the cause, run cupti-audit IMAGE, or cupti-audit verify in the running container";

/// The errors in the lines: the causes, then what follows from them, each in the order of their first lines.
fn find_errors<'k>(log: &mut impl BufRead, known: &'k KnownErrors) -> io::Result<Vec<FoundError<'k>>> {
    let (mut found, mut ended, mut bytes) = (Vec::new(), 0, Vec::new());
    while log.take(LINE).read_until(b'\n', &mut bytes)? > 0 {
        // A progress bar overwrites itself with carriage returns.
        for line in bytes.split(|byte| *byte == b'\r') {
            add_line(&mut found, known, ended + 1, &strip_bytes(line).into_vec());
        }
        ended += u64::from(bytes.ends_with(b"\n"));
        bytes.clear();
    }
    found.sort_by_key(|one: &FoundError<'_>| one.error.follows);
    Ok(found)
}

/// The message that a question is unknown, with similar names.
fn unknown(question: &str, knowledge: &Knowledge, known: &KnownErrors) -> String {
    let rules = knowledge.rules.iter().map(|rule| rule.id.as_str());
    let results = known.errors.iter().filter(|error| error.number.is_some());
    let names: Vec<&str> = rules.chain(results.map(|error| error.error.as_str())).collect();
    let beginning: String = question.chars().take(SHOWN).collect();
    let shown = escape_bytes(beginning.as_bytes());
    if Path::new(question).is_file() {
        return format!("{shown} is a file; a log is read from standard input: cupti-audit explain < FILE");
    }
    format!(
        "nothing is known of \"{shown}\"{}; {NEXT}",
        suggestion(question, &names)
    )
}
