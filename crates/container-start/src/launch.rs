//! From the words of a command to the programs it starts.

use std::collections::BTreeMap;

use crate::image_files::FileKind;
use crate::launcher_table::is_listed;
use crate::reader::{DEPTH, Reader, mentions_loader};
use crate::script::snippet;
use crate::state::{State, Variable, base_name};
use crate::value::{clean_text, is_open};
use crate::{Environment, Rank, StartedProgram};

/// The maximum length of a chain of launchers and scripts.
const CHAIN_LENGTH: usize = 24;
/// The names of shells.
const SHELLS: [&str; 5] = ["sh", "bash", "dash", "ash", "rbash"];
/// The search path if PATH is unset.
pub(crate) const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The set-user-ID and set-group-ID bits.
const SET_ID: u32 = 0o6000;
/// The maximum bytes of a file that are searched for a loader variable.
const MENTION_BYTES: usize = 64 << 10;
/// The ends of the names of Python's functions that replace the environment (os, subprocess).
const ENVIRONMENT_CALLS: [&str; 10] = [
    "execve(",
    "execle(",
    "execvpe(",
    "execlpe(",
    "spawnve(",
    "spawnle(",
    "spawnvpe(",
    "spawnlpe(",
    "posix_spawn(",
    "environ.clear(",
];

pub(crate) type ProcessEnvironment = BTreeMap<String, String>;

/// A process before its final exec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub words: Vec<String>,
    pub environment: ProcessEnvironment,
    pub is_loader_argument: bool,
    /// Whether a launcher may find its program elsewhere than on `PATH`.
    pub may_be_elsewhere: bool,
}

impl Process {
    pub(crate) fn new(words: Vec<String>, environment: ProcessEnvironment) -> Self {
        Self {
            words,
            environment,
            is_loader_argument: false,
            may_be_elsewhere: false,
        }
    }

    /// The base name of argv[0].
    pub(crate) fn name(&self) -> &str {
        self.words.first().map_or("", |name| base_name(name))
    }

    pub(crate) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.environment.insert(name.to_owned(), value.into());
    }

    /// Removes leading `NAME=VALUE` words and sets them.
    pub(crate) fn take_variables(&mut self, words: &mut Vec<String>) {
        let mut names = words.iter().map(|word| word.split_once('=').map(|(name, _)| name));
        let end = names.position(|name| name.is_none_or(|name| name.contains('/') || is_open(name)));
        for word in words.drain(..end.unwrap_or(words.len())) {
            let (name, value) = word.split_once('=').unwrap_or_default();
            self.set(name, value);
        }
    }
}

/// Whether a program name is that of a shell.
pub(crate) fn is_shell(called: &str) -> bool {
    SHELLS.contains(&base_name(called))
}

/// Whether a program name is that of a Python interpreter.
fn is_python(name: &str) -> bool {
    let bare = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    matches!(bare, "python" | "pypy")
}

impl Reader<'_> {
    /// Follows a process to its final programs.
    pub(crate) fn launch(&mut self, mut process: Process, state: &State) {
        let mut state = state.clone();
        state.output = None;
        if self.depth > DEPTH {
            return self.assume_keeps("depth");
        }
        self.depth += 1;
        let is_ended = (0..CHAIN_LENGTH).any(|_| !self.step() || !self.launch_once(&mut process, &mut state));
        self.depth -= 1;
        if !is_ended {
            self.assume_keeps("launcher");
            self.note_program(None, &process, &state);
        }
    }

    /// Follows one link of the chain. Returns whether another link follows.
    fn launch_once(&mut self, process: &mut Process, state: &mut State) -> bool {
        let Some(called) = process.words.first().cloned() else {
            return false;
        };
        if is_open(&called) {
            self.assume_keeps("program");
            self.note_program(None, process, state);
            return false;
        }
        let path = process.environment.get("PATH").map_or(DEFAULT_PATH, String::as_str);
        *state.variable_mut("PATH") = Variable::exported(path);
        let name = base_name(&called);
        if is_shell(name) {
            self.start_shell(process, state);
            return false;
        }
        if name == "find"
            && let Some(found) = self.find_exec_words(process)
        {
            process.words = found;
            return true;
        }
        let launchers = self.launchers;
        match launchers.find(name, process.words.get(1).map(String::as_str)) {
            Some(launcher) => self.apply_launcher(launcher, process, state),
            None => self.start_file(&called, process, state),
        }
    }

    /// Resolves a file as execve(2) does: an object ends the chain, a script continues with its interpreter.
    fn start_file(&mut self, called: &str, process: &mut Process, state: &State) -> bool {
        let name = base_name(called);
        let found = self.find_program(called, state);
        let wanted = found.clone().unwrap_or_else(|| state.absolute(called));
        let mut touched = self.touched.iter();
        if touched.any(|touched| *touched == wanted || base_name(touched) == name) {
            self.assume_keeps("written");
        }
        let Some((path, stat)) = found.and_then(|path| self.files.stat(&path).map(|stat| (path, stat))) else {
            self.note_program(None, process, state);
            return false;
        };
        let (is_object, is_packaged) = (stat.kind == FileKind::Object, self.is_packaged(&path));
        if (is_object || is_packaged) && self.may_start_others(name, process, state) {
            if stat.mode & SET_ID != 0 {
                // Whether its children run in secure-execution mode is unknown.
                self.lose_environment(process);
            }
            let snippet = if self.snippet.is_empty() { called } else { &self.snippet };
            let text = format!("`{snippet}` starts what it starts with the variables that it has itself");
            self.assume("launcher", &text);
        }
        if is_python(name) {
            self.note_python_environment(process, state);
        }
        let text = self.file_text(&path).filter(|_| !is_object);
        let first_line = text
            .as_deref()
            .and_then(|text| text.strip_prefix("#!"))
            .map(|text| text.split('\n').next().unwrap_or_default().trim());
        let is_python_script = first_line.is_some_and(|line| line.contains("python") || line.contains("pypy"));
        let is_followed = self.place == "config" || is_python_script || text.as_deref().is_some_and(mentions_loader);
        if is_object || text.is_none() || is_packaged && !is_followed {
            if text.is_none() && !is_object && (!is_packaged || is_followed) {
                // The content was not kept. It may be a script.
                self.assume_keeps("program");
            }
            self.note_program(Some(path), process, state);
            return false;
        }
        let line = first_line.unwrap_or("sh");
        let (interpreter, argument) = line.split_once([' ', '\t']).unwrap_or((line, ""));
        let begin = [interpreter, argument.trim(), &path];
        let words = begin.into_iter().filter(|word| !word.is_empty()).map(str::to_owned);
        process.words.splice(0..1, words);
        true
    }

    pub(crate) fn is_packaged(&self, path: &str) -> bool {
        let real = self.files.resolve(path);
        self.files.is_packaged(path) || real.is_some_and(|real| self.files.is_packaged(&real))
    }

    /// Whether a program may start others in a way that neither its words nor the launcher table shows.
    fn may_start_others(&self, name: &str, process: &Process, state: &State) -> bool {
        let mut words = process.words.iter().skip(1);
        if is_python(name) {
            // Python code is not followed. If it names a loader variable, it may start a program with a changed one.
            return words
                .any(|word| !is_open(word) && !word.starts_with('-') && self.file_mentions_loader(word, state));
        }
        !self.launchers.is_utility(name)
            && (is_listed(&self.launchers.starters, name) || words.any(|word| self.names_program(word, state)))
    }

    fn names_program(&self, word: &str, state: &State) -> bool {
        if mentions_loader(word) || is_shell(word) {
            return true;
        }
        if is_open(word) || !word.contains('/') {
            return false;
        }
        let path = state.absolute(word);
        let is_object = self.files.stat(&path).is_some_and(|stat| stat.kind == FileKind::Object);
        is_object
            || self.files.read(&path).is_some_and(|content| content.starts_with(b"#!"))
            || self.file_mentions_loader(word, state)
    }

    fn file_mentions_loader(&self, name: &str, state: &State) -> bool {
        let content = self.files.read(&state.absolute(name)).unwrap_or_default();
        let start = content.get(..MENTION_BYTES).unwrap_or(content);
        mentions_loader(&clean_text(start))
    }

    /// Records the first line of a Python script that starts a program with an environment of its own.
    fn note_python_environment(&mut self, process: &Process, state: &State) {
        for word in process.words.iter().skip(1) {
            let path = state.absolute(word);
            let Some(text) = self.file_text(&path) else { continue };
            let has_processes = text.contains("subprocess");
            let lines = text.lines().enumerate();
            let Some((number, line)) =
                lines
                    .filter(|(_, line)| !line.trim_start().starts_with('#'))
                    .find(|(_, line)| {
                        has_processes
                            && ["(env=", ",env=", " env=", "\tenv="]
                                .iter()
                                .any(|argument| line.contains(argument))
                            || ENVIRONMENT_CALLS.iter().any(|call| line.contains(call))
                    })
            else {
                continue;
            };
            let place = format!("{path}:{}", number + 1);
            let text = format!(
                "`{}` starts its program with the variables that it has itself",
                snippet(line)
            );
            self.assume_at("launcher", &place, &text);
        }
    }

    /// The command of `find -exec`.
    fn find_exec_words(&mut self, process: &Process) -> Option<Vec<String>> {
        let mut words = process.words.iter();
        words.find(|word| matches!(word.as_str(), "-exec" | "-execdir" | "-ok"))?;
        let hole = self.hole("a file that `find` finds");
        let command = words.take_while(|word| *word != ";" && *word != "+");
        Some(command.map(|word| word.replace("{}", &hole)).collect())
    }

    /// Records a started program.
    pub(crate) fn note_program(&mut self, path: Option<String>, process: &Process, state: &State) {
        let name = process.name();
        self.note_changes(name, process, state);
        let is_distributions = path.as_deref().is_some_and(|path| self.is_packaged(path)) && !is_python(name);
        let is_inside = state.is_substitution || self.conditions > 0 || path.is_none();
        let rank = match is_distributions {
            true => Rank::Distribution,
            false if is_inside => Rank::Inside,
            false => Rank::Started,
        };
        let holes = &self.holes;
        let variables = process.environment.iter();
        let environment = Environment {
            variables: variables
                .map(|(name, text)| (name.clone(), holes.value(text)))
                .collect(),
            branches: state.branches.clone(),
        };
        self.programs.push(StartedProgram {
            path,
            words: process.words.iter().map(|word| holes.value(word)).collect(),
            environments: vec![environment],
            user: holes.value(&state.user.name),
            directory: holes.value(&state.directory),
            rank,
            is_loader_argument: process.is_loader_argument,
            may_be_elsewhere: process.may_be_elsewhere,
            place: self.place.clone(),
            assumptions: Vec::new(),
        });
    }

    /// Records the image files that a program may change.
    fn note_changes(&mut self, name: &str, process: &Process, state: &State) {
        let own = process.words.iter().skip(1);
        let has = |asked: &[&str]| own.clone().any(|word| asked.contains(&word.as_str()));
        if name == "ldconfig" && !has(&["-p", "--print-cache"]) {
            // Other directories or another configuration than the default.
            if own.clone().any(|word| word != "-v" && word != "-X") {
                self.note_change("/etc/ld.so.conf");
            }
            self.ldconfig.get_or_insert_with(|| self.place.clone());
            return;
        }
        let deletes = name == "find" && has(&["-delete"]);
        if !self.launchers.may_write(name) && !deletes {
            return;
        }
        let is_changer = self.launchers.is_utility(name);
        for word in own.filter(|word| !word.starts_with('-')) {
            if is_open(word) && is_changer {
                // An unknown argument may be any file.
                self.note_change("/");
            } else if word.contains(['/', '.']) && !is_open(word) {
                let path = state.absolute(word);
                if is_changer || deletes {
                    self.note_change(&path);
                }
                self.touched.insert(path);
            }
        }
    }

    /// Locates a program as execvp(3) does.
    pub(crate) fn find_program(&self, name: &str, state: &State) -> Option<String> {
        if name.contains('/') {
            let path = state.absolute(name);
            return self.files.resolve(&path).map(|_| path);
        }
        let path = state.text("PATH").unwrap_or(DEFAULT_PATH);
        for folder in path.split(':').filter(|folder| !is_open(folder)) {
            let folder = if folder.is_empty() { "." } else { folder };
            let candidate = state.absolute(&format!("{folder}/{name}"));
            if let Some(stat) = self.files.stat(&candidate)
                && matches!(stat.kind, FileKind::Regular | FileKind::Object)
                && stat.mode & 0o111 != 0
            {
                return Some(candidate);
            }
        }
        None
    }
}
