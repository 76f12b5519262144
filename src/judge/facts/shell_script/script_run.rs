//! What is known while a script is followed, and what it comes to.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::changed_user::ChangedUser;
use super::endings::ScriptEnding;
use crate::judge::facts::entry_problem::EntryProblem;
pub(in crate::judge::facts) use crate::judge::facts::shell_words::ShellKind;
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
    /// The options that are set, of `-a` (all is exported), `-e` (what fails ends it), `-u` (what is not set does), `p` for
    /// `pipefail`, and `x` for `execfail`.
    pub flags: BTreeSet<char>,
    /// The names that were exported before they had a value.
    pub marked: Vec<String>,
    /// The variables of which only a run could tell whether they are exported.
    pub doubtful: Vec<String>,
    /// The variables that may not be set any more.
    pub readonly: BTreeSet<String>,
    /// The arrays of bash, as far as their elements are known.
    pub arrays: BTreeMap<String, Vec<Option<String>>>,
    pub kind: ShellKind,
    /// `$0`, as far as it is known.
    pub script: Option<String>,
    /// The working directory, as `$PWD` has it; `None` where only a run could tell.
    pub directory: Option<String>,
}

/// What becomes of the loader's cache on the way to a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum CacheChange {
    /// It stays as it is in the image.
    #[default]
    Kept,
    /// `ldconfig` makes it anew.
    Remade,
    /// Only a run could tell what it holds.
    Unknown,
}

/// What a script does to a file or folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The path from the root.
    pub path: String,
    /// Whether it is another one behind it, or none; else others may use it.
    pub is_content: bool,
}

impl FileChange {
    /// Whether it is one of a file or of a folder above it.
    pub fn covers(&self, path: &str) -> bool {
        let rest = path.strip_prefix(self.path.trim_end_matches('/'));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
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
    pub cache: CacheChange,
    /// The folders that went into the cache beside those of the configuration.
    pub cache_folders: Vec<String>,
    /// What the script does to files.
    pub changes: Vec<FileChange>,
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
    /// A path without links; `None` where it is not in the image.
    fn real_path(&self, path: &str) -> Option<String>;
    /// Whether the script is run by root, who may change what others own.
    fn is_root(&self) -> bool;
    /// Whether a Python that is started with these words fails for sure.
    fn python_fails(&self, words: &[Option<String>], variables: &BTreeMap<String, VariableValue>) -> bool;
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

#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a question that the commands of a script answer on their way"
)]
pub(super) struct ScriptRun<'f> {
    pub files: &'f dyn ScriptFiles,
    pub state: ShellState,
    pub functions: BTreeMap<String, Rc<[ShellToken]>>,
    /// What `local` puts back behind the function that is run: name, value, whether it is exported.
    pub locals: Vec<(String, Option<VariableValue>, bool)>,
    /// Whether functions may be there that nothing is known of.
    pub has_unknown: bool,
    /// How many files are read in each other.
    pub sources: usize,
    /// How many functions are run in each other.
    pub calls: usize,
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
    /// Whether what ran last was run to learn what only a run could tell: `grep`, `read`.
    pub asks: bool,
    /// What the last command says of its success: `$?`.
    pub status: Success,
    /// Whether a program is started for sure, on the way that is followed.
    pub begun: bool,
    /// Whether what runs stands behind `||`.
    pub is_fallback: bool,
    pub cache: CacheChange,
    /// The folders that ldconfig is given beside those of its configuration.
    pub cache_folders: Vec<String>,
    /// Whether what ldconfig reads may have been changed.
    pub changes_paths: bool,
    /// What is done to files on the way.
    pub changes: Vec<FileChange>,
    /// What is said on the standard output, as far as it is known.
    pub output: Option<String>,
    /// The substitutions of commands that may still be followed.
    pub substitutions: Rc<Cell<usize>>,
    /// The bytes of scripts that may still be read.
    pub texts: Rc<Cell<usize>>,
    /// Whether a program has run that may have made files.
    pub has_started: bool,
    /// Whether the program that was started last is run to be asked: what comes behind it is what the script is for.
    pub last_asks: bool,
    /// Whether the program that was started last runs beside the script, which has waited for nothing since.
    pub is_beside: bool,
}

/// What a command says of its success; `None` where only a run could tell.
pub(super) type Success = Option<bool>;

impl<'f> ScriptRun<'f> {
    pub(super) fn new(files: &'f dyn ScriptFiles, state: ShellState) -> Self {
        Self {
            files,
            state,
            functions: BTreeMap::new(),
            locals: Vec::new(),
            has_unknown: false,
            sources: 0,
            calls: 0,
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
            asks: false,
            status: Some(true),
            begun: false,
            is_fallback: false,
            cache: CacheChange::Kept,
            changes_paths: false,
            changes: Vec::new(),
            output: Some(String::new()),
            substitutions: Rc::new(Cell::new(SUBSTITUTIONS)),
            texts: Rc::new(Cell::new(TEXTS)),
            has_started: false,
            is_beside: false,
            last_asks: false,
            cache_folders: Vec::new(),
        }
    }
}

/// The commands that are followed in one script, those in functions each time.
const COMMANDS: usize = 1_000;
/// The substitutions of commands that are followed in one script.
const SUBSTITUTIONS: usize = 500;
/// The bytes that are read of one script and of those that it reads, each time.
const TEXTS: usize = 64 << 20;
/// The bytes of variables, arrays and arguments that are followed; Linux gives a program 2 MiB of them (execve(2)).
const STATE: usize = 1 << 20;

impl ShellState {
    pub(super) fn is_bash(&self) -> bool {
        self.kind == ShellKind::Bash
    }

    /// Whether there is more in it than is followed: every pipeline and every substitution has its own.
    pub(super) fn is_too_large(&self) -> bool {
        let of_variable = |(name, value): (&String, &VariableValue)| match value {
            VariableValue::Text(text) => name.len() + text.len(),
            VariableValue::Unset | VariableValue::Unknown => name.len(),
        };
        let variables: usize = self.variables.iter().map(of_variable).sum();
        let elements = self.arrays.values().flatten().chain(&self.arguments);
        let elements: usize = elements
            .map(|element| 1 + element.as_ref().map_or(0, String::len))
            .sum();
        variables + elements > STATE
    }
}

impl Doubt {
    /// Whether only a run could tell.
    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::Program | Self::Open)
    }
}
