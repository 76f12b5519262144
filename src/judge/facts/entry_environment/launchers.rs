//! Programs of the image that start others with an environment of their own making: scripts of Python, and objects.

use super::{CommandFollower, is_option};
use crate::byte_search::contains_bytes;
use crate::judge::facts::opened_names::imports_any;
use crate::judge::facts::python::{PythonEnvironment, PythonSettings, SettingSources, is_too_long};
use crate::judge::facts::shell_script::{LOADER, ScriptFiles as _, VariableValue};
use crate::knowledge::ProgramLauncher;
use crate::knowledge::file_interest::ENVIRONMENT_CALLS;
use image_linkage::elf::ElfFacts;
use image_linkage::escape;
use image_linkage::path::RootPath;
use image_linkage::rootfs::FileUse;
use std::collections::BTreeMap;

/// What starts another program in Python: by itself, and with an environment that is handed to it.
const STARTS: [&str; 6] = [
    "subprocess.",
    "os.exec",
    "os.spawn",
    "posix_spawn",
    "os.system",
    "Popen",
];
const WITH_ENVIRONMENT: [&str; 12] = [
    "env=",
    "environ =",
    "environ.update(",
    "environ |=",
    "execve(",
    "execle(",
    "execvpe(",
    "execlpe(",
    "spawnve(",
    "spawnle(",
    "posix_spawn",
    "environ.clear",
];

/// What makes another process of a Python one: its user, or its root directory.
const BECOMES_ANOTHER: [&str; 6] = [
    "os.setuid(",
    "os.setgid(",
    "os.setreuid(",
    "os.setresuid(",
    "os.setgroups(",
    "os.chroot(",
];

impl CommandFollower<'_> {
    /// `python [OPTION]… (-c TEXT | -m MODULE | SCRIPT)`.
    pub(super) fn python(&mut self) -> bool {
        let own = PythonCommand::read(&self.words);
        let is_module = |launcher: &&ProgramLauncher| {
            launcher
                .modules
                .iter()
                .any(|module| Some(module) == own.module.as_ref())
        };
        if let Some(launcher) = self.launchers.iter().find(is_module) {
            let before = self.words.len() - own.arguments.as_ref().map_or(0, |words| words.len() - 1);
            let interpreter = self.words.drain(..before).next().flatten().unwrap_or_default();
            self.words.insert(0, Some(interpreter.clone()));
            return self.launch(launcher, &interpreter);
        }
        if let Some(script) = &own.script {
            self.miss("python", script);
            let path = self.absolute(script);
            if path.is_some_and(|path| self.is_closed(&path, FileUse::Read)) {
                return false;
            }
        }
        let text = own.text_in(self);
        let script = own.script.clone().unwrap_or_else(|| "its text".to_owned());
        let holds = |word: &&str| text.contains(*word);
        let script = escape::escape_bytes(script.as_bytes());
        self.doubt_text(&text, &script);
        if holds(&"os.chdir(") {
            self.directory = None;
        }
        let changes = LOADER.iter().chain(&WITH_ENVIRONMENT).any(holds);
        if changes && STARTS.iter().any(holds) {
            return self.lose();
        }
        false
    }

    /// Notes what of the text of a script only a run could tell.
    fn doubt_text(&mut self, text: &str, script: &str) {
        let called = BECOMES_ANOTHER.iter().find(|call| text.contains(**call));
        let said = if is_too_long(text) {
            "does: it is longer than what is read".to_owned()
        } else if let Some(call) = called {
            format!("becomes by `{call})`")
        } else {
            return;
        };
        self.doubt
            .get_or_insert_with(|| format!("only a run could tell what {script} {said}"));
    }

    /// Whether an object calls what makes an environment: it names a variable of the loader beside it, empties all, or hands
    /// one to a program that is not its own.
    pub(super) fn makes_environment(&self, path: &str) -> bool {
        let makes = |elf: &ElfFacts| {
            let has = |name: &str| elf.symbols.iter().any(|symbol| name.as_bytes() == &*symbol.name);
            let mut texts = elf.mentions.iter().chain(&elf.fragments);
            let mut names = || texts.any(|text| LOADER.iter().any(|name| contains_bytes(text, name.as_bytes())));
            let hands = ["execve", "execle", "execvpe", "posix_spawn", "posix_spawnp"];
            let is_own = ["environ", "__environ", "_environ"].iter().any(|name| has(name));
            has("clearenv")
                || !is_own && hands.iter().any(|name| has(name))
                || imports_any(elf, &ENVIRONMENT_CALLS) && names()
        };
        let file = self.rootfs.file(path.as_bytes());
        file.and_then(|file| file.elf.as_deref()).is_some_and(makes)
    }
}

/// What a Python is given.
struct PythonCommand {
    script: Option<String>,
    module: Option<String>,
    /// The text behind `-c`.
    text: Option<String>,
    /// The words behind it, with its own name; `None` where one is not known.
    arguments: Option<Vec<String>>,
}

impl PythonCommand {
    fn read(words: &[Option<String>]) -> Self {
        let mut command = Self {
            script: None,
            module: None,
            text: None,
            arguments: None,
        };
        let mut rest = words.iter().skip(1);
        while let Some(Some(word)) = rest.next() {
            match word.as_str() {
                "-c" => command.text = rest.next().cloned().flatten(),
                "-m" => command.module = rest.next().cloned().flatten(),
                "-W" | "-X" => {
                    rest.next();
                    continue;
                }
                word if let Some(text) = word.strip_prefix("-c") => command.text = Some(text.to_owned()),
                word if let Some(module) = word.strip_prefix("-m") => command.module = Some(module.to_owned()),
                word if is_option(word) => continue,
                word => command.script = Some(word.to_owned()),
            }
            break;
        }
        let name = command.script.clone().unwrap_or_else(|| "-c".to_owned());
        command.arguments = [Some(name)].into_iter().chain(rest.cloned()).collect();
        command
    }

    /// The text that runs, as far as it is kept.
    fn text_in(&self, follower: &CommandFollower<'_>) -> String {
        let text = self.script.as_ref().and_then(|script| follower.kept_text(script));
        self.text.clone().or(text).unwrap_or_default()
    }
}

impl CommandFollower<'_> {
    /// Whether a Python that a script runs on its way fails for sure.
    pub(super) fn fails_as_python(
        &self,
        path: &str,
        words: &[Option<String>],
        variables: &BTreeMap<String, VariableValue>,
    ) -> bool {
        let command = PythonCommand::read(words);
        let script = command.script.as_ref().and_then(|script| self.absolute(script));
        if script.is_some_and(|script| self.test('r', &script) == Some(false)) {
            return true;
        }
        let Ok(found) = self.rootfs.lookup(path.as_bytes()) else {
            return false;
        };
        let program = found.path;
        let known = |(name, value): (&String, &VariableValue)| match value {
            VariableValue::Text(text) => Some((name.clone(), text.clone())),
            VariableValue::Unknown | VariableValue::Unset => None,
        };
        let given: Vec<String> = words.iter().map_while(Clone::clone).collect();
        let settings = PythonSettings::read(
            self.rootfs,
            SettingSources {
                variables: &variables.iter().filter_map(known).collect(),
                command: &given,
                working_dir: self.directory.as_deref().unwrap_or("/"),
                user: self.user.name.as_deref().unwrap_or_default(),
                credentials: &self.credentials(),
            },
        );
        let own = [RootPath::from(path)];
        let python = (&program, &RootPath::from(path));
        let environment = PythonEnvironment::read(self.rootfs, &own, &settings, &[]);
        let module = command.module.as_ref();
        module.is_some_and(|module| environment.lacks_module(self.rootfs, python, module))
    }
}
