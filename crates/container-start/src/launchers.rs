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
            self.assume_present(&name);
        }
        if launcher.environment == LaunchEnvironment::Sudo {
            self.become_root(process, state);
        }
        let begin = usize::from(!launcher.commands.is_empty());
        let mut given = launcher.read_options(process.words.get(begin..).unwrap_or_default());
        loop {
            let split = given.effects.pop_if(|(effect, _)| *effect == OptionEffect::Split);
            self.apply_options(&given, process, state);
            if let Some(option) = &given.unknown {
                self.assume_option(tool, option);
            }
            let Some((_, text)) = split else { break };
            // `env -S` re-parses its words together with the words that follow.
            let words = Some(text)
                .filter(|text| !is_open(text) && !text.contains(['$', '\\']))
                .and_then(|text| shlex::split(&text))
                .unwrap_or_else(|| vec![self.hole("the words of `env -S`")]);
            let again: Vec<String> = [name.clone()].into_iter().chain(words).chain(given.rest).collect();
            given = launcher.read_options(&again);
        }
        process.may_be_elsewhere |= launcher.finds_more() || given.has(OptionEffect::Unknown);
        let mut rest = std::mem::take(&mut given.rest);
        match launcher.environment {
            LaunchEnvironment::Kept => {}
            LaunchEnvironment::Assumed => self.assume_keeps("launcher"),
            LaunchEnvironment::Preloading => {
                let text = format!("the libraries that `{tool}` preloads keep the search of the program");
                self.assume("launcher", &text);
            }
            LaunchEnvironment::Account => rest = self.account_words(tool, &given, rest, process, state),
            LaunchEnvironment::Sudo => rest = self.sudo_words(&given, rest, process, state),
            LaunchEnvironment::Loader => self.apply_loader_options(&given, &rest, process),
            LaunchEnvironment::Project => {
                let folder = format!("{}/.venv/bin", state.directory.trim_end_matches('/'));
                if self.files.stat(&folder).is_some() {
                    let path = process.environment.get("PATH").map_or(DEFAULT_PATH, String::as_str);
                    process.set("PATH", format!("{folder}:{path}"));
                }
            }
            LaunchEnvironment::Activated => {
                let reason = format!("LD_LIBRARY_PATH, which hooks of `{tool}` may set");
                let hole = self.hole(&reason);
                process.set("LD_LIBRARY_PATH", hole);
            }
        }
        self.take_operands(launcher, &given, rest, process, state)
    }

    /// `ld.so --library-path PATH PROGRAM`: the options do not apply to what a shell or launcher starts.
    fn apply_loader_options(&self, given: &GivenOptions, rest: &[String], process: &mut Process) {
        let Some(program) = rest.first() else { return };
        // Shells and launchers start other programs.
        if is_shell(program) || self.launchers.find(base_name(program), None).is_some() {
            return;
        }
        process.is_loader_argument = true;
        let options = [
            (OptionEffect::LibraryPath, "LD_LIBRARY_PATH"),
            (OptionEffect::Preload, "LD_PRELOAD"),
        ];
        for (effect, variable) in options {
            if let Some(value) = given.value_of(effect) {
                process.set(variable, value);
            }
        }
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
        let has_operand = !matches!(launcher.operands, Operands::None | Operands::Variables | Operands::More);
        let count = rest.len().min(usize::from(has_operand));
        let operand = rest.drain(..count).next().unwrap_or_default();
        match launcher.operands {
            Operands::None | Operands::One => {}
            Operands::User => state.user = self.user(&operand),
            Operands::UserWithHome => {
                process.set("HOME", self.home_and_shell(&operand).0);
                state.user = self.user(&operand);
            }
            Operands::Variables => {
                if rest.first().is_some_and(|word| word == "-") {
                    rest.remove(0);
                    process.environment.clear();
                }
                process.take_variables(&mut rest);
                let name = rest.first().and_then(|word| word.split('=').next());
                if name.is_some_and(is_open) {
                    self.assume_keeps("name");
                }
                if rest.is_empty() {
                    let seen = self.find_program("env", state);
                    process.words.truncate(1);
                    self.note_program(seen, process, state);
                    return false;
                }
            }
            Operands::Unknown => self.lose_environment(process),
            Operands::FileOrCode => {
                if rest.first().is_some_and(|word| word == "-c" || word == "--command") {
                    rest.splice(0..1, ["sh", "-c"].map(str::to_owned));
                }
            }
            Operands::More => {
                let hole = self.hole("words of the standard input");
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
                OptionEffect::Unset if is_open(value) => self.assume_keeps("name"),
                OptionEffect::Unset => drop(process.environment.remove(value)),
                OptionEffect::Set | OptionEffect::SetList => {
                    let separators: &[char] = if *effect == OptionEffect::SetList { &[','] } else { &[] };
                    let pairs = value.split(separators).filter_map(|pair| pair.split_once('='));
                    pairs.for_each(|(name, value)| process.set(name, value));
                }
                OptionEffect::Directory => state.directory = state.absolute(value),
                OptionEffect::User => state.user = self.user(value),
                OptionEffect::Group => set_group(value, state),
                OptionEffect::EffectiveUser => {
                    self.lose_environment(process);
                    // Only root may do this, and it keeps its group.
                    let group = state.user.name.split_once(':').map_or("0", |(_, group)| group);
                    state.user = self.user(&format!("{value}:{group}"));
                }
                OptionEffect::EffectiveGroup => {
                    self.lose_environment(process);
                    set_group(value, state);
                }
                OptionEffect::Reset => {
                    process.environment.retain(|name, _| name == "TERM");
                    process.set("HOME", self.home_and_shell(&state.user.name).0);
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
            let hole = self.hole(&format!("{variable}, which `{}` sets", process.name()));
            process.set(variable, hole);
        }
    }

    fn preload_stdbuf(&mut self, process: &mut Process) {
        let multiarch = format!("/usr/lib/{}-linux-gnu/coreutils", self.machine);
        let folders = STDBUF_FOLDERS.into_iter().chain([multiarch.as_str()]);
        let library = folders
            .map(|folder| format!("{folder}/libstdbuf.so"))
            .find(|path| self.files.stat(path).is_some())
            .unwrap_or_else(|| self.hole("the library that stdbuf preloads"));
        let before = process.environment.entry("LD_PRELOAD".to_owned()).or_default();
        if before.is_empty() {
            *before = library;
        } else if !before.contains(&library) {
            *before = format!("{before}:{library}");
        }
    }
}

fn set_group(group: &str, state: &mut State) {
    let user = state.user.name.split(':').next().unwrap_or_default();
    state.user.name = format!("{user}:{group}");
}
