//! Programs that start the program named by their words, and their effect on environment, user and directory.

use crate::launch::{DEFAULT_PATH, Process, is_shell};
use crate::launcher_table::{GivenOptions, LaunchEnvironment, Launcher, Operands, OptionEffect};
use crate::reader::Reader;
use crate::state::{State, base_name};
use crate::value::is_open;

/// The directories of `libstdbuf.so` in coreutils.
const STDBUF_FOLDERS: [&str; 3] = ["/usr/libexec/coreutils", "/usr/lib/coreutils", "/usr/lib64/coreutils"];

impl Reader<'_> {
    /// Applies a launcher. Returns whether the remaining words start another program.
    pub(crate) fn apply_launcher(&mut self, launcher: &Launcher, process: &mut Process, state: &mut State) -> bool {
        let name = process.words.first().cloned().unwrap_or_default();
        let tool = base_name(&name);
        if self.find_program(&name, state).is_none() {
            self.assume_present(&name, &process.place);
        }
        match launcher.environment {
            LaunchEnvironment::Account => {
                self.switch_user(launcher, process, state);
                return false;
            }
            LaunchEnvironment::Sudo => self.become_root(process, state),
            _ => {}
        }
        let begin = usize::from(launcher.command.is_some());
        let mut given = launcher.read_options(process.words.get(begin..).unwrap_or_default());
        loop {
            let split = given.effects.pop_if(|(effect, _)| *effect == OptionEffect::Split);
            self.apply_options(&given, process, state);
            if let Some(option) = &given.unknown {
                self.assume_option(tool, option, &process.place);
            }
            let Some((_, text)) = split else { break };
            // `env -S` re-parses its words together with the words that follow.
            let plain = Some(text).filter(|text| !is_open(text) && !text.contains(['$', '\\']));
            let words = plain.and_then(|text| shlex::split(&text));
            let words = words.unwrap_or_else(|| vec![self.hole(&process.place, "the words of `env -S`")]);
            let again: Vec<String> = [name.clone()].into_iter().chain(words).chain(given.rest).collect();
            given = launcher.read_options(&again);
        }
        let mut rest = std::mem::take(&mut given.rest);
        match launcher.environment {
            LaunchEnvironment::Assumed => self.assume_keeps("launcher", &process.place),
            LaunchEnvironment::Sudo => rest = self.sudo_words(&given, rest, process, state),
            LaunchEnvironment::Loader if self.start_by_loader(&given, &rest, process, state) => return false,
            LaunchEnvironment::Kept | LaunchEnvironment::Account | LaunchEnvironment::Loader => {}
            LaunchEnvironment::Project => {
                let folder = format!("{}/.venv/bin", state.directory.trim_end_matches('/'));
                self.prepend_to_path(&folder, process);
            }
            LaunchEnvironment::Activated => {
                let reason = format!("LD_LIBRARY_PATH, which hooks of `{tool}` may set");
                let hole = self.hole(&process.place, &reason);
                process.set("LD_LIBRARY_PATH", hole);
                if let Some(folder) = self.environment_folder(&given, &name, state) {
                    self.prepend_to_path(&folder, process);
                }
            }
        }
        self.take_operands(launcher, &given, rest, process, state)
    }

    /// Starts a program through the dynamic loader (`ld.so PROGRAM`). Returns false if the words do not name one.
    fn start_by_loader(
        &mut self,
        given: &GivenOptions,
        words: &[String],
        process: &mut Process,
        state: &State,
    ) -> bool {
        // The loader's options do not apply to programs that a shell or launcher starts.
        let is_last = |word: &&String| !is_shell(word) && self.launchers.find(base_name(word), None).is_none();
        let Some(path) = words
            .first()
            .filter(is_last)
            .and_then(|word| self.find_program(word, state))
        else {
            return false;
        };
        if let Some(value) = given.value_of(OptionEffect::LibraryPath) {
            process.set("LD_LIBRARY_PATH", value);
        }
        if let Some(value) = given.value_of(OptionEffect::Preload) {
            process.set("LD_PRELOAD", value);
        }
        (process.words, process.is_loader_argument) = (words.to_vec(), true);
        self.note_program(Some(path), process, state);
        true
    }

    /// Consumes the operands between the launcher's options and the program.
    fn take_operands(
        &mut self,
        launcher: &Launcher,
        given: &GivenOptions,
        mut rest: Vec<String>,
        process: &mut Process,
        state: &mut State,
    ) -> bool {
        let mut take_first = || rest.drain(..rest.len().min(1)).next().unwrap_or_default();
        match launcher.operands {
            Operands::None => {}
            Operands::One => drop(take_first()),
            Operands::User | Operands::UserWithHome => {
                let user = take_first();
                if launcher.operands == Operands::UserWithHome {
                    process.set("HOME", self.home_and_shell(&user, &process.place).0);
                }
                state.user = self.user(&user);
            }
            Operands::Variables => {
                if rest.first().is_some_and(|word| word == "-") {
                    rest.remove(0);
                    process.environment.clear();
                }
                process.take_variables(&mut rest);
                if rest
                    .first()
                    .is_some_and(|word| is_open(word.split('=').next().unwrap_or_default()))
                {
                    self.assume_keeps("name", &process.place);
                }
                if rest.is_empty() {
                    let seen = self.find_program("env", state);
                    process.words.truncate(1);
                    self.note_program(seen, process, state);
                    return false;
                }
            }
            Operands::VariableFolder => {
                take_first();
                self.lose_environment(process);
            }
            Operands::Root => {
                let root = take_first();
                if root.trim_matches('/').is_empty() && !root.is_empty() {
                    "/".clone_into(&mut state.directory);
                } else {
                    // In another root directory, nothing known applies.
                    self.lose_environment(process);
                }
            }
            Operands::FileOrCode => {
                take_first();
                if rest.first().is_some_and(|word| word == "-c" || word == "--command") {
                    rest.splice(0..1, ["sh", "-c"].map(str::to_owned));
                }
            }
            Operands::More => {
                let hole = self.hole(&process.place, "words of the standard input");
                match given.value_of(OptionEffect::Replace) {
                    Some(mark) => rest.iter_mut().for_each(|word| *word = word.replace(mark, &hole)),
                    None => rest.extend((!rest.is_empty()).then_some(hole)),
                }
            }
        }
        process.words = rest;
        true
    }

    fn apply_options(&mut self, given: &GivenOptions, process: &mut Process, state: &mut State) {
        for (effect, value) in &given.effects {
            match effect {
                OptionEffect::Clear => process.environment.clear(),
                OptionEffect::Unset if is_open(value) => self.assume_keeps("name", &process.place),
                OptionEffect::Unset => drop(process.environment.remove(value)),
                OptionEffect::Set | OptionEffect::SetPair => {
                    if let Some((name, value)) = value.split_once(['=', '\0']) {
                        process.set(name, value);
                    }
                }
                OptionEffect::Export => export_list(value, process),
                OptionEffect::Directory => state.directory = state.absolute(value),
                OptionEffect::User => state.user = self.user(value),
                OptionEffect::Group => {
                    let user = state.user.name.split(':').next().unwrap_or_default();
                    state.user.name = format!("{user}:{value}");
                }
                OptionEffect::Reset => {
                    process.environment.retain(|name, _| name == "TERM");
                    process.set("HOME", self.home_and_shell(&state.user.name, &process.place).0);
                    process.set("PATH", DEFAULT_PATH);
                }
                OptionEffect::PreloadStdbuf => self.preload_stdbuf(process),
                OptionEffect::Unknown => self.lose_environment(process),
                // Other effects are handled by their own launcher.
                _ => {}
            }
        }
    }

    pub(crate) fn lose_environment(&mut self, process: &mut Process) {
        for variable in ["LD_LIBRARY_PATH", "LD_PRELOAD"] {
            let hole = self.hole(&process.place, &format!("{variable}, which `{}` sets", process.name()));
            process.set(variable, hole);
        }
    }

    fn preload_stdbuf(&mut self, process: &mut Process) {
        let multiarch = format!("/usr/lib/{}-linux-gnu/coreutils", self.machine);
        let folders = STDBUF_FOLDERS.into_iter().chain([multiarch.as_str()]);
        let mut libraries = folders.map(|folder| format!("{folder}/libstdbuf.so"));
        let library = libraries.find(|path| self.files.stat(path).is_some());
        let library = library.unwrap_or_else(|| self.hole(&process.place, "the library that stdbuf preloads"));
        let before = process.environment.entry("LD_PRELOAD".to_owned()).or_default();
        if before.is_empty() {
            *before = library;
        } else if !before.contains(&library) {
            *before = format!("{before}:{library}");
        }
    }

    fn prepend_to_path(&self, folder: &str, process: &mut Process) {
        if self.files.stat(folder).is_some() {
            let path = process.environment.get("PATH").map_or(DEFAULT_PATH, String::as_str);
            process.set("PATH", format!("{folder}:{path}"));
        }
    }

    /// The `bin` directory of the environment that `conda run -n NAME` or `-p FOLDER` selects.
    fn environment_folder(&self, given: &GivenOptions, tool: &str, state: &State) -> Option<String> {
        if let Some(folder) = given.value_of(OptionEffect::Directory) {
            return Some(format!("{folder}/bin"));
        }
        let real = self.files.resolve(&self.find_program(tool, state)?)?;
        let top = real.rsplit_once('/')?.0.rsplit_once('/')?.0;
        Some(format!("{top}/envs/{}/bin", given.value_of(OptionEffect::Keep)?))
    }
}

/// `srun --export` and `mpirun -x`. `ALL` keeps all other variables.
fn export_list(list: &str, process: &mut Process) {
    let names: Vec<&str> = list.split(',').collect();
    if !is_open(list) && !names.iter().any(|name| matches!(*name, "ALL" | "")) {
        process.environment.retain(|name, _| names.contains(&name.as_str()));
    }
    for (name, value) in names.iter().filter_map(|name| name.split_once('=')) {
        process.set(name, value);
    }
}
