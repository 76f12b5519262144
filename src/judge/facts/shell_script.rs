//! What a shell script makes of its environment before it starts the program that it is for, as far as that can be
//! told without running it (POSIX.1-2017, Shell Command Language).
//!
//! What a command says is not known, nor is what depends on it: a variable that is set there is unknown from then on.

mod builtins;
mod changed_user;
mod commands;
mod compound;
mod conditions;
mod endings;
mod grammar;
mod loops;
mod script_run;
mod variables;

use std::collections::BTreeMap;

pub(super) use builtins::letter_of;
pub(super) use changed_user::{ChangedUser, new_user};
use commands::exported;
use endings::ScriptEnding;
use script_run::{Doubt, ScriptRun};
pub(super) use script_run::{ScriptFiles, ShellKind, ShellState, StartedProgram, VariableValue};
pub(super) use variables::LOADER;

/// The commands that are followed in one script, those in functions each time.
const COMMANDS: usize = 1_000;

/// The last program that a script starts, the one that takes its place; else no words, and what the script leaves.
pub(super) fn run_script(script: &str, state: ShellState, files: &dyn ScriptFiles) -> StartedProgram {
    let mut run = ScriptRun {
        files,
        state,
        functions: BTreeMap::new(),
        last: None,
        user: None,
        doubt: Doubt::Sure,
        returned: Doubt::Sure,
        jumped: Doubt::Sure,
        left: COMMANDS,
        depth: 0,
        ending: ScriptEnding::default(),
        at_exit: None,
        failed: String::new(),
        is_tested: false,
        is_of_program: false,
        has_started: false,
    };
    run.script(script);
    run.finish();
    let (state, user, ending) = (run.state, run.user, run.ending);
    let left = || StartedProgram {
        words: Vec::new(),
        variables: exported(&state),
        user: None,
        directory: state.directory.clone(),
        problem: None,
        doubt: None,
    };
    StartedProgram {
        user,
        problem: ending.problem,
        doubt: ending.doubt,
        ..run.last.unwrap_or_else(left)
    }
}
