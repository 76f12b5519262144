//! What is known while a script is followed, and what it comes to.

use std::collections::{BTreeMap, BTreeSet};

use super::changed_user::ChangedUser;
use super::endings::ScriptEnding;
use crate::judge::facts::entry_problem::EntryProblem;
use crate::judge::facts::shell_words::ShellToken;

/// What is known of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::judge::facts) enum VariableValue {
    Text(String),
    Unset,
    /// Only a run could tell.
    Unknown,
}

/// The variables of a shell, and which of them the programs get that it starts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::judge::facts) struct ShellState {
    pub variables: BTreeMap<String, VariableValue>,
    /// The variables that are not exported; all others are.
    pub local: Vec<String>,
    /// `$1` and so on, each as far as it is known.
    pub arguments: Vec<Option<String>>,
    /// The options that are set, of `-a` (all is exported), `-e` (what fails ends it) and `-u` (what is not set does).
    pub flags: BTreeSet<char>,
    /// The names that were exported before they had a value.
    pub marked: Vec<String>,
    /// The variables of which only a run could tell whether they are exported.
    pub doubtful: Vec<String>,
    pub kind: ShellKind,
    /// `$0`, as far as it is known.
    pub script: Option<String>,
    /// The working directory, as `$PWD` has it; `None` where only a run could tell.
    pub directory: Option<String>,
}

/// What shells do differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::judge::facts) enum ShellKind {
    /// bash, and not as `sh`: it goes on where a file that it reads cannot be read, which POSIX forbids (2.8.1), and
    /// knows more expansions.
    Bash,
    /// dash, which ends at an option that it does not know.
    Dash,
    /// busybox, or bash as `sh`.
    #[default]
    Other,
}

/// A program that a script starts: its words and what it is started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::judge::facts) struct StartedProgram {
    pub words: Vec<Option<String>>,
    pub variables: BTreeMap<String, VariableValue>,
    /// The user that the script goes on as, if it may: `gosu` stands behind a test of who runs it.
    pub user: Option<ChangedUser>,
    /// The working directory, as far as it is known.
    pub directory: Option<String>,
    /// Why the script ends before it, if so.
    pub problem: Option<EntryProblem>,
    /// Why only a run could tell whether it comes to it.
    pub doubt: Option<String>,
}

/// Reads the files that a script names, each by its path from the root.
pub(in crate::judge::facts) trait ScriptFiles {
    /// The text of a file; `None` where it is not known.
    fn text(&self, path: &str) -> Option<String>;
    /// What `test` says of a file by this letter; `None` where only a run could tell.
    fn test(&self, sign: char, path: &str) -> Option<bool>;
    /// Whether there is a program of this name, by its path or along `PATH`; `None` where only a run could tell.
    fn has_program(&self, name: &str) -> Option<bool>;
    /// The paths that a pattern from the root stands for, sorted; `None` where only a run could tell.
    fn names(&self, pattern: &str) -> Option<Vec<String>>;
    /// Whether a script that is read one after the other with its like may set a variable of the loader.
    fn some_part_sets(&self) -> bool;
}

/// Whether commands are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Doubt {
    Sure,
    /// A program that is run before decides by its success.
    Program,
    /// Only a run could tell.
    Open,
    /// They are certainly not run.
    Skipped,
}

pub(super) struct ScriptRun<'f> {
    pub files: &'f dyn ScriptFiles,
    pub state: ShellState,
    pub functions: BTreeMap<String, Vec<ShellToken>>,
    pub last: Option<StartedProgram>,
    pub user: Option<ChangedUser>,
    pub doubt: Doubt,
    /// Whether the file or function that is read goes on behind a `return`.
    pub returned: Doubt,
    /// Whether the round of a loop goes on behind a `break` or `continue`.
    pub jumped: Doubt,
    pub left: usize,
    pub depth: usize,
    pub ending: ScriptEnding,
    /// What `trap` says for the end.
    pub at_exit: Option<String>,
    /// The last command that failed, as it is shown.
    pub failed: String,
    /// Whether somebody asks for the success of what runs: then `set -e` counts for nothing.
    pub is_tested: bool,
    /// Whether it is a program whose success is not known.
    pub is_of_program: bool,
    /// Whether a program has run that may have made files.
    pub has_started: bool,
}

/// What a command says of its success; `None` where only a run could tell.
pub(super) type Success = Option<bool>;

impl ShellState {
    pub(super) fn is_bash(&self) -> bool {
        self.kind == ShellKind::Bash
    }
}

impl Doubt {
    /// Whether only a run could tell.
    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::Program | Self::Open)
    }
}
