//! Programs that start another one, as the table of launchers tells of their words.

use super::{CommandFollower, VariableValue, is_option, known};
use crate::judge::facts::default_path::DEFAULT_PATH;
use crate::judge::facts::python::{is_interpreter_name, is_source};
use crate::judge::facts::shell_script::new_user;
use crate::knowledge::{LaunchEnvironment, LaunchedProgram, ProgramLauncher};
use image_linkage::escape;
use image_linkage::path::RootPath;
use image_linkage::rootfs::NodeKind;

impl<'r> CommandFollower<'r> {
    /// The launcher that the words begin with.
    pub(super) fn launcher(&self, base: &str) -> Option<&'r ProgramLauncher> {
        let first = self.words.get(1).and_then(Option::as_ref);
        let is_it = |launcher: &&ProgramLauncher| {
            let is_command = launcher.command.is_none() || launcher.command.as_ref() == first;
            is_command && launcher.names.iter().any(|name| name == base)
        };
        self.launchers.iter().find(is_it)
    }

    /// Goes on to what a launcher starts, which is called by `name`; a Python that runs it as a module by its own.
    pub(super) fn launch(&mut self, launcher: &ProgramLauncher, name: &str) -> bool {
        if launcher.starts == LaunchedProgram::OwnFiles {
            let name = escape::escape_bytes(name.as_bytes());
            let said = || format!("only a run could tell what {name} starts, as whom and with which environment");
            self.doubt.get_or_insert_with(said);
        }
        if matches!(launcher.starts, LaunchedProgram::OwnFiles | LaunchedProgram::Unknown) {
            return self.lose();
        }
        self.become_user(new_user(&self.words));
        let own = 1 + usize::from(launcher.command.is_some());
        let mut words = self
            .words
            .get(own..)
            .unwrap_or_default()
            .to_vec()
            .into_iter()
            .peekable();
        let mut options: Vec<(String, Option<String>)> = Vec::new();
        while let Some(Some(option)) = words.next_if(|word| word.as_deref().is_some_and(is_option)) {
            if option == "--" {
                break;
            }
            let value = launcher.takes_value(&option).then(|| words.next().flatten()).flatten();
            options.push((option, value));
        }
        let mut operands = words.by_ref().take(launcher.words);
        let first = operands.next().flatten();
        operands.for_each(drop);
        self.words = words.collect();
        let has = |names: &[&str]| options.iter().any(|(option, _)| names.contains(&option.as_str()));
        if launcher.starts == LaunchedProgram::Python && !has(&["--no-python", "--no_python"]) {
            let module = has(&["-m", "--module"]).then(|| Some("-m".to_owned()));
            let words = [Some(self.interpreter_of(name))].into_iter().chain(module);
            self.words.splice(..0, words);
        }
        if let Some(option) = &launcher.folder {
            let named = options.into_iter().find(|(known, _)| known == option);
            let folder = if option == "word" {
                first
            } else {
                named.and_then(|(_, folder)| folder)
            };
            if let Some(folder) = folder
                && !self.read_variables(&folder)
            {
                return self.lose();
            }
        } else if let Some(environment) = launcher.environment {
            let folder = match environment {
                LaunchEnvironment::Project => self.project_environment(),
                LaunchEnvironment::Named => self.named_environment(name, &options),
            };
            let is_ready = folder.is_none_or(|folder| self.enter_environment(&folder));
            if !is_ready {
                return self.lose();
            }
            if environment == LaunchEnvironment::Project && is_script(self.words.first()) {
                self.words.insert(0, Some("python3".to_owned()));
            }
        }
        for name in &launcher.sets {
            self.variables.insert(name.clone(), VariableValue::Unknown);
        }
        !self.words.is_empty()
    }

    /// The Python that a launcher of that language starts: its own.
    fn interpreter_of(&self, name: &str) -> String {
        let path = self.program(name).unwrap_or_default();
        if is_interpreter_name(path.rsplit('/').next().unwrap_or_default().as_bytes()) {
            return name.to_owned();
        }
        let text = self.kept_text(&path).unwrap_or_default();
        let line = text.lines().next().and_then(|line| line.strip_prefix("#!"));
        let named = line
            .map(str::trim)
            .filter(|path| is_interpreter_name(RootPath::from(*path).name()));
        let beside = || format!("{}/python3", path.rsplit_once('/').map_or("", |(folder, _)| folder));
        let is_there = |path: &String| self.rootfs.file(path.as_bytes()).is_some();
        let found = named.map(str::to_owned).or_else(|| Some(beside()).filter(is_there));
        found.unwrap_or_else(|| "python3".to_owned())
    }

    /// Takes the variables of a folder with a file for each: the first line of one is the value, and an empty file unsets
    /// it (daemontools, envdir). Whether the folder is there.
    fn read_variables(&mut self, folder: &str) -> bool {
        let Some(Ok(found)) = self.absolute(folder).map(|path| self.rootfs.lookup(path.as_bytes())) else {
            return false;
        };
        let value = |kind: &NodeKind| match kind {
            NodeKind::File(facts) if facts.bytes == 0 => VariableValue::Unset,
            NodeKind::File(facts) => {
                let text = facts.kept.as_deref().and_then(|text| str::from_utf8(text).ok());
                let line = text.map(|text| text.lines().next().unwrap_or_default());
                line.map_or(VariableValue::Unknown, |line| known(line.trim_end_matches([' ', '\t'])))
            }
            _ => VariableValue::Unknown,
        };
        for (name, node) in self.rootfs.children(found.node) {
            let value = value(&self.rootfs.node(node).kind);
            self.variables.insert(String::from_utf8_lossy(name).into_owned(), value);
        }
        true
    }

    /// The environment of the project that the working directory is of, as uv finds it; none outside of projects.
    fn project_environment(&self) -> Option<String> {
        let directory = self.directory.as_deref()?;
        let above = directory
            .match_indices('/')
            .map(|(at, _)| directory.get(..at).unwrap_or_default());
        let mut folders = above.chain([directory]).rev();
        let is_project = |folder: &&str| {
            self.rootfs
                .file(format!("{folder}/pyproject.toml").as_bytes())
                .is_some()
        };
        folders.find(is_project).map(|folder| format!("{folder}/.venv"))
    }

    /// The environment that an option names, of the installation that a program is of.
    fn named_environment(&self, program: &str, options: &[(String, Option<String>)]) -> Option<String> {
        let value = |names: [&str; 2]| {
            let given = options.iter().find(|(option, _)| names.contains(&option.as_str()));
            given.and_then(|(_, value)| value.clone())
        };
        if let Some(folder) = value(["-p", "--prefix"]) {
            return self.absolute(&folder);
        }
        let name = value(["-n", "--name"])?;
        let program = self.real_directory(&self.program(program)?);
        let prefix = program.rsplit_once('/')?.0.rsplit_once('/')?.0;
        Some(if name == "base" {
            prefix.to_owned()
        } else {
            format!("{prefix}/envs/{name}")
        })
    }

    /// Puts the programs of an environment first. Whether it is there, and no script of its packages changes more.
    fn enter_environment(&mut self, folder: &str) -> bool {
        let is_there = |path: &str| self.rootfs.lookup(format!("{folder}/{path}").as_bytes()).is_ok();
        if !is_there("bin") || is_there("etc/conda/activate.d") || is_there("conda-meta/state") {
            return false;
        }
        let before = match self.variables.get("PATH") {
            Some(VariableValue::Text(path)) => path.as_str(),
            _ => DEFAULT_PATH,
        };
        self.variables
            .insert("PATH".to_owned(), known(&format!("{folder}/bin:{before}")));
        true
    }
}

/// Whether a word is a module that uv gives to a Python.
fn is_script(word: Option<&Option<String>>) -> bool {
    let name = word
        .and_then(Option::as_deref)
        .map(|word| RootPath::new(word.as_bytes()));
    name.is_some_and(|name| is_source(name.name()))
}
