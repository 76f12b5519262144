//! Starts a shell and runs its startup files first (bash(1), "INVOCATION"; dash(1)).

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::commands::Prefix;
use crate::launch::{Process, ProcessEnvironment};
use crate::reader::{Reader, RunningScript};
use crate::script::{Script, Shell};
use crate::state::{Flow, ShellOption, State, Variable, base_name};
use crate::value::is_open;
use crate::{Rank, split_place};

/// The options in front of a shell's script.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
struct ShellOptions {
    has_code: bool,
    is_login: bool,
    reads_input: bool,
    reads_no_files: bool,
    reads_no_profile: bool,
    /// The argument of `--rcfile`.
    startup: Option<String>,
    /// The options that `set` would turn on.
    set: BTreeSet<ShellOption>,
}

/// A script and the settings of its shell.
struct ShellStart {
    path: String,
    line: Option<usize>,
    text: String,
    /// `$0` and the positional parameters.
    arguments: Vec<String>,
    shell: Shell,
    /// The startup files, in order.
    files: Vec<String>,
    options: BTreeSet<ShellOption>,
}

/// The option letters of the supported shells.
const OPTION_LETTERS: &str = "abcdefhiklmnoprstuvxBCDEHIOPT";

impl Reader<'_> {
    /// Starts a shell: `sh [OPTION]… [-c CODE | FILE] [WORD]…`.
    pub(crate) fn start_shell(&mut self, process: &Process, state: &State) {
        let place = &process.place;
        let called = process.words.first().map_or("", String::as_str);
        let name = base_name(called);
        let shell = self.dialect(called, state);
        let (options, mut arguments) = self.shell_options(name, process);
        let files = self.startup_files(&options, shell, &process.environment, state, place);
        let (outer, line) = split_place(place);
        let (mut path, mut line) = (outer.to_owned(), Some(line));
        let text = if options.has_code {
            let code = if arguments.is_empty() {
                String::new()
            } else {
                arguments.remove(0)
            };
            if arguments.is_empty() {
                arguments.push(name.to_owned());
            }
            code
        } else if let Some(file) = arguments.first_mut().filter(|_| !options.reads_input) {
            (path, line) = (state.absolute(file), None);
            if !file.contains('/') && self.files.stat(&path).is_none() {
                path = self.find_program(file, state).unwrap_or(path);
            }
            let is_written = state.touched.contains(&path) || is_open(file);
            let text = self.file_text(state, &path).filter(|_| !is_written);
            let Some(text) = text else {
                if is_written || self.files.stat(&path).is_some() {
                    self.assume_keeps(if is_written { "written" } else { "script" }, place);
                }
                return self.note_program(None, process, state);
            };
            if !file.contains('/') {
                file.clone_from(&path);
            }
            text
        } else if let Some(text) = state.input.clone() {
            arguments.insert(0, name.to_owned());
            text
        } else {
            self.assume_keeps("stdin", place);
            let path = self.find_program(called, state);
            return self.note_program(path, process, state);
        };
        let options = options.set;
        let start = ShellStart {
            path,
            line,
            text,
            arguments,
            shell,
            files,
            options,
        };
        self.run_script(&start, process, state);
    }

    /// Which shell the image provides under a name.
    fn dialect(&self, called: &str, state: &State) -> Shell {
        let name = base_name(called);
        let path = self
            .find_program(called, state)
            .unwrap_or_else(|| format!("/bin/{name}"));
        let real = self.files.resolve(&path).unwrap_or(path);
        match base_name(&real) {
            "busybox" | "ash" => Shell::Busybox,
            real if real != "dash" && (real.contains("bash") || name.contains("bash")) => {
                if name == "sh" {
                    Shell::BashPosix
                } else {
                    Shell::Bash
                }
            }
            _ => Shell::Dash,
        }
    }

    fn shell_options(&mut self, name: &str, process: &Process) -> (ShellOptions, Vec<String>) {
        let mut options = ShellOptions::default();
        let mut words = process.words.iter().skip(1).peekable();
        while let Some(word) = words.next_if(|word| word.starts_with(['-', '+']) && word.len() > 1 && *word != "--") {
            let letters = word.get(1..).unwrap_or_default();
            match letters {
                "-login" => options.is_login = true,
                "-noprofile" => options.reads_no_profile = true,
                "-norc" | "-posix" => options.reads_no_files = true,
                "-rcfile" | "-init-file" => options.startup = words.next().cloned(),
                "-noediting" | "-verbose" => {}
                letters if letters.starts_with('-') => self.assume_option(name, word, &process.place),
                letters => {
                    let value = letters.ends_with(['o', 'O']).then(|| words.next()).flatten();
                    let exports = letters.contains('a') || value.is_some_and(|value| value == "allexport");
                    options.has_code |= letters.contains('c');
                    options.is_login |= letters.contains('l');
                    options.reads_input |= letters.contains('s');
                    options.set.extend(exports.then_some(ShellOption::AllExport));
                    options
                        .set
                        .extend(letters.contains('i').then_some(ShellOption::Interactive));
                    if !letters.chars().all(|letter| OPTION_LETTERS.contains(letter)) {
                        self.assume_option(name, word, &process.place);
                    }
                }
            }
        }
        words.next_if(|word| *word == "--");
        options.reads_input &= !options.has_code;
        (options, words.cloned().collect())
    }

    /// The startup files that exist in the image or that a command may have written.
    fn startup_files(
        &mut self,
        options: &ShellOptions,
        shell: Shell,
        environment: &ProcessEnvironment,
        state: &State,
        place: &str,
    ) -> Vec<String> {
        let home = environment.get("HOME").map_or("/root", String::as_str);
        let expand = |path: &str| {
            let rest = ["~", "$HOME", "${HOME}"]
                .iter()
                .find_map(|begin| path.strip_prefix(begin));
            rest.map_or_else(|| path.to_owned(), |rest| format!("{home}{rest}"))
        };
        let is_there = |file: &String| self.files.stat(file).is_some() || state.touched.contains(file);
        let is_interactive = options.set.contains(&ShellOption::Interactive);
        let mut files = Vec::new();
        if options.is_login && !options.reads_no_profile {
            let own = ["~/.bash_profile", "~/.bash_login", "~/.profile"]
                .iter()
                .skip(if shell == Shell::Bash { 0 } else { 2 });
            files.push("/etc/profile".to_owned());
            files.extend(own.map(|file| expand(file)).find(is_there));
        }
        let variable = match (shell, is_interactive) {
            (Shell::Bash, true) if options.is_login => None,
            (Shell::Bash, true) => Some(options.startup.as_deref().unwrap_or("~/.bashrc")),
            (Shell::Bash, false) => environment.get("BASH_ENV").map(String::as_str),
            (_, true) => environment.get("ENV").map(String::as_str),
            (_, false) => None,
        };
        if let Some(file) = variable.filter(|_| !options.reads_no_files).map(expand) {
            let is_optional = shell == Shell::Bash && is_interactive;
            if !is_optional && !is_there(&file) {
                self.assume_keeps("source", place);
            }
            files.push(file);
        }
        files.retain(is_there);
        files
    }

    /// Runs a script in a new process.
    fn run_script(&mut self, start: &ShellStart, process: &Process, state: &State) {
        let place = &process.place;
        let known = Some(start.text.clone()).filter(|text| !is_open(text));
        let Some(script) = known.and_then(|text| Script::parse(&start.path, start.line, text, start.shell)) else {
            let at = if start.line.is_some() { place } else { &start.path };
            let text = "the script, which could not be parsed, keeps the loader variables".to_owned();
            self.assume("unparsed", at, text);
            return self.note_program(None, process, state);
        };
        if script.is_foreign {
            let text = "the script is read as the shell reads it, which lacks a part of its grammar".to_owned();
            self.assume("unparsed", &script.path, text);
        }
        let own = start.arguments.iter().skip(1).cloned().collect();
        let environment = process.environment.clone();
        let running: RunningScript = (
            start.path.clone(),
            start.text.clone(),
            state.user.clone(),
            own,
            environment,
        );
        // A script that starts itself with equal inputs recurses forever.
        if self.running.contains(&running) {
            return;
        }
        self.running.push(running);
        let before = self.programs.len();
        let conditions = std::mem::take(&mut self.conditions);
        let mut states = vec![self.shell_state(start, &script, process, state)];
        for file in &start.files {
            let run = |state: State| match state.flow {
                Flow::Next => self.source(std::slice::from_ref(file), state, place),
                _ => vec![state],
            };
            states = states.into_iter().flat_map(run).collect();
        }
        states = self.run_list(&script.body, states);
        for state in states.iter_mut().filter(|state| state.flow != Flow::Replaced) {
            if let Some(action) = state.exit_trap.take() {
                let ended = self.evaluate(
                    &action,
                    State {
                        flow: Flow::Next,
                        ..state.clone()
                    },
                    place,
                );
                state.merge_touched(&ended);
            }
        }
        self.conditions = conditions;
        self.running.pop();
        self.written
            .extend(states.iter().flat_map(|state| state.touched.iter().cloned()));
        if self.programs.len() == before {
            for state in &states {
                let end = Process::new(vec![start.path.clone()], state.environment(&Prefix::new()), &start.path);
                self.note_program(None, &end, state);
                self.cap_rank(self.programs.len() - 1, Rank::Distribution);
            }
        }
        if conditions > 0 {
            self.cap_rank(before, Rank::Inside);
        }
    }

    /// Limits the rank of all programs from index `from` on.
    fn cap_rank(&mut self, from: usize, highest: Rank) {
        self.programs
            .iter_mut()
            .skip(from)
            .for_each(|program| program.rank = program.rank.min(highest));
    }

    /// The initial state of a shell, with the environment of its process.
    fn shell_state(&self, start: &ShellStart, script: &Rc<Script>, process: &Process, state: &State) -> State {
        let variables = process
            .environment
            .iter()
            .map(|(name, text)| (name.clone(), Variable::exported(text)));
        let functions = process.environment.keys().filter_map(|name| {
            let function = self.exported_functions.get(name).filter(|_| start.shell.is_bash())?;
            let name = name.strip_prefix("BASH_FUNC_")?.strip_suffix("%%")?;
            Some((name.to_owned(), Rc::clone(function)))
        });
        State {
            variables: Rc::new(variables.collect()),
            functions: Rc::new(functions.collect()),
            arguments: start.arguments.clone(),
            shell: start.shell,
            script: Rc::clone(script),
            frames: Vec::new(),
            status: Some(true),
            sourced: 0,
            options: start.options.clone(),
            exit_trap: None,
            ..state.clone()
        }
    }
}
