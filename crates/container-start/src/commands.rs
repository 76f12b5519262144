//! Simple commands: assignments, then a function, a builtin or a program.

use std::collections::BTreeMap;
use std::rc::Rc;

use shuck_ast::{Assignment, BuiltinCommand, SimpleCommand};

use crate::declarations::is_name;
use crate::launch::Process;
use crate::launcher_table::is_listed;
use crate::reader::{DEPTH, Reader, VALUE_LENGTH, has_word};
use crate::script::Shell;
use crate::state::{Flow, Function, State, Variable, base_name};
use crate::value::{Value, is_open};
use crate::words::is_absent;
use crate::{LOADER_VARIABLES, Rank};

/// POSIX special builtins (2.14). Assignments in front of them persist, except in bash.
const SPECIAL_BUILTINS: &str = ": eval export set unset shift trap readonly . return break continue times exec";
/// Regular builtins of all shells.
const REGULAR_BUILTINS: &str = "[ test true false echo printf pwd read alias getopts cd type hash command exit local";
/// Builtins of bash only. busybox also has `source` and `let`.
const BASH_BUILTINS: &str = "mapfile readarray builtin source shopt declare typeset let pushd popd";
const BUSYBOX_BUILTINS: &str = "source let [[";
/// Builtins without an effect on the tracked state.
const BUILTINS_WITHOUT_EFFECT: &str = "unalias wait ulimit umask kill jobs fg bg disown times enable complete compopt bind history help \
    caller dirs suspend logout newgrp chdir";

/// The assignments in front of a command.
pub(crate) type Prefix = BTreeMap<String, Vec<String>>;

/// A command with its words expanded.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub words: Vec<String>,
    pub prefix: Prefix,
}

impl Reader<'_> {
    pub(crate) fn run_simple(&mut self, command: &SimpleCommand, mut state: State) -> Vec<State> {
        state.status = Some(true);
        let words = self.command_words(command, &mut state);
        let bytes: usize = words.iter().map(|word| word.len() + 1).sum();
        self.bytes += bytes;
        if self.is_spent() || bytes > VALUE_LENGTH {
            // The effect of so many words is unknown.
            self.lose_variables(&mut state, "more words than are followed");
            self.lose_arguments(&mut state);
            return state.finish(None);
        }
        let before = Rc::clone(&state.variables);
        let prefix = self.apply_assignments(&command.assignments, &mut state);
        if words.is_empty() {
            return vec![state];
        }
        state.variables = before;
        self.dispatch(Call { words, prefix }, state)
    }

    /// Applies assignments from left to right. Later ones see earlier ones.
    pub(crate) fn apply_assignments(&mut self, assignments: &[Assignment], state: &mut State) -> Prefix {
        let mut prefix = Prefix::new();
        for assignment in assignments {
            match self.assignment_value(assignment, state) {
                None => state.status = Some(false),
                // bash refuses it, and a command behind it runs without it.
                Some(_) if state.is_readonly(&assignment.target.name) => {}
                Some(value) => {
                    state.set(&assignment.target.name, value.clone());
                    prefix.insert(assignment.target.name.to_string(), value);
                }
            }
        }
        prefix
    }

    fn command_words(&mut self, command: &SimpleCommand, state: &mut State) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        let name = Some(&command.name).filter(|name| !is_absent(name));
        for word in name.into_iter().chain(&command.args) {
            // dash and busybox do not split the assignments of a declaration builtin, even behind `command`.
            let first = words.iter().find(|word| *word != "command").map_or("", String::as_str);
            let declares = matches!(first, "export" | "readonly" | "local") && state.shell != Shell::Bash;
            let source = word.span.slice(&state.script.text);
            if declares && source.split_once('=').is_some_and(|(name, _)| is_name(name)) {
                words.push(self.assigned_text(word, state));
                continue;
            }
            words.extend(match first {
                "[" | "test" => self.in_condition(|reader| reader.fields(word, state)),
                _ => self.fields(word, state),
            });
        }
        words
    }

    /// `break`, `continue`, `return` and `exit`.
    pub(crate) fn run_control(&mut self, command: &BuiltinCommand, mut state: State) -> Vec<State> {
        let (name, number) = match command {
            BuiltinCommand::Break(command) => ("break", &command.depth),
            BuiltinCommand::Continue(command) => ("continue", &command.depth),
            BuiltinCommand::Return(command) => ("return", &command.code),
            BuiltinCommand::Exit(command) => ("exit", &command.code),
        };
        let words = self.all_fields(number.as_slice(), &mut state);
        run_control_word(name, &words, state)
    }

    /// Runs a command: a function, a builtin or a program.
    pub(crate) fn dispatch(&mut self, call: Call, state: State) -> Vec<State> {
        let function = call.words.first().and_then(|name| state.functions.get(name).cloned());
        match function {
            Some(function) => self.call_function(&function, call, state),
            None => self.dispatch_past_functions(&call, state),
        }
    }

    /// Runs a builtin or a program, skipping functions, as `command` and `builtin` do.
    pub(crate) fn dispatch_past_functions(&mut self, call: &Call, mut state: State) -> Vec<State> {
        let name = call.words.first().map_or("", String::as_str);
        if !is_builtin(name, state.shell) {
            return self.run_program(call, state);
        }
        if has_word(SPECIAL_BUILTINS, name) && state.shell != Shell::Bash {
            for (name, value) in &call.prefix {
                state.set(name, value.clone());
                state.variable_mut(name).is_exported |= state.shell == Shell::BashPosix;
            }
            return self.run_builtin(call, state);
        }
        // For regular builtins, and in bash, the assignments last for this command only.
        let old = apply_prefix(&call.prefix, &mut state);
        let mut states = self.run_builtin(call, state);
        states.iter_mut().for_each(|state| restore_all(state, &old));
        states
    }

    fn call_function(&mut self, function: &Function, call: Call, mut state: State) -> Vec<State> {
        if call.prefix.keys().any(|name| LOADER_VARIABLES.contains(&name.as_str())) {
            self.assume_keeps("construct");
        }
        if self.depth > DEPTH {
            self.assume_keeps("depth");
            return state.finish(None);
        }
        let (arguments, script) = (state.arguments.clone(), Rc::clone(&state.script));
        let saved = apply_prefix(&call.prefix, &mut state);
        state.set_arguments(call.words.into_iter().skip(1));
        state.frames.push(saved);
        state.script = Rc::clone(&function.script);
        self.depth += 1;
        let conditions = std::mem::take(&mut self.conditions);
        let mut states = self.run_statement(&function.body, state);
        self.conditions = conditions;
        self.depth -= 1;
        for state in &mut states {
            state.arguments.clone_from(&arguments);
            state.script = Rc::clone(&script);
            if let Some(frame) = state.frames.pop() {
                restore_all(state, &frame);
            }
            if state.flow == Flow::Return {
                state.flow = Flow::Next;
            }
        }
        self.join(states)
    }

    /// Runs a program: its output, the files it may change and the programs it starts.
    pub(crate) fn run_program(&mut self, call: &Call, mut state: State) -> Vec<State> {
        let Some(called) = call.words.first() else {
            return state.finish(Some(true));
        };
        let name = base_name(called);
        if name == "which" && self.find_program(called, &state).is_some() {
            return self.find_command(name, call.words.get(1..).unwrap_or_default(), state);
        }
        if let Some(text) = self.program_output(&call.words, &state) {
            return self.print(state, &text, Some(true));
        }
        let environment = state.environment(&call.prefix);
        let is_open_path = environment.get("PATH").is_some_and(|path| is_open(path)) || is_open(&state.directory);
        self.launch(Process::new(call.words.clone(), environment), &state);
        if state.input.is_some() {
            state.input = Some(self.hole("what a program leaves of the standard input"));
        }
        let is_absent = !is_open(called) && !is_open_path && self.find_program(called, &state).is_none();
        let is_written = self.touched.iter().any(|path| base_name(path) == name);
        let may_come = is_written || self.provides_missing || is_listed(&self.launchers.driver_tools, name);
        if is_absent && !may_come {
            // It is not in the image: exit status 127, no output.
            return state.finish(Some(false));
        }
        let output = self.output_hole(name);
        self.print(state, &output, None)
    }

    /// `exec`: replaces the shell with the program.
    pub(crate) fn become_program(&mut self, words: &[String], call: &Call, mut state: State) -> Vec<State> {
        let mut environment = state.environment(&call.prefix);
        let mut words = words;
        while let Some((option, rest)) = words.split_first().filter(|(option, _)| option.starts_with('-')) {
            let takes_name = usize::from(option == "-a");
            words = rest.get(takes_name..).unwrap_or_default();
            if !option.starts_with("-a") && option.contains('c') {
                environment.clear();
            }
        }
        if words.is_empty() {
            return state.finish(Some(true));
        }
        let before = self.programs.len();
        self.launch(Process::new(words.to_vec(), environment), &state);
        let is_main = !state.is_copy;
        let mut missing = self
            .programs
            .iter()
            .skip(before)
            .filter(|program| program.path.is_none());
        let name = missing
            .next()
            .filter(|_| is_main)
            .and_then(|program| program.words.first());
        if let Some(name) = name.and_then(Value::text).map(str::to_owned) {
            self.assume_present(&name);
        }
        for program in self.programs.iter_mut().skip(before) {
            program.rank = match program.rank {
                Rank::Started if is_main => Rank::Main,
                rank => rank.max(Rank::Inside),
            };
        }
        state.flow = Flow::Replaced;
        vec![state]
    }
}

/// Executes `break`, `continue`, `return` or `exit`.
pub(crate) fn run_control_word(name: &str, words: &[String], mut state: State) -> Vec<State> {
    let number = words.first();
    let levels = number.and_then(|word| word.parse().ok()).unwrap_or(1);
    let is_inside = !state.frames.is_empty() || state.sourced > 0;
    state.flow = match name {
        "break" => Flow::Break(levels),
        "continue" => Flow::Continue(levels),
        "return" if is_inside => Flow::Return,
        // bash reports an error and continues.
        "return" if state.shell.is_bash() => return state.finish(Some(false)),
        _ => Flow::Exit,
    };
    if matches!(state.flow, Flow::Return | Flow::Exit)
        && let Some(number) = number
    {
        state.status = number.parse::<i64>().ok().map(|code| code == 0);
    }
    vec![state]
}

/// Whether the shell has a builtin with this name.
pub(crate) fn is_builtin(name: &str, shell: Shell) -> bool {
    let lists = [SPECIAL_BUILTINS, REGULAR_BUILTINS, BUILTINS_WITHOUT_EFFECT];
    let is_own =
        shell.is_bash() && has_word(BASH_BUILTINS, name) || shell == Shell::Busybox && has_word(BUSYBOX_BUILTINS, name);
    is_own || lists.iter().any(|list| has_word(list, name))
}

/// Whether a builtin has no effect on the tracked state.
pub(crate) fn has_no_effect(name: &str) -> bool {
    has_word(BUILTINS_WITHOUT_EFFECT, name)
}

/// Sets and exports the assignments in front of a command. Returns the previous variables.
fn apply_prefix(prefix: &Prefix, state: &mut State) -> BTreeMap<String, Option<Variable>> {
    let mut old = BTreeMap::new();
    for (name, value) in prefix {
        old.insert(name.clone(), state.variables.get(name).cloned());
        state.set(name, value.clone());
        state.variable_mut(name).is_exported = true;
    }
    old
}

fn restore_all(state: &mut State, old: &BTreeMap<String, Option<Variable>>) {
    for (name, variable) in old {
        state.restore(name, variable.clone());
    }
}
