//! Compares the start that was read with a real run.

use std::path::Path;

use container_start::{ContainerStart, Environment, LOADER_VARIABLES, StartedProgram, Value, ValuePiece};

use super::real_root::resolve_in;
use super::real_run::RealStart;

/// How well the reading agrees with a real start, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Agreement {
    /// One environment, equal to the real one, without an assumption.
    Proved,
    /// One of several environments equals the real one.
    OneOfSeveral,
    /// The environment equals the real one, under an assumption.
    AssumedRight,
    /// The known parts fit the real environment.
    Open,
    /// The known parts of a partly unknown variable do not fit. All other variables are equal.
    OpenMisfit,
    /// Wrong environment or missing program, but an assumption covers it.
    Assumed,
    /// Wrong environment or missing program, and no assumption.
    Silent,
}

/// Judges each real start and returns the worst result. A run without a start is `Proved`.
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

/// Whether a program without a path may be the real one: part of its name or directory is unknown.
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

/// How well the program's environments fit the real one; `None` if none does.
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
        // A completely unknown variable may be unset.
        (Some(value), None) => matches!(&*value.pieces, [ValuePiece::Hole(_)]),
        (None, Some(_)) => false,
    })
}

/// Whether the value equals the text or is partly unknown.
fn is_unknown_or(value: &Value, text: &str) -> bool {
    value.hole().is_some() || is_value(value, text)
}

/// Whether the value matches the text, with each hole as a wildcard.
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
