//! Simple commands: what their first word is, once it is expanded.

use std::collections::BTreeMap;
use std::rc::Rc;

use shuck_ast::{Assignment, BuiltinCommand, SimpleCommand, Word};

use crate::LOADER_VARIABLES;
use crate::declarations::is_name;
use crate::image_files::FileKind;
use crate::reader::{DEPTH, Reader};
use crate::script::Shell;
use crate::state::{Flow, ShellValue, State, Variable};
use crate::value::is_open;

/// Builtins that keep the variables in front of them (POSIX shell, 2.14), but not in bash.
const SPECIAL: [&str; 14] = [
    ":", "eval", "export", "set", "unset", "shift", "trap", "readonly", ".", "return", "break", "continue", "times",
    "exec",
];

/// Builtins that change nothing which is followed.
const HARMLESS: [&str; 22] = [
    "unalias", "wait", "ulimit", "umask", "kill", "jobs", "fg", "bg", "disown", "times", "enable", "complete",
    "compopt", "bind", "history", "help", "caller", "dirs", "suspend", "logout", "newgrp", "chdir",
];

/// Builtins of bash alone; busybox has `source` and `let` as well.
const OF_BASH: [&str; 10] = [
    "mapfile",
    "readarray",
    "builtin",
    "source",
    "shopt",
    "declare",
    "typeset",
    "let",
    "pushd",
    "popd",
];

/// The bytes of a command's words.
const COMMAND_BYTES: usize = 128 << 10;

/// The variables in front of a command.
pub(crate) type Prefix = BTreeMap<String, ShellValue>;

/// A command with its words expanded.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub words: Vec<String>,
    pub prefix: Prefix,
    pub place: String,
}

impl Reader<'_> {
    pub(crate) fn run_simple(&mut self, command: &SimpleCommand, mut state: State) -> Vec<State> {
        self.begin_statement(&Rc::clone(&state.script), command.span);
        let place = state.place(command.span);
        state.status = Some(true);
        if crate::words::is_absent(&command.name) && command.args.is_empty() {
            for assignment in &command.assignments {
                match self.assignment_value(assignment, &mut state) {
                    Some(value) => state.set(&assignment.target.name, value),
                    None => state.status = Some(false),
                }
            }
            return vec![state];
        }
        let words = self.command_words(command, &mut state);
        let bytes = words.iter().map(|word| word.len() + 1).sum();
        if !self.spend(bytes) || bytes > COMMAND_BYTES {
            // Nothing is known of what so many words do.
            self.lose_variables(&mut state, &place, "more words than are followed");
            let hole = self.hole(&place, "the arguments");
            state.arguments.truncate(1);
            state.arguments.push(hole);
            return state.finish(None);
        }
        let before = Rc::clone(&state.variables);
        let prefix = self.put_assignments(&command.assignments, &mut state);
        if !words.is_empty() {
            state.variables = before;
        }
        self.snippet = state.script.snippet(command.span);
        if words.is_empty() {
            return vec![state];
        }
        self.dispatch(Call { words, prefix, place }, state)
    }

    /// Carries out the assignments in front of a command, each of which sees those before it.
    pub(crate) fn put_assignments(&mut self, assignments: &[Assignment], state: &mut State) -> Prefix {
        let mut prefix = Prefix::new();
        for assignment in assignments {
            if let Some(value) = self.assignment_value(assignment, state) {
                state.set(&assignment.target.name, value.clone());
                prefix.insert(assignment.target.name.to_string(), value);
            }
        }
        prefix
    }

    fn command_words(&mut self, command: &SimpleCommand, state: &mut State) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        for word in [&command.name].into_iter().chain(&command.args) {
            let first = words.iter().find(|word| *word != "command").map_or("", String::as_str);
            // dash and busybox do not split the assignments of a declaration, however it is called.
            let declares = matches!(first, "export" | "readonly" | "local") && state.shell != Shell::Bash;
            if declares && is_assignment(word, state) {
                words.push(self.assigned_text(word, state));
            } else {
                words.extend(self.fields(word, state));
            }
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
        let mut words = vec![name.to_owned()];
        if let Some(word) = number {
            words.extend(self.fields(word, &mut state));
        }
        self.control(&words, state)
    }

    pub(crate) fn control(&mut self, words: &[String], mut state: State) -> Vec<State> {
        let number = words.get(1);
        let levels = number.and_then(|word| word.parse().ok()).unwrap_or(1);
        let (is_called, is_sourced) = (!state.frames.is_empty(), state.sourced > 0);
        state.flow = match words.first().map(String::as_str) {
            Some("break") => Flow::Break(levels),
            Some("continue") => Flow::Continue(levels),
            // bash says so and goes on.
            Some("return") if !is_called && !is_sourced && state.shell.is_bash() => return state.finish(Some(false)),
            Some("return") if is_called || is_sourced => Flow::Return,
            _ => Flow::Exit,
        };
        if matches!(state.flow, Flow::Return | Flow::Exit)
            && let Some(number) = number
        {
            state.status = number.parse::<i64>().ok().map(|code| code == 0);
        }
        vec![state]
    }

    /// Runs a command: a function, a builtin or a program.
    pub(crate) fn dispatch(&mut self, call: Call, mut state: State) -> Vec<State> {
        let name = call.words.first().cloned().unwrap_or_default();
        if let Some(function) = state.functions.get(&name).cloned() {
            if call.prefix.keys().any(|name| LOADER_VARIABLES.contains(&name.as_str())) {
                self.assume_keeps("construct", &call.place);
            }
            return self.call_function(&function, call, state);
        }
        if !is_builtin(&name, state.shell) {
            return self.run_program(&call, state);
        }
        let stays = SPECIAL.contains(&name.as_str()) && state.shell != Shell::Bash;
        if stays {
            for (name, value) in &call.prefix {
                state.set(name, value.clone());
                state.variable_mut(name).is_exported |= state.shell == Shell::BashPosix;
            }
        }
        // Elsewhere they hold for the builtin alone.
        if !stays && !call.prefix.is_empty() {
            let old = put_prefix(&call.prefix, &mut state);
            let mut states = self.run_builtin(&call, state);
            states.iter_mut().for_each(|state| restore_all(state, &old));
            return states;
        }
        self.run_builtin(&call, state)
    }

    /// Runs a command that is no function: what `command` and `builtin` call.
    pub(crate) fn dispatch_past_functions(&mut self, call: &Call, state: State) -> Vec<State> {
        let name = call.words.first().map_or("", String::as_str);
        if is_builtin(name, state.shell) {
            self.run_builtin(call, state)
        } else {
            self.run_program(call, state)
        }
    }

    fn call_function(&mut self, function: &crate::state::Function, call: Call, mut state: State) -> Vec<State> {
        if self.depth > DEPTH {
            self.assume_keeps("depth", &call.place);
            return state.finish(None);
        }
        let (arguments, script) = (state.arguments.clone(), Rc::clone(&state.script));
        let saved = put_prefix(&call.prefix, &mut state);
        state.arguments.truncate(1);
        state.arguments.extend(call.words.into_iter().skip(1));
        state.frames.push(saved);
        state.script = Rc::clone(&function.script);
        self.depth += 1;
        let conditions = std::mem::take(&mut self.conditions);
        let mut states = self.run_list(&function.body, vec![state]);
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

    /// A program: what it prints, which files it may change, and what it starts.
    pub(crate) fn run_program(&mut self, call: &Call, mut state: State) -> Vec<State> {
        let Some(called) = call.words.first().cloned() else {
            return state.finish(Some(true));
        };
        let name = base_name(&called).to_owned();
        if let Some(text) = self.program_output(&call.words, &state) {
            return self.print(state, &text, Some(true));
        }
        let mut environment = state.environment();
        for (name, value) in &call.prefix {
            if let ShellValue::Text(text) = value {
                environment.insert(name.clone(), text.clone());
            }
        }
        let is_open_path = environment.get("PATH").is_some_and(|path| is_open(path)) || is_open(&state.directory);
        let before = std::mem::take(&mut self.written);
        self.launch(call.words.clone(), environment, &state, &call.place);
        if state.input.is_some() {
            state.input = Some(self.hole(&call.place, "what a program leaves of the standard input"));
        }
        let written = std::mem::replace(&mut self.written, before);
        for (path, text) in written {
            self.written.insert(path.clone(), text.clone());
            state.write(&path, text, false);
        }
        let is_absent = !is_open(&called) && !is_open_path && self.find_program(&called, &state).is_none();
        let may_come = self.launchers.is_driver_tool(&name)
            || self.is_given
            || state.touched.keys().any(|path| base_name(path) == name);
        if is_absent && !may_come {
            // It is nowhere in the image, and prints nothing.
            return state.finish(Some(false));
        }
        let output = self.output_hole(&call.place, &name);
        self.print(state, &output, None)
    }

    /// Notes the files of the image that a program may change.
    pub(crate) fn note_changes(&mut self, name: &str, words: &[String], state: &State, place: &str) {
        let own = words.iter().skip(1);
        if name == "ldconfig" && !own.clone().any(|word| word == "-p" || word == "--print-cache") {
            self.ldconfig.get_or_insert_with(|| place.to_owned());
            // Folders of its own, or another configuration.
            if words.len() > 1 && own.clone().any(|word| word != "-v" && word != "-X") {
                self.changed.insert(("/etc/ld.so.conf".to_owned(), place.to_owned()));
            }
            return;
        }
        let deletes = name == "find" && own.clone().any(|word| word == "-delete");
        if !self.launchers.may_write(name) && !deletes {
            return;
        }
        let is_changer = self.launchers.is_utility(name);
        for word in own.filter(|word| !word.starts_with('-')) {
            if is_open(word) && is_changer {
                // What it is given may be any file.
                self.changed.insert(("/".to_owned(), place.to_owned()));
            } else if word.contains(['/', '.']) && !is_open(word) {
                let path = state.absolute(word);
                if is_changer || deletes {
                    self.changed.insert((path.clone(), place.to_owned()));
                }
                self.written.insert(path, None);
            }
        }
    }

    /// The path of a program as execvp(3) finds it.
    pub(crate) fn find_program(&self, name: &str, state: &State) -> Option<String> {
        if name.contains('/') {
            let path = state.absolute(name);
            return self.files.resolve(&path).map(|_| path);
        }
        let path = state.text("PATH").unwrap_or(DEFAULT_PATH);
        let folders = path.split(':').filter(|folder| !is_open(folder));
        let candidates =
            folders.map(|folder| state.absolute(&format!("{}/{name}", if folder.is_empty() { "." } else { folder })));
        candidates.into_iter().find(|candidate| {
            let stat = self.files.stat(candidate);
            stat.is_some_and(|stat| matches!(stat.kind, FileKind::Regular | FileKind::Object) && stat.mode & 0o111 != 0)
        })
    }
}

/// Where programs are searched without PATH.
pub(crate) const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The last part of a path.
pub(crate) fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Whether a shell runs a name itself.
pub(crate) fn is_builtin(name: &str, shell: Shell) -> bool {
    let is_own = matches!(
        name,
        "[" | "test"
            | "true"
            | "false"
            | "echo"
            | "printf"
            | "pwd"
            | "read"
            | "alias"
            | "getopts"
            | "cd"
            | "type"
            | "hash"
            | "command"
            | "exit"
            | "local"
    );
    let in_busybox = shell == Shell::Busybox && matches!(name, "source" | "let" | "[[");
    let in_bash = shell.is_bash() && OF_BASH.contains(&name);
    is_own || in_busybox || in_bash || SPECIAL.contains(&name) || HARMLESS.contains(&name)
}

/// Whether a builtin changes nothing that is followed.
pub(crate) fn is_harmless(name: &str) -> bool {
    HARMLESS.contains(&name)
}

/// Whether a word begins with `NAME=` in letters.
fn is_assignment(word: &Word, state: &State) -> bool {
    let text = word.span.slice(&state.script.text);
    text.split_once('=').is_some_and(|(name, _)| is_name(name))
}

/// Sets and exports the variables in front of a command; what they were before.
fn put_prefix(prefix: &Prefix, state: &mut State) -> BTreeMap<String, Option<Variable>> {
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
