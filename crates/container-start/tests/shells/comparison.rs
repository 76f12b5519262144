//! Compares what was read from a case's files with what a real run did.

use std::path::Path;

use container_start::{ContainerStart, Environment, LOADER_VARIABLES, StartedProgram, Value, ValuePiece};

use super::real_root::resolve_in;
use super::real_run::RealStart;

/// How well a real start was foreseen, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Agreement {
    /// One environment, it is the real one, and nothing was assumed.
    Proved,
    /// The real environment is one of several.
    OneOfSeveral,
    /// The real environment, under an assumption.
    AssumedRight,
    /// The real environment fits around unknown parts.
    Open,
    /// Some variables are partly unknown and their known parts do not fit; all others are the real ones.
    OpenMisfit,
    /// Another environment, or no such program, but an assumption says so.
    Assumed,
    /// Another environment, or no such program, and not a word about it.
    Silent,
}

/// Judges each real start; the worst counts, and a run without one is `Proved`.
pub fn compare(start: &ContainerStart, real: &[RealStart], roots: &[&Path]) -> Agreement {
    let all = real.iter().map(|real| compare_one(start, real, roots));
    all.max().unwrap_or(Agreement::Proved)
}

fn compare_one(start: &ContainerStart, real: &RealStart, roots: &[&Path]) -> Agreement {
    let path = resolve_in(roots, &real.path);
    let is_same = |program: &&StartedProgram| match &program.path {
        Some(called) => *called == real.path || (path.is_some() && resolve_in(roots, called) == path),
        None => is_unknown_name(program, real),
    };
    let is_misfit = start.programs.iter().filter(is_same).any(|program| {
        let mut environments = program.environments.iter();
        environments.any(|environment| is_fitting(environment, real, is_unknown_or))
    });
    let best = start
        .programs
        .iter()
        .filter(is_same)
        .filter_map(|program| fit(program, real))
        .min();
    let has_assumption = start.is_cut_short || start.programs.iter().any(|program| !program.assumptions.is_empty());
    best.unwrap_or(if has_assumption {
        Agreement::Assumed
    } else if is_misfit {
        Agreement::OpenMisfit
    } else {
        Agreement::Silent
    })
}

/// Whether a program without a path may be this one: a part of its name, or of the folder that it starts from, is unknown.
fn is_unknown_name(program: &StartedProgram, real: &RealStart) -> bool {
    program.words.first().is_none_or(|name| match name.text() {
        Some(name) => {
            program.directory.hole().is_some()
                && name.contains('/')
                && real.path.ends_with(name.trim_start_matches('.'))
        }
        None => true,
    })
}

/// How the program's environments fit the real one; `None` where none does.
fn fit(program: &StartedProgram, real: &RealStart) -> Option<Agreement> {
    let fitting: Vec<&Environment> = program
        .environments
        .iter()
        .filter(|environment| is_fitting(environment, real, is_value))
        .collect();
    let is_known = |environment: &&&Environment| {
        let values = LOADER_VARIABLES
            .iter()
            .filter_map(|name| environment.variables.get(*name));
        values.into_iter().all(|value| value.hole().is_none())
    };
    let is_exact = fitting.iter().any(|environment| is_known(&environment)) && program.path.is_some();
    match fitting.is_empty() {
        true => None,
        false if !is_exact => Some(Agreement::Open),
        false if !program.assumptions.is_empty() => Some(Agreement::AssumedRight),
        false if program.environments.len() > 1 => Some(Agreement::OneOfSeveral),
        false => Some(Agreement::Proved),
    }
}

fn is_fitting(environment: &Environment, real: &RealStart, is_equal: fn(&Value, &str) -> bool) -> bool {
    let mut pairs = LOADER_VARIABLES.iter().zip(&real.variables);
    pairs.all(|(name, real)| match (environment.variables.get(*name), real) {
        (None, None) => true,
        (Some(value), Some(real)) => is_equal(value, real),
        // A variable that is unknown as a whole may be unset.
        (Some(value), None) => matches!(&*value.pieces, [ValuePiece::Hole(_)]),
        (None, Some(_)) => false,
    })
}

/// Whether the text is this value, or a part of the value is unknown.
fn is_unknown_or(value: &Value, text: &str) -> bool {
    value.hole().is_some() || is_value(value, text)
}

/// Whether the text can be this value: its known pieces stand in it in their order, with anything in the holes.
fn is_value(value: &Value, text: &str) -> bool {
    let mut rest = text;
    let mut after_hole = false;
    for (number, piece) in value.pieces.iter().enumerate() {
        let ValuePiece::Text(known) = piece else {
            after_hole = true;
            continue;
        };
        let is_last = number + 1 == value.pieces.len();
        let next = match after_hole {
            false => rest.strip_prefix(known.as_str()),
            true if is_last => rest.ends_with(known.as_str()).then_some(""),
            true => rest.split_once(known.as_str()).map(|(_, after)| after),
        };
        let Some(next) = next else { return false };
        rest = next;
        after_hole = false;
    }
    after_hole || rest.is_empty()
}
