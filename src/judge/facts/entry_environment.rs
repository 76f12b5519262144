//! What the container's command makes of its environment: `env`, shells, scripts and an explicit loader stand between
//! the config and the program.

mod env_command;
mod executables;
mod files;
mod launch;
mod launchers;
mod loader_command;
mod shells;
mod users;

use std::collections::BTreeMap;

use super::entry_problem::EntryProblem;
use super::python::is_interpreter_name;
pub use super::shell_script::{CacheChange, FileChange};
use super::shell_script::{ChangedUser, LOADER, VariableValue, is_idle};
use crate::knowledge::ProgramLauncher;
use image_linkage::escape;
use image_linkage::layer::FileFacts;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{FileUse, Rootfs};
use image_source::ImageConfig;

/// What the container's command changes before its program starts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EntryEnvironment {
    /// The variables that the loader and the driver look at, as the program has them; of those that only a run could
    /// tell, what the config says.
    pub values: BTreeMap<String, String>,
    /// All variables that the program has, in the same way.
    pub all: BTreeMap<String, String>,
    /// The variables among them whose value is not the config's.
    pub changed: Vec<String>,
    /// The variables among them that only a run could tell.
    pub unknown: Vec<String>,
    /// What changes them: the script or command.
    pub by: Option<String>,
    /// The words of the program that is started in the end, as far as they are known.
    pub program: Vec<String>,
    /// The user that the program is started as, where that is not the image's: `gosu`, `su-exec`, `setpriv`, `runuser`.
    pub user: Option<String>,
    /// The effective user and group, where they are to be others than the real ones: `setpriv --euid`.
    pub effective: (Option<String>, Option<String>),
    /// The working directory of the program.
    pub working_dir: WorkingDirectory,
    /// Why the command does not start, or not among the files of the image: a script that its user may not read, `chroot`.
    pub problem: Option<EntryProblem>,
    /// Why only a run could tell whether it comes to its program: a script may end before it.
    pub doubt: Option<String>,
    /// Whether the bits and capabilities of files count for nothing: `setpriv --no-new-privs`.
    pub no_new_privileges: bool,
    /// What becomes of `ld.so.cache` before the program starts.
    pub cache: CacheChange,
    /// The folders that went into it beside those of its configuration.
    pub cache_folders: Vec<String>,
    /// What its scripts do to files of the image.
    pub changes: Vec<FileChange>,
    /// The program that hands an environment of its own making to those that it starts.
    pub launcher: Option<RootPath>,
    /// What the command names and the image does not hold: it starts where something is mounted there.
    pub absent: Option<String>,
    /// What the command does, where it starts no program that could ask for a library.
    pub idle: Option<String>,
    /// The path of the file that is executed in the end, as it is called.
    pub called: Option<RootPath>,
    /// The file that is executed in the end, without links.
    pub executable: Option<RootPath>,
    /// Whether it is given to a dynamic loader as an argument: then its own mode and capabilities are nothing to the kernel.
    pub by_loader: bool,
    /// The objects that are started on the way, the shells and launchers, and the last one.
    pub started: Vec<StartedBefore>,
}

/// An object that is started on the way to the program, and what its loader sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedBefore {
    /// The file, without links.
    pub path: RootPath,
    /// `LD_LIBRARY_PATH`, if it is set.
    pub library_path: Option<String>,
    /// `LD_PRELOAD`, if it is set.
    pub preload: Option<String>,
}

/// Where a program is started.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum WorkingDirectory {
    /// Where the config says.
    #[default]
    Configured,
    /// In another directory, where the command has gone.
    Known(String),
    /// Only a run could tell.
    Unknown,
}

/// The commands that are followed, one starting the other.
const COMMANDS: usize = 12;
/// The bytes of a word or a variable that the kernel takes, with its NUL (`MAX_ARG_STRLEN` of Linux).
const WORD: usize = 128 << 10;
/// The most bytes of what pip writes to start a module; it is some 250.
const MODULE_BYTES: u64 = 600;
/// The bytes of the environment that are followed.
const ENVIRONMENT: usize = 256 << 10;

/// Follows the command of an image with this environment.
pub(super) fn entry_environment(
    config: &ImageConfig,
    rootfs: &Rootfs,
    environment: &BTreeMap<String, String>,
    launchers: &[ProgramLauncher],
) -> EntryEnvironment {
    let mut left = ENVIRONMENT;
    let variables = environment.iter().filter(|(name, value)| {
        let bytes = name.len() + value.len();
        let fits = bytes <= left;
        left = left.saturating_sub(bytes);
        fits
    });
    let mut entry = CommandFollower {
        rootfs,
        config,
        launchers,
        directory: Some(config.working_dir.clone().unwrap_or_else(|| "/".to_owned())),
        variables: variables
            .map(|(name, value)| (name.clone(), VariableValue::Text(value.clone())))
            .collect(),
        words: config.command.iter().cloned().map(Some).collect(),
        by: None,
        user: ChangedUser::default(),
        problem: None,
        doubt: None,
        absent: None,
        no_new_privileges: false,
        cache: CacheChange::Kept,
        cache_folders: Vec::new(),
        changes: Vec::new(),
        launcher: None,
        script: None,
        interpreters: 0,
        is_direct: true,
        by_loader: false,
        started: Vec::new(),
    };
    entry.set_home();
    let words = config.command.iter().map(String::len);
    let variables = environment.iter().map(|(name, value)| name.len() + 1 + value.len());
    if words.chain(variables).any(|bytes| bytes >= WORD) {
        entry.problem = Some(EntryProblem::NotStarted("argument list too long".to_owned()));
    } else if (0..COMMANDS).all(|_| entry.step()) {
        // What it comes to is not followed any further.
        entry.lose();
    }
    entry.finish(environment)
}

/// A command with its environment, as far as both are followed.
struct CommandFollower<'r> {
    rootfs: &'r Rootfs,
    config: &'r ImageConfig,
    launchers: &'r [ProgramLauncher],
    /// The working directory; `None` where only a run could tell.
    directory: Option<String>,
    variables: BTreeMap<String, VariableValue>,
    words: Vec<Option<String>>,
    by: Option<String>,
    user: ChangedUser,
    problem: Option<EntryProblem>,
    doubt: Option<String>,
    absent: Option<String>,
    no_new_privileges: bool,
    cache: CacheChange,
    cache_folders: Vec<String>,
    changes: Vec<FileChange>,
    launcher: Option<RootPath>,
    /// The script whose first line is followed.
    script: Option<String>,
    /// How many scripts the kernel has gone through for this one.
    interpreters: usize,
    /// Whether no shell has come between, which has commands of its own and may go on without one.
    is_direct: bool,
    by_loader: bool,
    started: Vec<StartedBefore>,
}

/// The bytes of a file that the kernel reads to tell what it is (`BINPRM_BUF_SIZE`).
const FIRST_BLOCK: usize = 256;

/// The scripts that it takes for interpreters of each other (Linux fs/exec.c, `exec_binprm`).
const INTERPRETERS: usize = 5;

/// The shells whose scripts are read.
const SHELLS: [&str; 4] = ["sh", "bash", "dash", "ash"];

impl CommandFollower<'_> {
    /// Goes on to what the command starts; whether it starts something.
    fn step(&mut self) -> bool {
        let name = match self.words.first().cloned() {
            Some(Some(name)) => name,
            // What is started may be one that changes all.
            Some(None) => return self.lose(),
            None => return false,
        };
        let base = name.rsplit('/').next().unwrap_or_default().to_owned();
        let chained = std::mem::take(&mut self.interpreters);
        let before = (self.loader_variables(), self.directory.is_some());
        // Of a shell, the script that it runs says more than its own name.
        let script = self.words.iter().flatten().skip(1).find(|word| !is_option(word));
        let label = match script {
            Some(script) if SHELLS.contains(&base.as_str()) && self.kept_text(script).is_some() => script.clone(),
            _ => name.clone(),
        };
        let path = self.program(&name);
        if self.is_lost(&name, path.as_deref()) {
            return false;
        }
        if let Some(path) = &path
            && (self.is_closed(path, FileUse::Execute) || self.is_refused(path))
        {
            return false;
        }
        // A shell is what lies there, by whatever name a script's first line calls it.
        let real = path.as_deref().map(|path| self.real_directory(path));
        let real = real
            .and_then(|path| Some(path.rsplit('/').next()?.to_owned()))
            .unwrap_or_default();
        let is_set = path.as_deref().is_some_and(|path| self.sets_user(path));
        self.note_started(path.as_deref());
        let raises = path.as_deref().is_some_and(|path| self.drop_untrusted(path));
        if !is_set && !raises && self.cannot_become(&name) {
            return false;
        }
        let goes_on = match base.as_str() {
            "env" => self.env(),
            // Its first word is the program inside that it is.
            "busybox" => {
                self.words.remove(0);
                !self.words.is_empty()
            }
            python if is_interpreter_name(python.as_bytes()) => self.python(),
            shell if SHELLS.contains(&shell) || SHELLS.contains(&real.as_str()) => self.shell(&base, &real),
            loader if is_loader(loader) => self.loader(),
            "su" | "runuser" | "setpriv" => self.change_user(&base),
            "chroot" => self.change_root(),
            // What it starts is put together from what it finds.
            "find" if self.words.iter().flatten().any(|word| word.starts_with("-exec")) => self.lose(),
            base if let Some(launcher) = self.launcher(base) => self.launch(launcher, &name),
            // It may set anew what was taken away.
            _ if raises => self.lose(),
            _ => self.script(path, chained),
        };
        // What such a program starts is executed securely, unless it takes on its user as a whole.
        let goes_on = if is_set { self.lose() } else { goes_on };
        if (self.loader_variables(), self.directory.is_some()) != before {
            self.by = Some(label);
        }
        goes_on
    }

    /// Remembers an object that is started where all is known of what its loader sees.
    fn note_started(&mut self, path: Option<&str>) {
        let value = |name: &str| match self.variables.get(name) {
            None | Some(VariableValue::Unset) => Some(None),
            Some(VariableValue::Text(value)) => Some(Some(value.clone())),
            Some(VariableValue::Unknown) => None,
        };
        let values = (value("LD_LIBRARY_PATH"), value("LD_PRELOAD"));
        let found = path.and_then(|path| self.rootfs.lookup(path.as_bytes()).ok());
        if let (Some(found), (Some(library_path), Some(preload))) = (found, values) {
            self.started.push(StartedBefore {
                path: found.path,
                library_path,
                preload,
            });
        }
    }

    fn loader_variables(&self) -> Vec<Option<VariableValue>> {
        let values = LOADER.iter().map(|name| self.variables.get(*name).cloned());
        values.collect()
    }

    /// A file that the kernel starts: a script names its interpreter in its first line. `chained` scripts
    /// have been each other's interpreters before this one.
    fn script(&mut self, path: Option<String>, chained: usize) -> bool {
        let Some(path) = path else {
            return false;
        };
        let Some(text) = self.kept_text(&path) else {
            // What it is cannot be told of a file that was not kept, but for objects and what pip makes of a module.
            if self.makes_environment(&path) {
                self.launcher = self.executable();
                return self.lose();
            }
            let is_script = |facts: &FileFacts| facts.elf.is_none() && facts.bytes > 0;
            let found = self.rootfs.file(path.as_bytes());
            if !found.is_some_and(is_script) || self.is_closed(&path, FileUse::Read) {
                return false;
            }
            return !self.is_module(&path) && self.lose();
        };
        // The kernel reads its first line for everybody, the interpreter all of it for its user.
        if self.is_closed(&path, FileUse::Read) {
            return false;
        }
        let rest = self.words.get(1..).unwrap_or_default().to_vec();
        let Some(line) = text
            .strip_prefix("#!")
            .map(|text| text.lines().next().unwrap_or_default())
        else {
            // Without a first line of that kind a shell, and what calls execvp(3), runs it itself; an engine does not.
            if self.is_direct && self.config.command.first() == Some(&path) {
                self.fail(&path, "exec format error: its first line names no interpreter");
                return false;
            }
            self.script = Some(path.clone());
            self.words = [Some("/bin/sh".to_owned()), Some(path)]
                .into_iter()
                .chain(rest)
                .collect();
            return true;
        };
        // The end of the interpreter's name has to lie within the first block (Linux fs/binfmt_script.c, `load_script`).
        let name = text.as_bytes().iter().skip(2).skip_while(|byte| b" \t".contains(byte));
        let is_cut = name.take_while(|byte| !b" \t\n".contains(byte)).count() + 2 >= FIRST_BLOCK;
        if is_cut && self.is_direct {
            self.fail(
                &path,
                "exec format error: its first line is longer than the kernel reads",
            );
            return false;
        }
        self.interpreters = chained + 1;
        if self.interpreters > INTERPRETERS {
            self.fail(
                &path,
                "too many levels of symbolic links: scripts are each other's interpreters",
            );
            return false;
        }
        // An interpreter whose name ends in a carriage return is not there.
        if text.split('\n').next().is_some_and(|line| line.ends_with('\r')) {
            self.fail(
                &path,
                "No such file or directory: its first line ends in a carriage return",
            );
            return false;
        }
        // The kernel divides the line once (Linux fs/binfmt_script.c).
        let (interpreter, argument) = match line.trim().split_once([' ', '\t']) {
            Some((interpreter, argument)) => (interpreter, Some(argument.trim().to_owned())),
            None => (line.trim(), None),
        };
        self.script = Some(path.clone());
        let words = [Some(interpreter.to_owned())].into_iter();
        let words = words.chain(argument.map(Some)).chain([Some(path)]).chain(rest);
        self.words = words.collect();
        true
    }

    /// Whether a file is as small as what pip writes to start a module, and lies beside an interpreter.
    fn is_module(&self, path: &str) -> bool {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let interpreter = self.rootfs.file(format!("{folder}/python3").as_bytes());
        let file = self.rootfs.file(path.as_bytes());
        interpreter.is_some() && file.is_some_and(|file| file.bytes < MODULE_BYTES)
    }

    /// `chroot [OPTION]… ROOT COMMAND`: with another root, nothing of what is known of this one counts.
    fn change_root(&mut self) -> bool {
        let mut words = self.words.get(1..).unwrap_or_default().to_vec().into_iter().peekable();
        let mut user = None;
        while let Some(Some(option)) = words.next_if(|word| word.as_deref().is_some_and(is_option)) {
            user = option.strip_prefix("--userspec=").map(str::to_owned).or(user);
        }
        let root = words.next().flatten();
        if root.as_deref().is_none_or(|root| root.trim_matches('/').is_empty()) && root.is_some() {
            self.words = words.collect();
            self.directory = Some("/".to_owned());
            // It takes on the numbers alone (coreutils, src/chroot.c).
            self.user.name = user.or(self.user.name.take());
            return !self.words.is_empty();
        }
        if let Some(root) = root {
            let root = escape::escape_bytes(root.as_bytes());
            self.problem = Some(EntryProblem::OtherRoot(root));
        }
        self.lose()
    }

    /// From here on nothing is known of what the loader looks at.
    fn lose(&mut self) -> bool {
        for name in LOADER {
            self.variables.insert(name.to_owned(), VariableValue::Unknown);
        }
        false
    }

    /// What the command does, where that is only to say or to wait for something.
    fn idle_words(&self) -> Option<String> {
        let is_open = self.problem.is_some() || self.doubt.is_some() || self.absent.is_some();
        let is_unknown = |name: &&str| self.variables.get(*name) == Some(&VariableValue::Unknown);
        // What is preloaded is so into every program.
        let preload = self.variables.get("LD_PRELOAD");
        let is_preloaded = match preload {
            None | Some(VariableValue::Unset) => false,
            Some(VariableValue::Text(text)) => !text.is_empty(),
            Some(VariableValue::Unknown) => true,
        };
        if is_open || is_preloaded {
            return None;
        }
        match self.words.first() {
            None if !self.is_direct && !LOADER.iter().any(is_unknown) => {
                Some("runs a script that starts no program to its end".to_owned())
            }
            Some(Some(name)) if is_idle(name) => {
                let name = escape::escape_bytes(name.as_bytes());
                Some(format!("is `{name}`, which starts nothing else"))
            }
            _ => None,
        }
    }

    fn finish(self, environment: &BTreeMap<String, String>) -> EntryEnvironment {
        let known = |(name, value): (&String, &VariableValue)| match value {
            VariableValue::Text(text) => Some((name.clone(), text.clone())),
            VariableValue::Unknown => environment
                .get_key_value(name)
                .map(|(name, value)| (name.clone(), value.clone())),
            VariableValue::Unset => None,
        };
        let problem = self.problem.clone().or_else(|| self.unfollowed_variable());
        let mut entry = EntryEnvironment {
            idle: self.idle_words(),
            all: self.variables.iter().filter_map(known).collect(),
            program: self.words.iter().map_while(Clone::clone).collect(),
            called: self.called(),
            executable: self.executable(),
            by_loader: self.by_loader,
            started: self.started,
            user: self.user.name,
            effective: self.user.effective,
            working_dir: match self.directory {
                None => WorkingDirectory::Unknown,
                Some(path) if self.config.working_dir.as_deref().unwrap_or("/") == path => WorkingDirectory::Configured,
                Some(path) => WorkingDirectory::Known(path),
            },
            problem,
            doubt: self.doubt,
            absent: self.absent,
            no_new_privileges: self.no_new_privileges,
            cache: self.cache,
            cache_folders: self.cache_folders,
            changes: self.changes,
            launcher: self.launcher,
            ..EntryEnvironment::default()
        };
        for name in LOADER {
            let before = environment.get(name);
            let value = match self.variables.get(name) {
                Some(VariableValue::Unknown) => {
                    entry.unknown.push(name.to_owned());
                    before.cloned()
                }
                Some(VariableValue::Text(text)) => Some(text.clone()),
                Some(VariableValue::Unset) | None => None,
            };
            if value.as_ref() != before {
                entry.changed.push(name.to_owned());
            }
            entry.values.extend(value.map(|value| (name.to_owned(), value)));
        }
        let is_lost = entry.working_dir == WorkingDirectory::Unknown;
        entry.by = self
            .by
            .filter(|_| !entry.changed.is_empty() || !entry.unknown.is_empty() || is_lost);
        entry
    }
}

fn is_option(word: &str) -> bool {
    word.starts_with(['-', '+']) && word.len() > 1
}

fn is_loader(name: &str) -> bool {
    ["ld-linux", "ld-musl-", "ld.so", "ld64.so"]
        .iter()
        .any(|begin| name.starts_with(begin))
        || name.starts_with("ld-2.")
}

fn known(value: &str) -> VariableValue {
    // A part that only a run could tell is marked by a NUL.
    if value.contains('\0') {
        VariableValue::Unknown
    } else {
        VariableValue::Text(value.to_owned())
    }
}

fn maybe(value: Option<String>) -> VariableValue {
    value.map_or(VariableValue::Unknown, |value| known(&value))
}
