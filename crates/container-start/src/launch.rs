//! From the words of a program to what it starts: launchers, scripts, the dynamic loader.

use std::collections::BTreeMap;

use crate::commands::{DEFAULT_PATH, base_name};
use crate::image_files::FileKind;
use crate::launcher_table::{GivenOptions, LaunchEnvironment, Launcher, Operands, OptionEffect};
use crate::reader::{DEPTH, Reader, SeenProgram, split_place};
use crate::state::{ShellValue, State, Variable};
use crate::value::is_open;
use crate::{LOADER_VARIABLES, Rank};

/// The launchers and scripts that start each other.
const CHAIN: usize = 24;
/// The names of shells.
pub(crate) const SHELLS: [&str; 5] = ["sh", "bash", "dash", "ash", "rbash"];
/// The bits by which a program takes on the user or group of its file.
const SET_ID: u32 = 0o6000;
/// The bytes of a file in which a loader variable is looked for.
const MENTION_BYTES: usize = 64 << 10;
/// Where coreutils has the library that stdbuf preloads.
const STDBUF_FOLDERS: [&str; 4] = [
    "/usr/libexec/coreutils",
    "/usr/lib/coreutils",
    "/usr/lib64/coreutils",
    "/usr/lib/x86_64-linux-gnu/coreutils",
];

pub(crate) type ProcessEnvironment = BTreeMap<String, String>;

/// Whether a name is that of a Python.
fn is_python(name: &str) -> bool {
    let bare = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    matches!(bare, "python" | "pypy")
}

/// Whether a name is that of a dynamic loader.
fn is_loader(name: &str) -> bool {
    ["ld-linux", "ld-musl-", "ld.so", "ld64.so", "ld-2."]
        .iter()
        .any(|begin| name.starts_with(begin))
}

impl Reader<'_> {
    /// Follows the words of a program, as a process of its own, to the programs that come of it.
    pub(crate) fn launch(&mut self, words: Vec<String>, environment: ProcessEnvironment, state: &State, place: &str) {
        let mut state = state.clone();
        state.output = None;
        if self.depth > DEPTH {
            return self.assume_keeps("depth", place);
        }
        self.depth += 1;
        let mut process = Process {
            words,
            environment,
            is_loader_argument: false,
        };
        for _ in 0..CHAIN {
            if !self.step() || !self.launch_once(&mut process, &mut state, place) {
                self.depth -= 1;
                return;
            }
        }
        self.depth -= 1;
        self.assume_keeps("launcher", place);
        self.note_program(None, &process, &state, place);
    }

    /// One link of the chain; whether another follows.
    fn launch_once(&mut self, process: &mut Process, state: &mut State, place: &str) -> bool {
        let Some(called) = process.words.first().cloned() else {
            return false;
        };
        if is_open(&called) {
            self.assume_keeps("program", place);
            self.note_program(None, process, state, place);
            return false;
        }
        let path = process
            .environment
            .get("PATH")
            .map_or(DEFAULT_PATH, String::as_str)
            .to_owned();
        *state.variable_mut("PATH") = Variable {
            value: Some(ShellValue::Text(path)),
            is_exported: true,
            is_readonly: false,
        };
        let name = base_name(&called).to_owned();
        if SHELLS.contains(&name.as_str()) {
            self.start_shell(process, state, place);
            return false;
        }
        if is_loader(&name) && process.words.len() > 1 {
            return self.pass_loader(process, state, place);
        }
        let next = process.words.get(1).cloned();
        if name == "busybox" {
            process.words.remove(0);
            return true;
        }
        if name == "find"
            && let Some(found) = self.found_words(&process.words, place)
        {
            process.words = found;
            return true;
        }
        if let Some(launcher) = self.launchers.find(&name, next.as_deref()) {
            if matches!(name.as_str(), "su" | "runuser") {
                self.switch_user(launcher, &process.words, process.environment.clone(), state, place);
                return false;
            }
            return self.pass_launcher(launcher, process, state, place);
        }
        self.reach_file(&called, &name, process, state, place)
    }

    /// A file that the kernel starts.
    fn reach_file(&mut self, called: &str, name: &str, process: &mut Process, state: &State, place: &str) -> bool {
        let found = self.find_program(called, state);
        let wanted = found.clone().unwrap_or_else(|| state.absolute(called));
        let is_written = state
            .touched
            .keys()
            .any(|touched| *touched == wanted || base_name(touched) == name);
        if is_written {
            self.assume_keeps("written", place);
        }
        let Some((path, stat)) = found.and_then(|path| self.files.stat(&path).map(|stat| (path, stat))) else {
            self.note_program(None, process, state, place);
            return false;
        };
        let is_packaged = self.is_packaged(&path);
        if (stat.kind == FileKind::Object || is_packaged) && self.may_start_others(name, process, state) {
            if stat.mode & SET_ID != 0 {
                // What it starts is executed securely, or not.
                self.lose_environment(process, place);
            }
            let (script, line) = split_place(place);
            let text = format!(
                "`{}` starts what it starts with the variables that it has itself",
                self.snippet_or(called)
            );
            self.assume_at("launcher", script, line, text);
        }
        let text = self.file_text(state, &path);
        let first_line = text.as_deref().and_then(|text| text.strip_prefix("#!")).map(first_line);
        let is_followed = place == "config"
            || first_line.is_some_and(|line| line.contains("python") || line.contains("pypy"))
            || text
                .as_deref()
                .is_some_and(|text| LOADER_VARIABLES.iter().any(|name| text.contains(name)));
        match first_line {
            _ if stat.kind == FileKind::Object || is_packaged && !is_followed => {
                self.note_program(Some(path), process, state, place);
                false
            }
            None if text.is_none() => {
                // Its content is not at hand: a script of it would be read by its interpreter.
                self.assume_keeps("program", place);
                self.note_program(Some(path), process, state, place);
                false
            }
            None => {
                let rest = process.words.split_off(1);
                process.words = ["sh".to_owned(), path].into_iter().chain(rest).collect();
                true
            }
            Some(line) => {
                let (interpreter, argument) = match line.trim().split_once([' ', '\t']) {
                    Some((interpreter, argument)) => (interpreter, Some(argument.trim())),
                    None => (line.trim(), None),
                };
                let rest = process.words.split_off(1);
                let begin = [Some(interpreter), argument].into_iter().flatten().map(str::to_owned);
                process.words = begin.chain([path]).chain(rest).collect();
                true
            }
        }
    }

    fn snippet_or(&self, called: &str) -> String {
        if self.snippet.is_empty() {
            called.to_owned()
        } else {
            self.snippet.clone()
        }
    }

    pub(crate) fn is_packaged(&self, path: &str) -> bool {
        let real = self.files.resolve(path);
        self.files.is_packaged(path) || real.is_some_and(|real| self.files.is_packaged(&real))
    }

    /// Whether a program starts others that its words do not show, or show in a way that no table knows.
    fn may_start_others(&self, name: &str, process: &Process, state: &State) -> bool {
        let mentions = |word: &str| {
            let content = self.files.read(&state.absolute(word)).unwrap_or_default();
            let begin = String::from_utf8_lossy(content.get(..MENTION_BYTES).unwrap_or(content));
            LOADER_VARIABLES.iter().any(|name| begin.contains(name))
        };
        let names_program = |word: &String| {
            if LOADER_VARIABLES.iter().any(|name| word.contains(name)) || SHELLS.contains(&base_name(word)) {
                return true;
            }
            if is_open(word) || !word.contains('/') {
                return false;
            }
            let path = state.absolute(word);
            let is_object = self.files.stat(&path).is_some_and(|stat| stat.kind == FileKind::Object);
            let is_script = self.files.read(&path).is_some_and(|content| content.starts_with(b"#!"));
            is_object || is_script || mentions(word)
        };
        let mut words = process.words.iter().skip(1);
        if is_python(name) {
            // Its source is not followed; one that names a loader variable may start a program with another one.
            return words.any(|word| !is_open(word) && !word.starts_with('-') && mentions(word));
        }
        !self.launchers.is_utility(name) && (self.launchers.is_starter(name) || words.any(names_program))
    }

    /// `ld.so [OPTION]… PROGRAM`: the loader itself is told what to run (ld.so(8)).
    fn pass_loader(&mut self, process: &mut Process, state: &State, place: &str) -> bool {
        let flags = [
            "--inhibit-cache",
            "--list",
            "--verify",
            "--list-tunables",
            "--list-diagnostics",
        ];
        let valued = [
            "--library-path",
            "--preload",
            "--audit",
            "--argv0",
            "--inhibit-rpath",
            "--glibc-hwcaps-prepend",
            "--glibc-hwcaps-mask",
        ];
        let effects = [
            ("--library-path", OptionEffect::Set),
            ("--preload", OptionEffect::SetPair),
        ];
        let launcher = Launcher {
            flags: flags.map(str::to_owned).to_vec(),
            valued: valued.map(str::to_owned).to_vec(),
            effects: effects
                .map(|(name, effect)| (name.to_owned(), effect))
                .into_iter()
                .collect(),
            ..Launcher::default()
        };
        let given = launcher.read_options(&process.words);
        if let Some(option) = &given.unknown {
            self.assume_option(&process.words, option, place);
        }
        // For what the program starts itself they do not hold.
        let starts_itself = given.rest.first().is_some_and(|program| {
            SHELLS.contains(&base_name(program)) || self.launchers.find(base_name(program), None).is_some()
        });
        for (effect, name) in [
            (OptionEffect::Set, "LD_LIBRARY_PATH"),
            (OptionEffect::SetPair, "LD_PRELOAD"),
        ] {
            if let Some(value) = given.value_of(effect).filter(|_| !starts_itself) {
                process.environment.insert(name.to_owned(), value.to_owned());
            }
        }
        process.words = given.rest;
        process.is_loader_argument = true;
        let is_program = process.words.first().and_then(|name| self.find_program(name, state));
        if let Some(path) = is_program.filter(|_| !starts_itself) {
            self.note_program(Some(path), process, state, place);
            return false;
        }
        process.is_loader_argument = false;
        true
    }

    /// What `find -exec` starts.
    fn found_words(&mut self, words: &[String], place: &str) -> Option<Vec<String>> {
        let at = words
            .iter()
            .position(|word| matches!(word.as_str(), "-exec" | "-execdir" | "-ok"))?;
        let hole = self.hole(place, "a file that `find` finds");
        let command = words
            .iter()
            .skip(at + 1)
            .take_while(|word| *word != ";" && *word != "+");
        Some(command.map(|word| word.replace("{}", &hole)).collect())
    }

    fn pass_launcher(&mut self, launcher: &Launcher, process: &mut Process, state: &mut State, place: &str) -> bool {
        let name = process.words.first().cloned().unwrap_or_default();
        if self.find_program(&name, state).is_none() {
            let (path, line) = split_place(place);
            self.assume_at(
                "missing",
                path,
                line,
                format!("{name}, which is not in the image, is there when it starts"),
            );
        }
        if launcher.environment == LaunchEnvironment::Sudo {
            process.environment = self.sudo_environment(std::mem::take(&mut process.environment), place);
            state.user = self.user("root");
        }
        let mut words = process.words.clone();
        if launcher.command.is_some() {
            words.remove(0);
        }
        let mut given = launcher.read_options(&words);
        loop {
            let is_split = given
                .effects
                .last()
                .is_some_and(|(effect, _)| *effect == OptionEffect::Split);
            let text = is_split.then(|| given.effects.pop()).flatten();
            self.apply_options(&given, process, state, place);
            if let Some(option) = &given.unknown {
                self.assume_option(&process.words, option, place);
            }
            let Some((_, text)) = text else { break };
            // The words of `env -S` are read again with what follows.
            let mut again = vec![name.clone()];
            again.extend(self.split_words(&text, place));
            again.extend(given.rest);
            given = launcher.read_options(&again);
        }
        let mut rest = given.rest.clone();
        match launcher.environment {
            LaunchEnvironment::Kept => {}
            LaunchEnvironment::Assumed => self.assume_keeps("launcher", place),
            LaunchEnvironment::Sudo => {
                let (home, shell) = self.home_and_shell(&state.user.name.clone(), place);
                process.environment.insert("HOME".to_owned(), home);
                take_variables(&mut rest, &mut process.environment);
                if given.has(OptionEffect::Login) || given.has(OptionEffect::Shell) {
                    let login = given.has(OptionEffect::Login).then(|| "-l".to_owned());
                    let code = (!rest.is_empty()).then(|| ["-c".to_owned(), rest.join(" ")]);
                    rest = [shell]
                        .into_iter()
                        .chain(login)
                        .chain(code.into_iter().flatten())
                        .collect();
                }
            }
            LaunchEnvironment::Project => {
                let folder = format!("{}/.venv/bin", state.directory.trim_end_matches('/'));
                self.put_first(&folder, process);
            }
            LaunchEnvironment::Activated => {
                let hole = self.hole(
                    place,
                    &format!("LD_LIBRARY_PATH, which hooks of `{}` may set", base_name(&name)),
                );
                process.environment.insert("LD_LIBRARY_PATH".to_owned(), hole);
                if let Some(folder) = self.environment_folder(&given, &name, state) {
                    self.put_first(&folder, process);
                }
            }
        }
        self.take_operands(launcher, &given, rest, process, state, place)
    }

    /// The words in front of the program.
    fn take_operands(
        &mut self,
        launcher: &Launcher,
        given: &GivenOptions,
        mut rest: Vec<String>,
        process: &mut Process,
        state: &mut State,
        place: &str,
    ) -> bool {
        let take_first = |rest: &mut Vec<String>| if rest.is_empty() { String::new() } else { rest.remove(0) };
        match launcher.operands {
            Operands::None => {}
            Operands::One => drop(take_first(&mut rest)),
            Operands::User | Operands::UserWithHome => {
                let user = take_first(&mut rest);
                if launcher.operands == Operands::UserWithHome {
                    let (home, _) = self.home_and_shell(&user, place);
                    process.environment.insert("HOME".to_owned(), home);
                }
                state.user = self.user(&user);
            }
            Operands::Variables => {
                if rest.first().is_some_and(|word| word == "-") {
                    rest.remove(0);
                    process.environment.clear();
                }
                take_variables(&mut rest, &mut process.environment);
                if rest
                    .first()
                    .is_some_and(|word| is_open(word.split('=').next().unwrap_or_default()))
                {
                    self.assume_keeps("name", place);
                }
                if rest.is_empty() {
                    let seen = self.find_program("env", state);
                    process.words.truncate(1);
                    self.note_program(seen, process, state, place);
                    return false;
                }
            }
            Operands::VariableFolder => {
                take_first(&mut rest);
                self.lose_environment(process, place);
            }
            Operands::Root => {
                let root = take_first(&mut rest);
                if root.trim_matches('/').is_empty() && !root.is_empty() {
                    state.directory = "/".to_owned();
                } else {
                    // In another root nothing of what is known counts.
                    self.lose_environment(process, place);
                }
            }
            Operands::FileOrCode => {
                take_first(&mut rest);
                if rest.first().is_some_and(|word| word == "-c" || word == "--command") {
                    rest.splice(0..1, ["sh".to_owned(), "-c".to_owned()]);
                }
            }
            Operands::More => {
                let hole = self.hole(place, "words of the standard input");
                match given.value_of(OptionEffect::Replace) {
                    Some(mark) => rest.iter_mut().for_each(|word| *word = word.replace(mark, &hole)),
                    None if !rest.is_empty() => rest.push(hole),
                    None => {}
                }
            }
        }
        process.words = rest;
        true
    }

    fn apply_options(&mut self, given: &GivenOptions, process: &mut Process, state: &mut State, place: &str) {
        for (effect, value) in &given.effects {
            let environment = &mut process.environment;
            match effect {
                OptionEffect::Clear => environment.clear(),
                OptionEffect::Unset if is_open(value) => self.assume_keeps("name", place),
                OptionEffect::Unset => drop(environment.remove(value)),
                OptionEffect::Set => {
                    if let Some((name, value)) = value.split_once('=') {
                        environment.insert(name.to_owned(), value.to_owned());
                    }
                }
                OptionEffect::SetPair => {
                    if let Some((name, value)) = value.split_once('\0') {
                        environment.insert(name.to_owned(), value.to_owned());
                    }
                }
                OptionEffect::Export => export_list(value, environment),
                OptionEffect::Directory => state.directory = state.absolute(value),
                OptionEffect::User => state.user = self.user(value),
                OptionEffect::Group => {
                    let user = state.user.name.split(':').next().unwrap_or_default();
                    state.user.name = format!("{user}:{value}");
                }
                OptionEffect::Reset => {
                    let (home, _) = self.home_and_shell(&state.user.name.clone(), place);
                    let kept = environment.remove("TERM").map(|term| ("TERM".to_owned(), term));
                    *environment = kept.into_iter().collect();
                    environment.insert("HOME".to_owned(), home);
                    environment.insert("PATH".to_owned(), DEFAULT_PATH.to_owned());
                }
                OptionEffect::PreloadStdbuf => self.preload_stdbuf(environment, place),
                OptionEffect::Unknown => self.lose_environment(process, place),
                OptionEffect::Split
                | OptionEffect::Replace
                | OptionEffect::Code
                | OptionEffect::Login
                | OptionEffect::Shell
                | OptionEffect::Keep
                | OptionEffect::KeepList => {}
            }
        }
    }

    fn lose_environment(&mut self, process: &mut Process, place: &str) {
        let name = process.words.first().map_or("", |name| base_name(name)).to_owned();
        for variable in ["LD_LIBRARY_PATH", "LD_PRELOAD"] {
            let hole = self.hole(place, &format!("{variable}, which `{name}` sets"));
            process.environment.insert(variable.to_owned(), hole);
        }
    }

    fn preload_stdbuf(&mut self, environment: &mut ProcessEnvironment, place: &str) {
        let mut libraries = STDBUF_FOLDERS.iter().map(|folder| format!("{folder}/libstdbuf.so"));
        let library = libraries.find(|path| self.files.stat(path).is_some());
        let library = library.unwrap_or_else(|| self.hole(place, "the library that stdbuf preloads"));
        let before = environment.entry("LD_PRELOAD".to_owned()).or_default();
        if before.is_empty() {
            *before = library;
        } else if !before.contains(&library) {
            *before = format!("{before}:{library}");
        }
    }

    fn put_first(&self, folder: &str, process: &mut Process) {
        if self.files.stat(folder).is_some() {
            let path = process.environment.get("PATH").map_or(DEFAULT_PATH, String::as_str);
            process
                .environment
                .insert("PATH".to_owned(), format!("{folder}:{path}"));
        }
    }

    /// The programs of the environment that `conda run -n NAME` or `-p FOLDER` names.
    fn environment_folder(&self, given: &GivenOptions, tool: &str, state: &State) -> Option<String> {
        let named = given.value_of(OptionEffect::Keep).map(|name| {
            let tool = self.find_program(tool, state)?;
            let real = self.files.resolve(&tool)?;
            let top = real.rsplit_once('/')?.0.rsplit_once('/')?.0.to_owned();
            Some(format!("{top}/envs/{name}/bin"))
        });
        named.flatten().or_else(|| {
            given
                .value_of(OptionEffect::Directory)
                .map(|folder| format!("{folder}/bin"))
        })
    }

    /// The words of `env -S`, as far as they are plain.
    fn split_words(&mut self, text: &str, place: &str) -> Vec<String> {
        let (mut words, mut word, mut quote, mut is_begun) = (Vec::new(), String::new(), None, false);
        if is_open(text) || text.contains(['$', '\\']) {
            return vec![self.hole(place, "the words of `env -S`")];
        }
        for letter in text.chars() {
            match (letter, quote) {
                (letter, Some(mark)) if letter == mark => quote = None,
                ('"' | '\'', None) => {
                    quote = Some(letter);
                    is_begun = true;
                }
                (letter, None) if letter.is_whitespace() => {
                    if is_begun {
                        words.push(std::mem::take(&mut word));
                    }
                    is_begun = false;
                }
                (letter, _) => {
                    word.push(letter);
                    is_begun = true;
                }
            }
        }
        words.extend(is_begun.then_some(word));
        words
    }

    /// Remembers a program that starts.
    pub(crate) fn note_program(&mut self, path: Option<String>, process: &Process, state: &State, place: &str) {
        let name = process.words.first().map_or("", |name| base_name(name));
        let called = name.to_owned();
        self.note_changes(&called, &process.words, state, place);
        let name = called.as_str();
        let is_distributions = path.as_deref().is_some_and(|path| self.is_packaged(path)) && !is_python(name);
        let is_inside = state.is_substitution || self.conditions > 0 || path.is_none();
        self.programs.push(SeenProgram {
            path,
            words: process.words.clone(),
            environment: process.environment.clone(),
            branches: state.branches.clone(),
            directory: state.directory.clone(),
            user: state.user.clone(),
            rank: match () {
                () if is_distributions => Rank::Distribution,
                () if is_inside => Rank::Inside,
                () => Rank::Started,
            },
            is_loader_argument: process.is_loader_argument,
            place: place.to_owned(),
        });
    }
}

/// A process on its way to its program.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    pub words: Vec<String>,
    pub environment: ProcessEnvironment,
    pub is_loader_argument: bool,
}

fn first_line(text: &str) -> &str {
    text.split('\n').next().unwrap_or_default()
}

/// Takes the words `NAME=VALUE` in front.
fn take_variables(rest: &mut Vec<String>, environment: &mut ProcessEnvironment) {
    while let Some((name, value)) = rest.first().and_then(|word| word.split_once('=')) {
        if name.contains('/') || is_open(name) {
            break;
        }
        environment.insert(name.to_owned(), value.to_owned());
        rest.remove(0);
    }
}

/// `srun --export` and `mpirun -x`: `ALL` keeps the others.
fn export_list(list: &str, environment: &mut ProcessEnvironment) {
    let names: Vec<&str> = list.split(',').collect();
    if !is_open(list) && !names.iter().any(|name| matches!(*name, "ALL" | "")) {
        environment.retain(|name, _| names.contains(&name.as_str()));
    }
    for (name, value) in names.iter().filter_map(|name| name.split_once('=')) {
        environment.insert(name.to_owned(), value.to_owned());
    }
}
