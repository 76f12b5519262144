//! The commands of a script by their names: those of the shell itself, functions and programs.

use std::collections::BTreeMap;

use super::changed_user::new_user;
use super::endings::ERROR_TRAP;
use super::grammar::TokenReader;
use super::programs::is_harmless;
use super::script_run::{Doubt, ScriptRun, ShellKind, ShellState, StartedProgram, Success, VariableValue};
use crate::judge::facts::shell_words::ShellToken;
use image_linkage::escape;

impl ScriptRun<'_> {
    /// Runs a command by its name.
    pub(super) fn run(&mut self, assignments: &[(String, VariableValue)], fields: &[Option<String>]) -> Success {
        let (name, rest) = fields.split_first()?;
        let known = name.as_deref().unwrap_or_default();
        let is_readonly = |(name, _): &(String, VariableValue)| self.state.readonly.contains(name);
        if let Some((name, _)) = assignments.iter().find(|assigned| is_readonly(assigned)) {
            let why = format!("{} is read only", escape::escape_bytes(name.as_bytes()));
            if self.state.kind == ShellKind::Dash {
                return self.refuse_as_dash(&why);
            }
            // bash says so, and runs the command all the same.
            let others: Vec<_> = assignments
                .iter()
                .filter(|assigned| !is_readonly(assigned))
                .cloned()
                .collect();
            return self.run(&others, fields);
        }
        if let Some(body) = self.functions.get(known).cloned() {
            return self.call_with(assignments, |run| run.call(known, &body, rest));
        }
        self.run_own(assignments, fields)
    }

    /// Runs a function with variables that it alone has, and hands to what it starts.
    fn call_with(
        &mut self,
        assignments: &[(String, VariableValue)],
        call: impl FnOnce(&mut Self) -> Success,
    ) -> Success {
        let mut before = Vec::new();
        for (name, value) in assignments {
            let value_before = self.state.variables.get(name).cloned();
            let is_exported = value_before.is_some() && !self.state.local.contains(name);
            before.push((name, value_before, is_exported));
            self.assign(name, value.clone());
            self.export(name);
        }
        let success = call(self);
        for (name, value, is_exported) in before.into_iter().rev() {
            self.restore(name, value, is_exported);
        }
        success
    }

    /// Variables in front of a special command of the shell stay (POSIX.1-2017, 2.14); for bash that is so as `sh` alone, and
    /// what it reads with `.` and `eval` has them.
    fn keep_assignments(&mut self, name: &str, assignments: &[(String, VariableValue)]) {
        if !SPECIAL.contains(&name) {
            return;
        }
        for (name, value) in assignments {
            let value = if self.state.is_bash() {
                VariableValue::Unknown
            } else {
                value.clone()
            };
            self.assign(name, value);
        }
    }

    /// Runs a function of the script.
    fn call(&mut self, name: &str, body: &[ShellToken], rest: &[Option<String>]) -> Success {
        let callers = self.enter_function(name);
        let arguments = std::mem::replace(&mut self.state.arguments, rest.to_vec());
        let returned = std::mem::replace(&mut self.returned, Doubt::Sure);
        let locals = std::mem::take(&mut self.locals);
        self.calls += 1;
        let mut success = self.block(&mut TokenReader { tokens: body, at: 0 }, &[]);
        if self.returned == Doubt::Skipped {
            success = self.status;
        }
        self.calls -= 1;
        self.state.arrays.insert(FUNCTIONS.to_owned(), callers);
        for (name, value, is_exported) in std::mem::replace(&mut self.locals, locals).into_iter().rev() {
            self.restore(&name, value, is_exported);
        }
        self.returned = returned;
        self.state.arguments = arguments;
        success
    }

    /// bash has the functions that are run in each other in an array, with `main` at its end; what was in it before.
    fn enter_function(&mut self, name: &str) -> Vec<Option<String>> {
        let callers = self.state.arrays.remove(FUNCTIONS).unwrap_or_default();
        let own = [name.to_owned()].into_iter().map(Some);
        let all = if callers.is_empty() {
            own.chain([Some("main".to_owned())]).collect()
        } else {
            own.chain(callers.iter().cloned()).collect()
        };
        self.state.arrays.insert(FUNCTIONS.to_owned(), all);
        callers
    }

    /// Runs a command that is no function of the script.
    pub(super) fn run_own(&mut self, assignments: &[(String, VariableValue)], fields: &[Option<String>]) -> Success {
        let (name, rest) = fields.split_first()?;
        let known = name.as_deref().unwrap_or_default();
        let begins_with_option = || first_word(rest).is_some_and(|word| word.starts_with('-'));
        self.is_of_program = false;
        self.asks = false;
        if self.is_foreign(known) {
            return self.run_program(assignments, fields);
        }
        if known != "exec" || rest.is_empty() {
            self.keep_assignments(known, assignments);
        }
        match known {
            "true" | ":" | "umask" => Some(true),
            "echo" | "printf" | "pwd" => {
                if known == "printf" && first_word(rest) == Some("-v") {
                    return self.change_variables("read", rest).unwrap_or_default();
                }
                self.say_own(known, rest);
                Some(true)
            }
            "false" => Some(false),
            "[" | "test" => {
                let holds = self.test(rest);
                self.asks = holds.is_none();
                holds
            }
            "cd" => {
                let success = self.change_directory(rest);
                self.is_of_program = success.is_none();
                success
            }
            "." | "source" => {
                let success = self.source(rest);
                self.is_of_program |= success.is_none();
                success
            }
            "exec" => Some(self.exec(assignments, rest)),
            "exit" => {
                self.exit(first_word(rest));
                None
            }
            // bash goes on where it leads out of nothing.
            "return" if self.state.is_bash() && self.calls == 0 && self.sources == 0 => Some(false),
            "return" => {
                if self.doubt == Doubt::Sure
                    && let Some(status) = first_word(rest)
                {
                    self.status = status.parse().ok().map(|number: i64| number == 0);
                }
                self.returned = self.returned.max(self.jump());
                self.status
            }
            "break" | "continue" => {
                self.jumped = self.jumped.max(self.jump());
                None
            }
            "command" | "builtin" if !begins_with_option() => self.run_own(assignments, rest),
            _ if let Some(success) = self.set_up(known, rest) => success,
            "command" | "type" | "which" | "hash" => self.finds(rest),
            _ if let Some(success) = self.change_variables(known, rest) => success,
            _ => self.run_program(assignments, fields),
        }
    }

    /// Runs a command that changes how the shell itself works, or its jobs; nothing where it is another one.
    fn set_up(&mut self, name: &str, rest: &[Option<String>]) -> Option<Success> {
        match name {
            "ulimit" => {
                self.limit(rest);
                Some(Some(true))
            }
            "hash" if first_word(rest) == Some("-p") => {
                self.forget_commands();
                Some(None)
            }
            "let" => {
                self.asks = true;
                Some(None)
            }
            "shopt" if rest.iter().flatten().eq(["-s", "execfail"]) && self.doubt == Doubt::Sure => {
                self.state.flags.insert('x');
                Some(Some(true))
            }
            // What stands behind a pipe is run by the shell itself, or its commands go through a trap.
            "shopt"
                if rest
                    .iter()
                    .flatten()
                    .any(|word| CHANGES_MEANING.contains(&word.as_str())) =>
            {
                self.forget_all();
                Some(Some(true))
            }
            "builtin" | "wait" | "fg" | "shopt" | "enable" | "complete" | "times" | "jobs" | "kill" | "disown" => {
                self.is_beside &= !matches!(name, "wait" | "fg");
                self.is_of_program = true;
                Some(None)
            }
            _ => None,
        }
    }

    /// Whether dash has no such command, and bash has.
    pub(super) fn is_foreign(&self, name: &str) -> bool {
        self.state.kind == ShellKind::Dash && OF_BASH.contains(&name)
    }

    /// Runs a command that changes variables, or what words mean; nothing where it is another one.
    fn change_variables(&mut self, name: &str, rest: &[Option<String>]) -> Option<Success> {
        match name {
            "export" | "declare" | "typeset" | "readonly" | "local" => return Some(self.declare_all(name, rest)),
            "unset" => self.unset_all(rest),
            "set" => self.set(rest),
            "shift" => {
                let count = match rest.first() {
                    Some(None) => None,
                    Some(Some(word)) => word.parse().ok(),
                    None => Some(1),
                };
                let Some(count) = count else {
                    self.state.arguments = vec![None];
                    return Some(None);
                };
                match self.state.arguments.get(count..) {
                    Some(left) => self.state.arguments = left.to_vec(),
                    // More than there are: dash ends at it.
                    None if self.state.is_bash() => return Some(Some(false)),
                    None => return Some(self.refuse_as_dash(&format!("`shift {count}` finds fewer arguments"))),
                }
            }
            "trap" => {
                if !self.trap(rest) {
                    return Some(Some(false));
                }
            }
            // What the words mean from here on.
            "alias" => self.forget_all(),
            "eval" => {
                let words: Option<Vec<String>> = rest.iter().cloned().collect();
                let Some(words) = words.filter(|_| self.depth < EVALUATED) else {
                    self.forget_commands();
                    self.is_of_program = true;
                    return Some(None);
                };
                self.script(&words.join(" "));
                return Some(self.status);
            }
            "pushd" | "popd" => {
                self.forget_all();
                return Some(None);
            }
            "getopts" if !first_word(&self.state.arguments).is_none_or(|word| word.starts_with('-')) => {
                return Some(Some(false));
            }
            "read" | "mapfile" | "readarray" | "getopts" => {
                if rest.contains(&None) {
                    self.forget_all();
                }
                for name in rest.iter().flatten() {
                    self.assign(name, VariableValue::Unknown);
                    self.state.arrays.remove(name);
                }
                self.asks = matches!(name, "read" | "getopts");
                return Some(None);
            }
            _ => return None,
        }
        Some(Some(true))
    }

    /// `trap TEXT SIGNAL…`; whether its shell takes the signals.
    fn trap(&mut self, rest: &[Option<String>]) -> bool {
        // It runs before every command that follows.
        let mut words = rest.iter();
        if words.any(|word| word.as_deref().is_none_or(|word| word == "DEBUG")) {
            self.forget_all();
        }
        let is_foreign = |word: &Option<String>| matches!(word.as_deref(), Some("ERR" | "DEBUG" | "RETURN"));
        if self.state.kind == ShellKind::Dash && rest.iter().skip(1).any(is_foreign) {
            return false;
        }
        let ends = |text: &String| text.split([' ', ';']).any(|word| word == "exit");
        let is_error = |word: &Option<String>| word.as_deref() == Some("ERR");
        if rest.first().and_then(Option::as_ref).is_some_and(ends) && rest.iter().skip(1).any(is_error) {
            self.set_flag(ERROR_TRAP, true);
        }
        let is_end = |word: &Option<String>| matches!(word.as_deref(), Some("EXIT" | "0"));
        if rest.iter().skip(1).any(is_end) {
            self.at_exit = rest.first().cloned().flatten().filter(|text| text != "-");
        }
        true
    }

    /// `ulimit -v SIZE`: whether a program starts within so much memory is for a run to tell.
    fn limit(&mut self, words: &[Option<String>]) {
        let mut words = words
            .iter()
            .map(Option::as_deref)
            .skip_while(|word| !matches!(word, Some("-v" | "-Sv" | "-Hv")));
        if words.next().is_some() && words.next().is_some_and(|size| size != Some("unlimited")) {
            self.may_end("the memory that `ulimit -v` leaves is too little".to_owned());
        }
    }

    /// `exec [COMMAND]`: without one, redirections alone.
    fn exec(&mut self, assignments: &[(String, VariableValue)], rest: &[Option<String>]) -> bool {
        if rest.is_empty() {
            return true;
        }
        // `-c` empties the environment, and `-a` takes a name.
        if first_word(rest).is_some_and(|word| word.starts_with('-')) {
            self.forget_all();
        }
        if let Some(Some(name)) = rest.first()
            && !name.starts_with('-')
            && self.has_program(name) == Some(false)
        {
            if self.state.flags.contains(&'x') {
                return false;
            }
            // Whether something stands behind `||` or not: the shell ends (POSIX.1-2017, 2.14, `exec`).
            self.remember(rest);
            let why = format!("`exec {}` finds no such program in the image", self.failed);
            self.end(why);
            return false;
        }
        self.last = None;
        self.is_beside = false;
        self.take_place(assignments, rest);
        self.ending.is_over = self.doubt == Doubt::Sure;
        if self.ending.is_over {
            self.at_exit = None;
        }
        true
    }

    /// Goes through what stands behind the end of the script, for the program that it would start.
    pub(super) fn run_unreached(&mut self, fields: &[Option<String>]) {
        let Some((name, rest)) = fields.split_first() else {
            return;
        };
        let known = name.as_deref().unwrap_or_default();
        if self.functions.contains_key(known) {
            self.run(&[], fields);
        } else if known == "exec" {
            self.note_unreached(rest);
        } else if !is_own(known) {
            self.note_unreached(fields);
        }
    }

    /// How certain it is that what follows is passed over.
    fn jump(&self) -> Doubt {
        match self.doubt {
            Doubt::Sure => Doubt::Skipped,
            doubt => doubt,
        }
    }

    /// A program is started; the last one is what the script is for, but for those that only say or move something.
    pub(super) fn start(&mut self, assignments: &[(String, VariableValue)], words: &[Option<String>]) {
        let name = words.first().and_then(Option::as_deref);
        if !name.is_some_and(is_harmless) {
            self.take_place(assignments, words);
        }
    }

    fn take_place(&mut self, assignments: &[(String, VariableValue)], words: &[Option<String>]) {
        if self.doubt != Doubt::Skipped {
            self.user = new_user(words).or(self.user.take());
        }
        if self.doubt == Doubt::Sure {
            self.note_unreached(words);
        }
        // What may not run is what the script is for only where nothing else is.
        let is_next = self.doubt == Doubt::Program && !self.is_fallback;
        if self.doubt != Doubt::Sure && !is_next && self.last.is_some() && !self.last_asks {
            return;
        }
        self.last_asks = self.asks;
        self.begun |= !self.asks;
        let mut variables = exported(&self.state);
        variables.extend(assignments.iter().cloned());
        self.last = Some(StartedProgram {
            words: words.to_vec(),
            variables,
            user: None,
            directory: self.state.directory.clone(),
            cache: self.cache,
            cache_folders: self.cache_folders.clone(),
            changes: Vec::new(),
            problem: None,
            doubt: None,
        });
    }
}

/// Options of bash by which commands come to mean something else.
const CHANGES_MEANING: [&str; 3] = ["expand_aliases", "extdebug", "lastpipe"];

/// The commands of the shell that are special (POSIX.1-2017, 2.14).
pub(super) const SPECIAL: [&str; 15] = [
    "", ".", ":", "break", "continue", "eval", "exec", "exit", "export", "readonly", "return", "set", "shift", "trap",
    "unset",
];

/// The array of bash that holds the functions which are run.
const FUNCTIONS: &str = "FUNCNAME";
/// How deep a script stands in others before `eval` is not followed.
const EVALUATED: usize = 8;

/// The commands of shells, and those that prepare what a program is started in: behind the end of a script they are none
/// that it is for.
const OWN: [&str; 41] = [
    "", ".", ":", "[", "((", "alias", "break", "builtin", "cd", "chmod", "chown", "command", "continue", "cat", "cp",
    "declare", "echo", "eval", "exit", "export", "false", "local", "ln", "mkdir", "printf", "read", "readonly",
    "return", "rm", "set", "shift", "shopt", "sleep", "source", "test", "touch", "trap", "true", "unset", "wait",
    "typeset",
];

/// The commands of bash that dash does not have.
const OF_BASH: [&str; 21] = [
    "[[",
    "((",
    "bind",
    "builtin",
    "caller",
    "compgen",
    "complete",
    "coproc",
    "declare",
    "dirs",
    "disown",
    "enable",
    "function",
    "let",
    "mapfile",
    "popd",
    "pushd",
    "readarray",
    "shopt",
    "source",
    "typeset",
];

/// Whether a name is that of a command of shells, or of one that prepares what a program is started in.
pub(super) fn is_own(name: &str) -> bool {
    OWN.contains(&name)
}

/// Whether a shell runs a command of this name by itself.
pub(super) fn is_builtin(name: &str) -> bool {
    let is_program = matches!(
        name,
        "" | "cat" | "chmod" | "chown" | "cp" | "ln" | "mkdir" | "rm" | "sleep" | "touch"
    );
    is_own(name) && !is_program || matches!(name, "exec" | "hash" | "type" | "umask" | "pwd" | "kill" | "getopts")
}

pub(super) fn exported(state: &ShellState) -> BTreeMap<String, VariableValue> {
    let variables = state.variables.iter();
    let mut exported: BTreeMap<String, VariableValue> = variables
        .filter(|(name, _)| !state.local.contains(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let doubtful = state.doubtful.iter().cloned();
    exported.extend(doubtful.map(|name| (name, VariableValue::Unknown)));
    exported
}

fn first_word(words: &[Option<String>]) -> Option<&str> {
    words.first()?.as_deref()
}
