//! What a shell script makes of its environment before it starts the program that it is for, as far as that can be
//! told without running it (POSIX.1-2017, Shell Command Language).
//!
//! What a command says is not known, nor is what depends on it: a variable that is set there is unknown from then on.

mod builtins;
mod changed_user;
mod commands;
mod compound;
mod grammar;
mod loops;
mod variables;

use std::collections::BTreeMap;

use super::shell_words::ShellToken;

pub(super) use changed_user::{ChangedUser, new_user};
use commands::exported;
use grammar::TokenReader;
pub(super) use variables::LOADER;
use variables::UNKNOWN;

/// What is known of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum VariableValue {
    Text(String),
    Unset,
    /// Only a run could tell.
    Unknown,
}

/// The variables of a shell, and which of them the programs get that it starts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ShellState {
    pub variables: BTreeMap<String, VariableValue>,
    /// The variables that are not exported; all others are.
    pub local: Vec<String>,
    /// `$1` and so on, each as far as it is known.
    pub arguments: Vec<Option<String>>,
    pub exports_all: bool,
    /// `set -u`: what is not set ends the script.
    pub must_be_set: bool,
    /// The names that were exported before they had a value.
    pub marked: Vec<String>,
    /// The variables of which only a run could tell whether they are exported.
    pub doubtful: Vec<String>,
    /// Whether the script goes on where a file that it reads cannot be read, as bash does and POSIX forbids (2.8.1).
    pub goes_on_without: bool,
    /// The working directory, as `$PWD` has it; `None` where only a run could tell.
    pub directory: Option<String>,
}

/// A program that a script starts: its words and what it is started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StartedProgram {
    pub words: Vec<Option<String>>,
    pub variables: BTreeMap<String, VariableValue>,
    /// The user that the script goes on as, if it may: `gosu` stands behind a test of who runs it.
    pub user: Option<ChangedUser>,
    /// The working directory, as far as it is known.
    pub directory: Option<String>,
    /// Why the script ends before it, if so.
    pub problem: Option<String>,
}

/// The commands that are followed in one script, those in functions each time.
const COMMANDS: usize = 1_000;

/// Reads the files that a script names, each by its path from the root.
pub(super) trait ScriptFiles {
    /// The text of a file; `None` where it is not known.
    fn text(&self, path: &str) -> Option<String>;
    /// What `test` says of a file by this letter; `None` where only a run could tell.
    fn test(&self, sign: char, path: &str) -> Option<bool>;
    /// The paths that a pattern from the root stands for, sorted; `None` where only a run could tell.
    fn names(&self, pattern: &str) -> Option<Vec<String>>;
    /// Whether a script that is read one after the other with its like may set a variable of the loader.
    fn some_part_sets(&self) -> bool;
}

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
        left: COMMANDS,
        depth: 0,
        is_over: false,
        problem: None,
    };
    run.script(script);
    let (state, user, problem) = (run.state, run.user, run.problem);
    let left = || StartedProgram {
        words: Vec::new(),
        variables: exported(&state),
        user: None,
        directory: state.directory.clone(),
        problem: None,
    };
    StartedProgram {
        user,
        problem,
        ..run.last.unwrap_or_else(left)
    }
}

/// Whether commands are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Doubt {
    Sure,
    /// Only a run could tell.
    Open,
    /// They are certainly not run.
    Skipped,
}

struct ScriptRun<'f> {
    files: &'f dyn ScriptFiles,
    state: ShellState,
    functions: BTreeMap<String, Vec<ShellToken>>,
    last: Option<StartedProgram>,
    user: Option<ChangedUser>,
    doubt: Doubt,
    /// Whether the file or function that is read goes on behind a `return`.
    returned: Doubt,
    left: usize,
    depth: usize,
    /// Whether the script has come to its end: `exec`, `exit`.
    is_over: bool,
    /// Why it has come to its end too early.
    problem: Option<String>,
}

/// What a command says of its success; `None` where only a run could tell.
type Success = Option<bool>;
