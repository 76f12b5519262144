//! The one function that starts a shell, and reads what that shell reads first (bash(1), "INVOCATION"; dash(1)).

use std::rc::Rc;

use crate::Rank;
use crate::commands::base_name;
use crate::launch::Process;
use crate::reader::{Reader, RunningScript, split_place};
use crate::script::{Script, Shell};
use crate::state::{Flow, ShellValue, State, Variable};
use crate::value::is_open;

/// The options of a shell in front of its script.
#[derive(Default)]
struct ShellOptions {
    has_code: bool,
    is_login: bool,
    is_interactive: bool,
    reads_input: bool,
    reads_no_files: bool,
    reads_no_profile: bool,
    exports_all: bool,
    /// The file of an interactive bash.
    startup: Option<String>,
}

/// The letters that shells take for options.
const LETTERS: &str = "abcdefhiklmnoprstuvxBCDEHIOPT";

impl Reader<'_> {
    /// Starts a shell by its words: `sh [OPTION]… [-c CODE | FILE] [WORD]…`.
    pub(crate) fn start_shell(&mut self, process: &mut Process, state: &State, place: &str) {
        let words = std::mem::take(&mut process.words);
        let called = words.first().cloned().unwrap_or_default();
        let name = base_name(&called).trim_start_matches('-').to_owned();
        let shell = self.dialect(&called, &name, state);
        let (options, rest) = self.shell_options(&name, &words, place);
        let files = self.startup_files(&options, shell, &process.environment, state, place);
        process.words.clone_from(&words);
        let (outer, line) = split_place(place);
        let mut start = ShellStart {
            path: outer.to_owned(),
            line: Some(line),
            text: String::new(),
            arguments: rest.clone(),
            shell,
            files,
            exports_all: options.exports_all,
            is_interactive: options.is_interactive,
            place: place.to_owned(),
        };
        if options.has_code {
            start.text = rest.first().cloned().unwrap_or_default();
            start.arguments = rest.into_iter().skip(1).collect();
            if start.arguments.is_empty() {
                start.arguments.push(name);
            }
            return self.run_script(start, process, state);
        }
        let Some(file) = rest.first().filter(|_| !options.reads_input) else {
            let Some(text) = state.input.clone() else {
                self.assume_keeps("stdin", place);
                let path = self.find_program(&called, state);
                return self.note_program(path, process, state, place);
            };
            start.text = text;
            start.arguments.insert(0, name);
            return self.run_script(start, process, state);
        };
        let mut path = state.absolute(file);
        if !file.contains('/') && self.files.stat(&path).is_none() {
            path = self.find_program(file, state).unwrap_or(path);
        }
        if state.touched.contains_key(&path) || is_open(file) {
            self.assume_keeps("written", place);
            return self.note_program(None, process, state, place);
        }
        if let Some(text) = self.file_text(state, &path) {
            start.path = path.clone();
            start.line = None;
            start.text = text;
            if let Some(first) = start.arguments.first_mut().filter(|first| !first.contains('/')) {
                *first = path;
            }
            self.run_script(start, process, state);
        } else {
            if self.files.stat(&path).is_some() {
                self.assume_keeps("script", place);
            }
            self.note_program(None, process, state, place);
        }
    }

    /// The shell that lies in the image under a name.
    fn dialect(&self, called: &str, name: &str, state: &State) -> Shell {
        let path = self
            .find_program(called, state)
            .unwrap_or_else(|| format!("/bin/{name}"));
        let real = self.files.resolve(&path).unwrap_or(path);
        match base_name(&real) {
            "dash" => Shell::Dash,
            "busybox" => Shell::Busybox,
            real if real.contains("bash") || name.contains("bash") => {
                if name == "sh" {
                    Shell::BashPosix
                } else {
                    Shell::Bash
                }
            }
            "ash" => Shell::Busybox,
            _ => Shell::Dash,
        }
    }

    fn shell_options(&mut self, name: &str, words: &[String], place: &str) -> (ShellOptions, Vec<String>) {
        let mut options = ShellOptions::default();
        let mut words = words.iter().skip(1).peekable();
        let is_option = |word: &&String| word.starts_with(['-', '+']) && word.len() > 1;
        while let Some(word) = words.next_if(is_option) {
            if word == "--" {
                break;
            }
            if let Some(long) = word.strip_prefix("--") {
                match long {
                    "login" => options.is_login = true,
                    "noprofile" => options.reads_no_profile = true,
                    "norc" | "posix" => options.reads_no_files = true,
                    "rcfile" | "init-file" => options.startup = words.next().cloned(),
                    "noediting" | "verbose" => {}
                    _ => self.assume_option(&[name.to_owned()], word, place),
                }
                continue;
            }
            let letters = word.get(1..).unwrap_or_default();
            options.has_code |= letters.contains('c');
            options.is_login |= letters.contains('l');
            options.is_interactive |= letters.contains('i');
            options.reads_input |= letters.contains('s');
            options.exports_all |= letters.contains('a');
            if letters.ends_with(['o', 'O'])
                && let Some(value) = words.next()
            {
                options.exports_all |= value == "allexport";
            }
            if !letters.chars().all(|letter| LETTERS.contains(letter)) {
                self.assume_option(&[name.to_owned()], word, place);
            }
        }
        options.reads_input &= !options.has_code;
        (options, words.cloned().collect())
    }

    /// The files that the shell reads before its script, as far as they are in the image or may be written.
    fn startup_files(
        &mut self,
        options: &ShellOptions,
        shell: Shell,
        environment: &std::collections::BTreeMap<String, String>,
        state: &State,
        place: &str,
    ) -> Vec<String> {
        let home = environment.get("HOME").cloned().unwrap_or_else(|| "/root".to_owned());
        let expand = |path: &str| {
            let rest = ["~", "$HOME", "${HOME}"]
                .iter()
                .find_map(|begin| path.strip_prefix(begin));
            rest.map_or_else(|| path.to_owned(), |rest| format!("{home}{rest}"))
        };
        let mut files = Vec::new();
        if options.is_login && !options.reads_no_profile {
            files.push("/etc/profile".to_owned());
            let own: &[&str] = if shell == Shell::Bash {
                &["~/.bash_profile", "~/.bash_login", "~/.profile"]
            } else {
                &["~/.profile"]
            };
            let mut own = own.iter().map(|file| expand(file));
            files.extend(own.find(|file| self.files.stat(file).is_some() || state.touched.contains_key(file)));
        }
        let variable = match (shell, options.is_interactive) {
            (Shell::Bash, true) => {
                if !options.is_login && !options.reads_no_files {
                    files.push(expand(options.startup.as_deref().unwrap_or("~/.bashrc")));
                }
                None
            }
            (Shell::Bash, false) => environment.get("BASH_ENV"),
            (_, true) => environment.get("ENV"),
            (_, false) => None,
        };
        if let Some(file) = variable.filter(|_| !options.reads_no_files).map(|file| expand(file)) {
            if self.files.stat(&file).is_none() {
                self.assume_keeps("source", place);
            }
            files.push(file);
        }
        files.retain(|file| self.files.stat(file).is_some() || state.touched.contains_key(file));
        files
    }

    /// Runs a script as a process of its own.
    fn run_script(&mut self, start: ShellStart, process: &Process, state: &State) {
        let script = if is_open(&start.text) {
            None
        } else {
            Script::parse(&start.path, start.line, start.text.clone(), start.shell)
        };
        let Some(script) = script else {
            self.assume_keeps("unparsed", &start.place);
            return self.note_program(None, process, state, &start.place);
        };
        if script.is_foreign {
            let text = "the script is read as the shell reads it, which lacks a part of its grammar".to_owned();
            self.assume_at("unparsed", &script.path, 0, text);
        }
        let own: Vec<String> = start.arguments.iter().skip(1).cloned().collect();
        let running: RunningScript = (
            start.path.clone(),
            start.text.clone(),
            state.user.clone(),
            own,
            process.environment.clone(),
        );
        // A script that starts itself again, with what it has, comes to nothing new.
        if self.running.contains(&running) {
            return;
        }
        self.running.push(running);
        let before = self.programs.len();
        let conditions = std::mem::take(&mut self.conditions);
        let inherited = conditions > 0;
        let mut states = vec![self.shell_state(&start, &script, process, state)];
        for file in &start.files {
            let place = start.place.clone();
            let run = |state: State| match state.flow {
                Flow::Next => self.source(std::slice::from_ref(file), state, &place),
                _ => vec![state],
            };
            states = states.into_iter().flat_map(run).collect();
        }
        states = self.run_list(&script.body, states);
        for state in states.iter_mut().filter(|state| state.flow != Flow::Replaced) {
            if let Some(action) = state.exit_trap.take() {
                let mut at_end = state.clone();
                at_end.flow = Flow::Next;
                let ended = self.evaluate(&action, at_end, &start.place);
                state.merge_touched(&ended);
            }
        }
        self.conditions = conditions;
        self.running.pop();
        for state in &states {
            self.written
                .extend(state.touched.iter().map(|(path, text)| (path.clone(), text.clone())));
        }
        if inherited {
            let inner = self.programs.iter_mut().skip(before);
            inner.for_each(|program| program.rank = program.rank.min(Rank::Inside));
        }
        if self.programs.len() == before {
            for state in &states {
                let end = Process {
                    words: vec![start.path.clone()],
                    environment: state.environment(),
                    is_loader_argument: false,
                };
                self.note_program(None, &end, state, &start.path);
                if let Some(program) = self.programs.last_mut() {
                    program.rank = Rank::Distribution;
                }
            }
        }
    }

    /// A new shell with the environment of its process.
    fn shell_state(&self, start: &ShellStart, script: &Rc<Script>, process: &Process, state: &State) -> State {
        let variable = |(name, text): (&String, &String)| {
            let variable = Variable {
                value: Some(ShellValue::Text(text.clone())),
                is_exported: true,
                is_readonly: false,
            };
            (name.clone(), variable)
        };
        let exported = process.environment.keys().filter_map(|name| {
            let function = self.exported_functions.get(name).filter(|_| start.shell.is_bash())?;
            let name = name.strip_prefix("BASH_FUNC_")?.strip_suffix("%%")?;
            Some((name.to_owned(), Rc::clone(function)))
        });
        let mut options = std::collections::BTreeSet::new();
        if start.exports_all {
            options.insert(crate::state::ShellOption::AllExport);
        }
        if start.is_interactive {
            options.insert(crate::state::ShellOption::Interactive);
        }
        State {
            variables: Rc::new(process.environment.iter().map(variable).collect()),
            functions: Rc::new(exported.collect()),
            arguments: start.arguments.clone(),
            shell: start.shell,
            script: Rc::clone(script),
            frames: Vec::new(),
            flow: Flow::Next,
            status: Some(true),
            output: None,
            sourced: 0,
            options,
            exit_trap: None,
            ..state.clone()
        }
    }
}

/// A script and what its shell gives it.
struct ShellStart {
    path: String,
    line: Option<usize>,
    text: String,
    /// `$0` and what follows.
    arguments: Vec<String>,
    shell: Shell,
    files: Vec<String>,
    exports_all: bool,
    is_interactive: bool,
    place: String,
}
