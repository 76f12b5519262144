//! Programs that a script runs on its way: what can be foretold of their success by the files that they are given.

use std::rc::Rc;

use super::commands::exported;
use super::script_run::{CacheChange, Doubt, ScriptRun, ShellKind, ShellState, Success, VariableValue};
use crate::judge::facts::python::is_interpreter_name;

/// The folders of `PATH` that are looked into.
const FOLDERS: usize = 256;
/// How deep scripts that are run on the way are followed in each other.
const INNER: usize = 6;
/// The commands that are followed of such a script, and how many substitutions a Python counts for.
const INNER_COMMANDS: usize = 200;
const PYTHON: usize = 10;

/// Programs that only say something, or change files that are there: no script is for them.
const HARMLESS: [&str; 67] = [
    "awk",
    "basename",
    "cat",
    "chgrp",
    "chmod",
    "chown",
    "cmp",
    "cp",
    "cut",
    "date",
    "df",
    "dircolors",
    "diff",
    "dirname",
    "du",
    "egrep",
    "expr",
    "fgrep",
    "find",
    "free",
    "getent",
    "grep",
    "head",
    "hostname",
    "id",
    "install",
    "jq",
    "ldconfig",
    "lesspipe",
    "ln",
    "ls",
    "md5sum",
    "mesg",
    "mkdir",
    "mkfifo",
    "mktemp",
    "mountpoint",
    "mv",
    "nproc",
    "ping",
    "printenv",
    "ps",
    "readlink",
    "realpath",
    "rm",
    "rmdir",
    "sed",
    "seq",
    "sha256sum",
    "sleep",
    "sort",
    "stat",
    "stty",
    "tail",
    "tee",
    "touch",
    "tput",
    "tr",
    "tty",
    "uname",
    "uniq",
    "wc",
    "which",
    "whoami",
    "yes",
    "nvidia-smi",
    "clear",
];
/// Those that make no file, but where their output is led into one.
const MAKES_FILES: [&str; 13] = [
    "awk", "cp", "install", "ldconfig", "ln", "mkdir", "mkfifo", "mktemp", "mv", "sed", "sort", "tee", "touch",
];
/// Those that are run to be asked: that they fail is an answer.
const ASKING: [&str; 13] = [
    "cmp",
    "diff",
    "egrep",
    "expr",
    "fgrep",
    "getent",
    "grep",
    "mountpoint",
    // Without the host's driver it fails.
    "nvidia-smi",
    "pgrep",
    "pidof",
    "ping",
    "tty",
];
/// Those of the following whose words are files, but for options.
const FILES_ALONE: [&str; 9] = ["cat", "chgrp", "chmod", "chown", "cp", "md5sum", "mv", "rm", "rmdir"];
/// The harmless ones that are run to pass time.
const WAITING: [&str; 3] = ["sleep", "tail", "yes"];
/// Those that fail without a file that they are given, and how many words in front of the files are none.
const READING: [(&str, usize); 22] = [
    ("cat", 0),
    ("chgrp", 1),
    ("chmod", 1),
    ("chown", 1),
    ("cp", 0),
    ("egrep", 1),
    ("fgrep", 1),
    ("grep", 1),
    ("head", 0),
    ("install", 0),
    ("jq", 1),
    ("ls", 0),
    ("md5sum", 0),
    ("mv", 0),
    ("rm", 0),
    ("rmdir", 0),
    ("sed", 1),
    ("sha256sum", 0),
    ("sort", 0),
    ("stat", 0),
    ("tail", 0),
    ("wc", 0),
];

impl ScriptRun<'_> {
    /// Runs a program: it is taken to succeed where nothing speaks against that.
    pub(super) fn run_program(
        &mut self,
        assignments: &[(String, VariableValue)],
        fields: &[Option<String>],
    ) -> Success {
        let known = fields.first().and_then(Option::as_deref);
        if let Some(name) = known
            && self.has_program(name) == Some(false)
        {
            self.ending.miss(fields);
            return Some(false);
        }
        let name = known.map_or("", last_part);
        let (foretold, asks) = self.foretell_inner(inner_command(fields));
        self.change_cache(name, fields);
        self.change_files(name, fields.get(1..).unwrap_or_default());
        if never_ends(name, fields) {
            self.remember(fields);
            self.end(format!("`{}` comes to no end", self.failed));
        }
        self.asks = foretold.is_none() && (asks || ASKING.contains(&name) || may_exit(name, fields));
        self.start(assignments, fields);
        self.say_program(name, fields.get(1..).unwrap_or_default());
        // Without a command it says what its variables are.
        let is_list = name == "env" && fields.iter().skip(1).flatten().all(|word| word.contains('='));
        self.has_started |= !is_harmless(name) && !is_list || MAKES_FILES.contains(&name);
        self.is_beside &= is_harmless(name) && !WAITING.contains(&name);
        self.is_of_program = foretold.is_none() && !self.asks;
        foretold
    }

    /// `ldconfig` makes the cache anew, from folders that the image names where nothing has changed them.
    fn change_cache(&mut self, name: &str, fields: &[Option<String>]) {
        self.changes_paths |= fields.iter().flatten().any(|word| word.contains("ld.so.conf"));
        if name != "ldconfig" || self.doubt == Doubt::Skipped {
            return;
        }
        let words: Vec<&str> = fields
            .iter()
            .skip(1)
            .map(|word| word.as_deref().unwrap_or("-"))
            .collect();
        if matches!(words.as_slice(), ["-p" | "--print-cache"]) {
            return;
        }
        // Relative folders it refuses.
        let is_plain = words.iter().all(|word| word.starts_with('/')) && !self.changes_paths;
        let change = if is_plain && self.doubt == Doubt::Sure {
            self.cache_folders = words.into_iter().map(str::to_owned).collect();
            CacheChange::Remade
        } else {
            CacheChange::Unknown
        };
        self.cache = self.cache.max(change);
    }

    /// Whether there is a program of this name; a program that ran before may have brought it.
    pub(super) fn has_program(&self, name: &str) -> Option<bool> {
        // A relative path begins where the script has gone.
        let found = match self.path(name).filter(|_| name.contains('/')) {
            Some(path) => self.files.has_program(&path)?,
            None if name.contains('/') => return None,
            None => self.is_on_path(name)?,
        };
        let may_be_function = self.has_unknown && !name.contains('/');
        Some(found).filter(|found| *found || !self.has_started && !may_be_function)
    }

    /// Whether a program is found along `PATH`, as the script has it.
    fn is_on_path(&self, name: &str) -> Option<bool> {
        let VariableValue::Text(path) = self.value("PATH") else {
            return self.files.has_program(name);
        };
        let has = |folder: &str| self.files.has_program(&self.path(&format!("{folder}/{name}"))?);
        let found: Vec<Option<bool>> = path.split(':').take(FOLDERS).map(has).collect();
        if found.contains(&Some(true)) {
            return Some(true);
        }
        // What no folder of it has, the host or the shell itself may have.
        let is_nowhere = !found.contains(&None);
        is_nowhere
            .then_some(false)
            .or_else(|| self.files.has_program(name).filter(|found| !found))
    }

    /// What a program, a script or a Python says of its success, and whether it is asked for what only a run could tell.
    fn foretell_inner(&self, fields: &[Option<String>]) -> (Success, bool) {
        let Some(known) = fields.first().and_then(Option::as_deref) else {
            return (None, false);
        };
        let name = last_part(known);
        if is_interpreter_name(name.as_bytes()) {
            let left = self.substitutions.get().checked_sub(PYTHON);
            self.substitutions.set(left.unwrap_or_default());
            let fails = left.is_some() && self.files.python_fails(fields, &exported(&self.state));
            return (fails.then_some(false), false);
        }
        if let Some(said) = self.foretell_script(known, fields) {
            return said;
        }
        (self.foretell(name, fields.get(1..).unwrap_or_default()), false)
    }

    /// The same for a shell with its text or its script, and for a script that is started by its name.
    fn foretell_script(&self, known: &str, fields: &[Option<String>]) -> Option<(Success, bool)> {
        let given: Option<Vec<String>> = fields.iter().cloned().collect();
        let mut words = given?.into_iter().skip(1).peekable();
        let mut state = self.state.clone();
        state.flags.clear();
        let text = if let Some(kind) = shell_of(last_part(known)) {
            state.kind = kind;
            let mut is_text = false;
            while let Some(option) = words.next_if(|word| word.starts_with('-')) {
                if option.contains(['l', 'i', 'o', 's']) {
                    return None;
                }
                is_text |= option.contains('c');
                state
                    .flags
                    .extend("aeu".chars().filter(|letter| option.contains(*letter)));
            }
            let word = words.next()?;
            let path = self.path(&word).filter(|_| !is_text);
            if path
                .as_ref()
                .is_some_and(|path| self.file_test('r', path) == Some(false))
            {
                return Some((Some(false), false));
            }
            if is_text {
                words.next();
            }
            path.map_or(Some(word), |path| self.files.text(&path))?
        } else {
            let path = self.path(known).filter(|_| known.contains('/'))?;
            if self.file_test('x', &path) == Some(false) {
                return Some((Some(false), false));
            }
            let text = self.files.text(&path)?;
            let line = text.strip_prefix("#!")?.lines().next()?.trim();
            let (interpreter, argument) = line.split_once(' ').unwrap_or((line, ""));
            if self.has_program(interpreter) == Some(false) {
                return Some((Some(false), false));
            }
            state.flags.extend(
                argument
                    .chars()
                    .filter(|letter| argument.starts_with('-') && "aeu".contains(*letter)),
            );
            state.kind = shell_of(last_part(
                if argument.starts_with('-') { interpreter } else { line }.trim(),
            ))
            .or_else(|| shell_of(argument))?;
            text
        };
        state.arguments = words.map(Some).collect();
        state.variables = exported(&self.state);
        state.local.clear();
        Some(self.follow_inner(&text, state))
    }

    /// Follows a script that is run on the way, for its success alone.
    fn follow_inner(&self, text: &str, state: ShellState) -> (Success, bool) {
        let left = self.substitutions.get();
        if left == 0 || self.depth >= INNER {
            return (None, false);
        }
        self.substitutions.set(left - 1);
        let mut inner = ScriptRun::new(self.files, state);
        inner.substitutions = Rc::clone(&self.substitutions);
        (inner.left, inner.depth, inner.has_started) =
            (self.left.min(INNER_COMMANDS), self.depth + 1, self.has_started);
        inner.script(text);
        let success = if inner.ending.is_over {
            inner.ending.success
        } else {
            inner.status
        };
        let asks = inner.ending.is_doubtful();
        (success.filter(|success| !success && !asks), asks)
    }

    /// What a program says of its success, where its files decide.
    fn foretell(&self, name: &str, rest: &[Option<String>]) -> Success {
        let has = |letter: char| {
            let mut options = rest
                .iter()
                .flatten()
                .filter(|word| word.starts_with('-') && !word.starts_with("--"));
            options.any(|word| word.contains(letter))
        };
        let mut paths = self.operands(rest);
        match name {
            "true" => Some(true),
            "false" => Some(false),
            "find" => {
                let first = rest.first().and_then(Option::as_deref).and_then(|word| self.path(word));
                first
                    .is_some_and(|path| self.file_test('e', &path) == Some(false))
                    .then_some(false)
            }
            "ln" if !has('f') && paths.last().is_some_and(|path| self.file_test('f', path) == Some(true)) => {
                Some(false)
            }
            "mkdir" if has('p') || rest.iter().flatten().any(|word| word == "--parents") => {
                Some(!paths.iter().any(|path| self.cannot_make_all(path)))
            }
            "mkdir" => paths
                .iter()
                .any(|path| self.file_test('e', path) == Some(true) || self.cannot_write(path))
                .then_some(false),
            "ln" => Some(!paths.last().is_some_and(|path| self.cannot_write(path))),
            "ldconfig" => Some(self.files.is_root() || rest.iter().flatten().any(|word| word == "-p")),
            "sed" if has('i') && paths.iter().any(|path| self.cannot_remove(path)) => Some(false),
            "touch" => paths.iter().any(|path| self.cannot_write(path)).then_some(false),
            "rm" if has('f') => Some(!paths.iter().any(|path| self.cannot_remove(path))),
            "rm" | "rmdir" if paths.iter().any(|path| self.cannot_remove(path)) => Some(false),
            "chown" | "chgrp" | "chmod" if self.cannot_change(name, rest) => Some(false),
            "grep" | "fgrep" | "egrep" if let Some(holds) = self.greps(name, rest) => Some(holds),
            _ => {
                let (_, skipped) = READING.iter().find(|(known, _)| *known == name)?;
                // The words of a program in the place of a file are none.
                let is_told = *skipped > 0 && (has('e') || has('f')) && !name.starts_with("ch");
                let words = if is_told { 0 } else { *skipped };
                let files = behind_words(rest, words);
                paths = if FILES_ALONE.contains(&name) {
                    let names = files.iter().flatten().filter(|word| !word.starts_with('-'));
                    names.filter_map(|word| self.path(word)).collect()
                } else {
                    self.operands(files)
                };
                if matches!(name, "cp" | "install" | "mv") {
                    let to = paths.pop();
                    if to.is_some_and(|to| self.cannot_write(&to)) {
                        return Some(false);
                    }
                }
                let is_gone = |path: &String| self.file_test('e', path) == Some(false);
                paths.iter().any(is_gone).then_some(false)
            }
        }
    }

    /// The paths among the words of a command, as far as they show that they are some.
    fn operands(&self, words: &[Option<String>]) -> Vec<String> {
        let words = words.iter().flatten();
        let paths = words.filter(|word| !word.starts_with('-') && word.contains('/'));
        paths.filter_map(|word| self.path(word)).collect()
    }
}

/// Whether a text that a Python is given may end it with a failure.
fn may_exit(name: &str, fields: &[Option<String>]) -> bool {
    let ends = |text: &Option<String>| {
        let text = text.as_deref().unwrap_or("exit(");
        ["exit(", "raise ", "assert ", "SystemExit"]
            .iter()
            .any(|word| text.contains(word))
    };
    let mut words = fields.iter().skip_while(|word| word.as_deref() != Some("-c")).skip(1);
    is_interpreter_name(name.as_bytes()) && words.next().is_some_and(ends)
}

/// The shell of a name, where its language is known by that.
fn shell_of(name: &str) -> Option<ShellKind> {
    match name {
        "bash" => Some(ShellKind::Bash),
        "dash" => Some(ShellKind::Dash),
        "sh" | "ash" => Some(ShellKind::Other),
        _ => None,
    }
}

/// The words of the program that others start: `env NAME=VALUE`, `timeout TIME`, `nice`.
fn inner_command(fields: &[Option<String>]) -> &[Option<String>] {
    let own = |word: &Option<String>| word.as_deref().is_none_or(|word| word.starts_with('-'));
    let Some((Some(name), rest)) = fields.split_first() else {
        return fields;
    };
    let inner = match last_part(name) {
        "env" => rest
            .iter()
            .position(|word| !word.as_deref().is_some_and(|word| word.contains('='))),
        "timeout" => Some(1),
        "nice" | "nohup" | "setsid" | "ionice" | "command" => Some(0),
        _ => None,
    };
    let inner = inner
        .and_then(|at| rest.get(at..))
        .filter(|inner| inner.first().is_some_and(|word| !own(word)));
    // An option in front takes words that are not counted here.
    inner.filter(|_| !rest.first().is_some_and(own)).unwrap_or(fields)
}

/// Whether a program that only passes time is told to do so for ever.
fn never_ends(name: &str, fields: &[Option<String>]) -> bool {
    let mut words = fields.iter().skip(1).flatten();
    match name {
        "sleep" => words.any(|word| word.starts_with("inf")),
        "tail" => words.any(|word| matches!(word.as_str(), "-f" | "-F" | "-fn0" | "--follow")),
        _ => false,
    }
}

/// The words behind the first of those that are no options.
fn behind_words(words: &[Option<String>], count: usize) -> &[Option<String>] {
    let is_operand = |word: &Option<String>| word.as_deref().is_none_or(|word| !word.starts_with('-'));
    let mut places = words.iter().enumerate().filter(|(_, word)| is_operand(word));
    let at = count
        .checked_sub(1)
        .and_then(|before| places.nth(before))
        .map_or(0, |(at, _)| at + 1);
    words.get(at..).unwrap_or_default()
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Whether a script is not for a program, whatever else it runs.
pub(super) fn is_harmless(program: &str) -> bool {
    HARMLESS.contains(&last_part(program))
}

/// Whether a program says something or waits, and starts no other.
pub(in crate::judge::facts) fn is_idle(program: &str) -> bool {
    let name = last_part(program);
    let says = matches!(name, "echo" | "false" | "printf" | "pwd" | "true");
    says || is_harmless(name) && !matches!(name, "awk" | "find" | "install" | "ldconfig" | "sed" | "sort")
}
