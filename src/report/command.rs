//! The programs that the container's command starts, and the verdict's assumptions about it: as lines and as JSON.

use container_start::{Assumption, Environment, Rank, StartedProgram, Value, ValuePiece};
use serde_json::{Map, json};

use super::text_layout::joined;
use crate::facts::ImageFacts;
use image_linkage::escape::escape_bytes;

/// The reported variables of a program: those that affect libraries and modules.
const SHOWN: [&str; 9] = [
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LD_AUDIT",
    "GLIBC_TUNABLES",
    "CUDA_INJECTION64_PATH",
    "NVTX_INJECTION64_PATH",
    "PATH",
    "PYTHONPATH",
    "VIRTUAL_ENV",
];

/// The maximum number of variables in a text line.
const IN_LINES: usize = 4;

/// An assumption in one line: its location and its content.
pub(super) fn assumption_line(assumption: &Assumption) -> String {
    let place = match assumption.line {
        0 => assumption.path.clone(),
        line => format!("{}:{line}", assumption.path),
    };
    escaped(&format!("{place}: {}", assumption.text))
}

/// How to settle an assumption: by passing the missing values, or by accepting it.
pub(super) fn settling_words(assumption: &Assumption) -> String {
    let accept = format!("--accept {}", assumption.id);
    escaped(&match closing_option(assumption) {
        Some(option) => format!("pass {option}, or {accept}"),
        None => accept,
    })
}

/// An assumption and how to settle it, in one line.
pub(super) fn assumption_words(assumption: &Assumption) -> String {
    let (line, settling) = (assumption_line(assumption), settling_words(assumption));
    format!("{line} (to settle it: {settling})")
}

/// The options that settle it by giving the values of a run.
fn closing_option(assumption: &Assumption) -> Option<String> {
    let options = assumption.unset.iter().map(|name| format!("--env {name}=VALUE"));
    Some(joined(options, " ")).filter(|options| !options.is_empty())
}

/// The assumptions as JSON.
pub(super) fn assumptions_json(facts: &ImageFacts) -> serde_json::Value {
    facts.answers.assumptions.iter().map(assumption_json).collect()
}

fn assumption_json(assumption: &Assumption) -> serde_json::Value {
    json!({
        "id": escaped(&assumption.id),
        "path": escaped(&assumption.path),
        "line": assumption.line,
        "text": escaped(&assumption.text),
        "variables": assumption.variables,
        "closes": closing_option(assumption).map(|option| escaped(&option)),
    })
}

/// The programs that the container's command starts.
pub(super) fn programs_json(facts: &ImageFacts) -> serde_json::Value {
    let start = &facts.contexts.as_is.commands.start;
    start.programs.iter().map(program_json).collect()
}

fn program_json(program: &StartedProgram) -> serde_json::Value {
    json!({
        "path": program.path.as_deref().map(escaped),
        "words": program.words.iter().map(value_json).collect::<Vec<_>>(),
        "user": value_json(&program.user),
        "directory": value_json(&program.directory),
        "rank": rank_name(program.rank),
        "started_at": escaped(&program.place),
        "environments": program.environments.iter().map(environment_json).collect::<Vec<_>>(),
    })
}

fn environment_json(environment: &Environment) -> serde_json::Value {
    let mut variables = Map::new();
    for name in SHOWN {
        let value = environment.variables.get(name).map(value_json);
        // The search path is shown even if it is unset, because that is informative.
        if value.is_some() || name == "LD_LIBRARY_PATH" {
            variables.insert(name.to_owned(), value.unwrap_or_default());
        }
    }
    variables.into()
}

/// A value as text, or its parts if some are unknown.
fn value_json(value: &Value) -> serde_json::Value {
    match value.text() {
        Some(text) => json!(escaped(text)),
        None => json!({"unknown_parts": value.pieces.iter().map(piece_json).collect::<Vec<_>>()}),
    }
}

fn piece_json(piece: &ValuePiece) -> serde_json::Value {
    match piece {
        ValuePiece::Text(text) => json!(escaped(text)),
        ValuePiece::Hole(hole) => json!({"at": escaped(&hole.place), "what": escaped(&hole.reason)}),
    }
}

fn rank_name(rank: Rank) -> &'static str {
    match rank {
        Rank::Main => "main",
        Rank::Started => "before",
        Rank::Inside => "inside",
        Rank::Distribution => "distribution",
    }
}

/// The programs as lines, each with its loader variables.
pub(super) fn program_lines(facts: &ImageFacts) -> Vec<String> {
    let start = &facts.contexts.as_is.commands.start;
    let mut lines = Vec::new();
    let config = &facts.image.config;
    if config.command.is_empty() && config.running.is_none() {
        let words = "nothing: the image has no Entrypoint and no Cmd, so `docker run` needs a command";
        lines.push(words.to_owned());
    }
    for program in &start.programs {
        let words = joined(program.words.iter().map(value_text), " ");
        let (user, directory) = (value_text(&program.user), value_text(&program.directory));
        let place = escaped(&program.place);
        lines.push(format!("{words}  (user {user}, in {directory}, from {place})"));
        for environment in &program.environments {
            let shown = SHOWN.iter().take(IN_LINES).filter_map(|name| {
                let value = environment.variables.get(*name)?;
                Some(format!("{name}={}", value_text(value)))
            });
            lines.push(match joined(shown, " ").as_str() {
                "" => "  with no LD_LIBRARY_PATH".to_owned(),
                shown => format!("  with {shown}"),
            });
        }
    }
    lines
}

fn value_text(value: &Value) -> String {
    let pieces = value.pieces.iter().map(|piece| match piece {
        ValuePiece::Text(text) => escaped(text),
        ValuePiece::Hole(hole) => format!("<{}>", escaped(&hole.reason)),
    });
    pieces.collect()
}

fn escaped(text: &str) -> String {
    escape_bytes(text.as_bytes())
}
