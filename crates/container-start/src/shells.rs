//! Starts a shell and runs its startup files first (bash(1), "INVOCATION"; dash(1)).

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::commands::Prefix;
use crate::launch::Process;
use crate::reader::Reader;
use crate::script::{Script, Shell};
use crate::state::{ALL_EXPORT, EXT_GLOB, Flow, INTERACTIVE, State, base_name, exported_variables};
use crate::value::is_open;
use crate::{Rank, split_place};

/// The option letters of the supported shells.
const OPTION_LETTERS: &str = "abcdefhiklmnoprstuvxBCDEHIOPT";
const NO_PROFILE: char = 'Y';
const NO_STARTUP: char = 'Z';

impl Reader<'_> {
    /// Starts a shell: `sh [OPTION]… [-c CODE | FILE] [WORD]…`.
    pub(crate) fn start_shell(&mut self, process: &Process, state: &State) {
        let called = process.words.first().map_or("", String::as_str);
        let name = base_name(called).to_owned();
        let shell = self.dialect(called, state);
        let (options, startup, mut arguments) = self.shell_options(&name, process);
        let files = self.startup_files(&options, startup, shell, process);
        let (outer, line) = split_place(&self.place);
        let (mut path, mut line) = (outer.to_owned(), Some(line));
        let text = if options.contains(&'c') {
            let code = arguments.drain(..arguments.len().min(1)).next();
            arguments.extend(arguments.is_empty().then_some(name));
            code.unwrap_or_default()
        } else if let Some(file) = arguments.first_mut().filter(|_| !options.contains(&'s')) {
            (path, line) = (state.absolute(file), None);
            if !file.contains('/') {
                let found = self.files.stat(&path).is_none().then(|| self.find_program(file, state));
                path = found.flatten().unwrap_or(path);
                file.clone_from(&path);
            }
            let is_written = self.touched.contains(&path) || is_open(file);
            let Some(text) = self.file_text(&path).filter(|_| !is_written) else {
                if is_written || self.files.stat(&path).is_some() {
                    self.assume_keeps(if is_written { "written" } else { "script" });
                }
                return self.note_program(None, process, state);
            };
            text
        } else if let Some(text) = state.input.clone() {
            arguments.insert(0, name);
            text
        } else {
            self.assume_keeps("stdin");
            return self.note_program(self.find_program(called, state), process, state);
        };
        let Some(script) = self.parse_script(&path, line, text, shell) else {
            return self.note_program(None, process, state);
        };
        let state = State {
            variables: exported_variables(&process.environment),
            functions: Rc::default(),
            arguments,
            shell,
            script,
            frames: Vec::new(),
            status: Some(true),
            sourced: 0,
            options,
            exit_trap: None,
            ..state.clone()
        };
        self.run_script(&files, process, state);
    }

    /// Parses the script of a new shell. If it has a syntax error, it is assumed to keep the loader variables.
    fn parse_script(&mut self, path: &str, line: Option<usize>, text: String, shell: Shell) -> Option<Rc<Script>> {
        let known = Some(text).filter(|text| !is_open(text));
        let script = known.and_then(|text| Script::parse(path, line, text, shell));
        let at = line.map_or_else(|| path.to_owned(), |_| self.place.clone());
        match &script {
            None => self.assume_at(
                "unparsed",
                &at,
                "the script, which could not be parsed, keeps the loader variables",
            ),
            Some(script) if script.is_foreign => {
                let text = "the script is read as the shell reads it, which lacks a part of its grammar";
                self.assume_at("unparsed", path, text);
            }
            Some(_) => {}
        }
        script
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
            "dash" => Shell::Dash,
            real if !real.contains("bash") && !name.contains("bash") => Shell::Dash,
            _ if name == "sh" => Shell::BashPosix,
            _ => Shell::Bash,
        }
    }

    /// The option letters, the argument of `--rcfile`, and the words behind the options.
    fn shell_options(&mut self, name: &str, process: &Process) -> (BTreeSet<char>, Option<String>, Vec<String>) {
        let (mut options, mut startup) = (BTreeSet::new(), None);
        let mut words = process.words.iter().skip(1).peekable();
        while let Some(word) = words.next_if(|word| word.starts_with(['-', '+']) && word.len() > 1 && *word != "--") {
            let letters = match word.as_str() {
                "--login" => "l",
                "--noprofile" => "Y",
                "--norc" | "--posix" => "Z",
                "--noediting" | "--verbose" => "",
                "--rcfile" | "--init-file" => {
                    startup = words.next().cloned();
                    ""
                }
                word => {
                    let letters = word.get(1..).unwrap_or_default();
                    if letters.chars().any(|letter| !OPTION_LETTERS.contains(letter)) {
                        self.assume_option(name, word);
                    }
                    letters
                }
            };
            let value = letters.ends_with(['o', 'O']).then(|| words.next()).flatten();
            options.extend(match value.map_or("", String::as_str) {
                "allexport" => Some(ALL_EXPORT),
                "extglob" => Some(EXT_GLOB),
                _ => None,
            });
            options.extend(letters.chars());
        }
        words.next_if(|word| *word == "--");
        (options, startup, words.cloned().collect())
    }

    /// The startup files that exist in the image or that a command may have written.
    fn startup_files(
        &mut self,
        options: &BTreeSet<char>,
        startup: Option<String>,
        shell: Shell,
        process: &Process,
    ) -> Vec<String> {
        let home = process.environment.get("HOME").map_or("/root", String::as_str);
        let is_there = |file: &String| self.files.stat(file).is_some() || self.touched.contains(file);
        let (is_interactive, is_login) = (options.contains(&INTERACTIVE), options.contains(&'l'));
        let mut files = Vec::new();
        if is_login && !options.contains(&NO_PROFILE) {
            let names: &[&str] = match shell {
                Shell::Bash => &[".bash_profile", ".bash_login", ".profile"],
                _ => &[".profile"],
            };
            files.push("/etc/profile".to_owned());
            files.extend(names.iter().map(|name| format!("{home}/{name}")).find(is_there));
        }
        let variable = match (shell, is_interactive) {
            (Shell::Bash, false) => Some("BASH_ENV"),
            (Shell::Bash, true) | (_, false) => None,
            (_, true) => Some("ENV"),
        };
        let mut file = variable.and_then(|name| process.environment.get(name)).cloned();
        let is_missing = file.as_ref().is_some_and(|file| !is_there(file));
        if shell == Shell::Bash && is_interactive && !is_login {
            file = Some(startup.unwrap_or_else(|| format!("{home}/.bashrc")));
        }
        files.extend(file.filter(|_| !options.contains(&NO_STARTUP)));
        files.retain(is_there);
        if is_missing {
            // It may be mounted, or its name has a variable.
            self.assume_keeps("source");
        }
        files
    }

    /// Runs the startup files and the script of a new shell.
    fn run_script(&mut self, files: &[String], process: &Process, state: State) {
        let script = Rc::clone(&state.script);
        // A script that starts itself with equal inputs recurses forever.
        let running = (script.text.clone(), process.clone(), state.user.clone());
        if self.running.contains(&running) {
            return;
        }
        self.running.push(running);
        let before = self.programs.len();
        let conditions = std::mem::take(&mut self.conditions);
        let mut states = vec![state];
        for file in files {
            for state in std::mem::take(&mut states) {
                match state.flow {
                    Flow::Next => states.extend(self.source(std::slice::from_ref(file), state)),
                    _ => states.push(state),
                }
            }
        }
        states = self.run_list(&script.body, states);
        for state in states.iter_mut().filter(|state| state.flow != Flow::Replaced) {
            if let Some(action) = state.exit_trap.take() {
                let flow = Flow::Next;
                self.evaluate(&action, State { flow, ..state.clone() });
            }
        }
        self.conditions = conditions;
        self.running.pop();
        if self.programs.len() == before {
            let outer = std::mem::replace(&mut self.place, script.path.clone());
            for state in &states {
                let end = Process::new(vec![script.path.clone()], state.environment(&Prefix::new()));
                self.note_program(None, &end, state);
            }
            self.cap_rank(before, Rank::Distribution);
            self.place = outer;
        }
        if conditions > 0 {
            self.cap_rank(before, Rank::Inside);
        }
    }

    /// Limits the rank of all programs from index `from` on.
    fn cap_rank(&mut self, from: usize, highest: Rank) {
        let programs = self.programs.iter_mut().skip(from);
        programs.for_each(|program| program.rank = program.rank.min(highest));
    }
}
