//! What a shell script makes of its environment before it starts the program that it is for, as far as that can be
//! told without running it (POSIX.1-2017, Shell Command Language).
//!
//! What a command says is not known, nor is what depends on it: a variable that is set there is unknown from then on.

mod arithmetic;
mod builtins;
mod changed_user;
mod commands;
mod compound;
mod conditions;
mod endings;
mod file_changes;
mod grammar;
mod loops;
mod programs;
mod script_run;
mod simple;
mod substitution;
mod syntax;
mod variables;

pub(super) use builtins::{SOURCE, letter_of};
pub(super) use changed_user::{ChangedUser, new_user};
use commands::exported;
pub(super) use programs::is_idle;
use script_run::ScriptRun;
pub use script_run::{CacheChange, FileChange};
pub(super) use script_run::{ScriptFiles, ShellKind, ShellState, StartedProgram, VariableValue};
pub(super) use variables::LOADER;

/// The last program that a script starts, the one that takes its place; else no words, and what the script leaves.
pub(super) fn run_script(script: &str, state: ShellState, files: &dyn ScriptFiles) -> StartedProgram {
    let mut run = ScriptRun::new(files, state);
    run.script(script);
    run.finish();
    let (state, user, ending, cache) = (run.state, run.user, run.ending, run.cache);
    let (cache_folders, changes) = (run.cache_folders, run.changes);
    let left = || StartedProgram {
        words: Vec::new(),
        variables: exported(&state),
        user: None,
        directory: state.directory.clone(),
        cache,
        cache_folders,
        changes: Vec::new(),
        problem: None,
        doubt: None,
    };
    StartedProgram {
        user,
        changes,
        problem: ending.problem,
        doubt: ending.doubt,
        ..run.last.unwrap_or_else(left)
    }
}
