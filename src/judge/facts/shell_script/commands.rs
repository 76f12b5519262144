//! The commands of a script by their names: those of the shell itself, functions and programs.

use std::collections::BTreeMap;

use super::changed_user::new_user;
use super::grammar::TokenReader;
use super::script_run::{Doubt, ScriptRun, ShellState, StartedProgram, Success, VariableValue};

impl ScriptRun<'_> {
    /// Runs a command by its name.
    pub(super) fn run(&mut self, assignments: &[(String, VariableValue)], fields: &[Option<String>]) -> Success {
        let (name, rest) = fields.split_first()?;
        let known = name.as_deref().unwrap_or_default();
        if let Some(body) = self.functions.get(known).cloned() {
            let arguments = std::mem::replace(&mut self.state.arguments, rest.to_vec());
            let returned = std::mem::replace(&mut self.returned, Doubt::Sure);
            let success = self.block(&mut TokenReader { tokens: &body, at: 0 }, &[]);
            self.returned = returned;
            self.state.arguments = arguments;
            return success;
        }
        self.run_own(assignments, fields)
    }

    /// Runs a command that is no function of the script.
    pub(super) fn run_own(&mut self, assignments: &[(String, VariableValue)], fields: &[Option<String>]) -> Success {
        let (name, rest) = fields.split_first()?;
        let known = name.as_deref().unwrap_or_default();
        let begins_with_option = || first_word(rest).is_some_and(|word| word.starts_with('-'));
        self.is_of_program = false;
        match known {
            "mkdir" | "ln" | "ldconfig" | "chmod" => {
                self.has_started = true;
                Some(true)
            }
            "true" | ":" | "echo" | "umask" | "ulimit" => Some(true),
            "false" => Some(false),
            "[" | "test" => self.test(rest),
            "cd" => self.change_directory(rest),
            "." | "source" => self.source(rest),
            "exec" => {
                self.exec(assignments, rest);
                Some(true)
            }
            "exit" => {
                self.exit(first_word(rest));
                None
            }
            "return" => {
                self.returned = self.returned.max(self.jump());
                None
            }
            "break" | "continue" => {
                self.jumped = self.jumped.max(self.jump());
                None
            }
            "command" | "builtin" if !begins_with_option() => self.run_own(assignments, rest),
            "command" | "type" | "which" | "hash" => self.finds(rest),
            "builtin" | "((" | "let" | "wait" | "shopt" | "enable" | "complete" | "times" | "jobs" => None,
            _ if let Some(success) = self.change_variables(known, rest) => success,
            program => {
                let is_missing = name.is_some() && self.files.has_program(program) == Some(false);
                self.start(assignments, fields);
                self.has_started = true;
                self.is_of_program = !is_missing;
                is_missing.then_some(false)
            }
        }
    }

    /// Runs a command that changes variables, or what words mean; nothing where it is another one.
    fn change_variables(&mut self, name: &str, rest: &[Option<String>]) -> Option<Success> {
        match name {
            "export" | "declare" | "typeset" | "readonly" | "local" => self.declare(name, rest),
            "unset" => self.unset_all(rest),
            "set" => self.set(rest),
            "shift" => {
                let count = first_word(rest).and_then(|word| word.parse().ok()).unwrap_or(1);
                self.state.arguments = self.state.arguments.get(count..).unwrap_or_default().to_vec();
            }
            "trap" => {
                // It runs before every command that follows.
                let mut words = rest.iter();
                if words.any(|word| word.as_deref().is_none_or(|word| word == "DEBUG")) {
                    self.forget_all();
                }
                let is_end = |word: &Option<String>| matches!(word.as_deref(), Some("EXIT" | "0"));
                if rest.iter().skip(1).any(is_end) {
                    self.at_exit = rest.first().cloned().flatten().filter(|text| text != "-");
                }
            }
            // What the words mean from here on.
            "alias" => self.forget_all(),
            "eval" | "pushd" | "popd" => {
                self.forget_all();
                return Some(None);
            }
            // `printf -v NAME` sets a variable, too.
            "read" | "mapfile" | "readarray" | "getopts" | "printf" => {
                if name != "printf" && rest.contains(&None) {
                    self.forget_all();
                }
                for name in rest.iter().flatten() {
                    self.assign(name, VariableValue::Unknown);
                }
                return Some(None);
            }
            _ => return None,
        }
        Some(Some(true))
    }

    /// `exec [COMMAND]`: without one, redirections alone.
    fn exec(&mut self, assignments: &[(String, VariableValue)], rest: &[Option<String>]) {
        if rest.is_empty() {
            return;
        }
        // `-c` empties the environment, and `-a` takes a name.
        if first_word(rest).is_some_and(|word| word.starts_with('-')) {
            self.forget_all();
        }
        self.last = None;
        self.start(assignments, rest);
        self.ending.is_over = self.doubt == Doubt::Sure;
        if self.ending.is_over {
            self.at_exit = None;
        }
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
        } else if !OWN.contains(&known) {
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

    /// A program is started; the last one is what the script is for.
    pub(super) fn start(&mut self, assignments: &[(String, VariableValue)], words: &[Option<String>]) {
        if self.doubt != Doubt::Skipped {
            self.user = new_user(words).or(self.user.take());
        }
        if self.doubt == Doubt::Sure {
            self.note_unreached(words);
        }
        // What may not run is what the script is for only where nothing else is.
        if self.doubt != Doubt::Sure && self.last.is_some() {
            return;
        }
        let mut variables = exported(&self.state);
        variables.extend(assignments.iter().cloned());
        self.last = Some(StartedProgram {
            words: words.to_vec(),
            variables,
            user: None,
            directory: self.state.directory.clone(),
            problem: None,
            doubt: None,
        });
    }
}

/// The commands of shells, and those that prepare what a program is started in: behind the end of a script they are none
/// that it is for.
const OWN: [&str; 40] = [
    "", ".", ":", "[", "((", "alias", "break", "builtin", "cd", "chmod", "chown", "command", "continue", "cat", "cp",
    "declare", "echo", "eval", "exit", "export", "false", "local", "ln", "mkdir", "printf", "read", "readonly",
    "return", "rm", "set", "shift", "shopt", "sleep", "source", "test", "touch", "trap", "true", "unset", "wait",
];

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
