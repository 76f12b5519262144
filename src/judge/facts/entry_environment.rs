//! What the container's command makes of its environment: `env`, shells, scripts and an explicit loader stand between
//! the config and the program.

use std::collections::BTreeMap;

use super::shell_script::{LOADER, ScriptFiles, ShellState, VariableValue, new_user, run_script};
use image_linkage::layer::FileFacts;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{NodeKind, Rootfs};
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
}

/// The commands that are followed, one starting the other.
const COMMANDS: usize = 12;
/// The most bytes of what pip writes to start a module; it is some 250.
const MODULE_BYTES: u64 = 600;
/// The bytes of the environment that are followed.
const ENVIRONMENT: usize = 256 << 10;

/// Follows the command of an image with this environment.
pub(super) fn entry_environment(
    config: &ImageConfig,
    rootfs: &Rootfs,
    environment: &BTreeMap<String, String>,
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
        working_dir: config.working_dir.as_deref().unwrap_or("/"),
        variables: variables
            .map(|(name, value)| (name.clone(), VariableValue::Text(value.clone())))
            .collect(),
        words: config.command.iter().cloned().map(Some).collect(),
        by: None,
        user: None,
    };
    for _ in 0..COMMANDS {
        if !entry.step() {
            break;
        }
    }
    entry.finish(environment)
}

/// A command with its environment, as far as both are followed.
struct CommandFollower<'r> {
    rootfs: &'r Rootfs,
    working_dir: &'r str,
    variables: BTreeMap<String, VariableValue>,
    words: Vec<Option<String>>,
    by: Option<String>,
    user: Option<String>,
}

/// The shells whose scripts are read.
const SHELLS: [&str; 4] = ["sh", "bash", "dash", "ash"];

/// Programs that start another one with their own environment, and how many words in front of it are theirs beside the
/// options that they have.
const STARTERS: [(&str, usize); 16] = [
    ("tini", 0),
    ("tini-static", 0),
    ("dumb-init", 0),
    ("docker-init", 0),
    ("catatonit", 0),
    ("exec", 0),
    ("nohup", 0),
    ("setsid", 0),
    ("nice", 0),
    ("ionice", 0),
    ("stdbuf", 0),
    ("numactl", 0),
    ("gosu", 1),
    ("su-exec", 1),
    ("timeout", 1),
    ("chpst", 0),
];

impl CommandFollower<'_> {
    /// Goes on to what the command starts; whether it starts something.
    fn step(&mut self) -> bool {
        let Some(Some(name)) = self.words.first().cloned() else {
            return false;
        };
        let base = name.rsplit('/').next().unwrap_or_default().to_owned();
        let before: Vec<Option<VariableValue>> = self.loader_variables();
        // Of a shell, the script that it runs says more than its own name.
        let script = self.words.iter().flatten().skip(1).find(|word| !is_option(word));
        let label = match script {
            Some(script) if SHELLS.contains(&base.as_str()) && self.text(script).is_some() => script.clone(),
            _ => name.clone(),
        };
        self.user = new_user(&self.words).or(self.user.take());
        let goes_on = match base.as_str() {
            "env" => self.env(),
            shell if SHELLS.contains(&shell) => self.shell(1),
            loader if is_loader(loader) => self.loader(),
            starter if STARTERS.iter().any(|(known, _)| *known == starter) => self.starter(&base),
            _ => self.script(&name),
        };
        if self.loader_variables() != before {
            self.by = Some(label);
        }
        goes_on
    }

    fn loader_variables(&self) -> Vec<Option<VariableValue>> {
        let values = LOADER.iter().map(|name| self.variables.get(*name).cloned());
        values.collect()
    }

    /// `env [OPTION]… [NAME=VALUE]… [COMMAND]` (coreutils).
    fn env(&mut self) -> bool {
        let mut words = self.words.get(1..).unwrap_or_default().to_vec().into_iter().peekable();
        while let Some(word) = words.next_if(|word| {
            word.as_deref()
                .is_none_or(|word| word.starts_with('-') || word.contains('='))
        }) {
            let Some(word) = word else { return self.lose() };
            match word.as_str() {
                "-i" | "-" | "--ignore-environment" => self.variables.clear(),
                "-u" | "--unset" => {
                    let name = words.next().flatten().unwrap_or_default();
                    self.variables.remove(&name);
                }
                "-C" | "--chdir" => drop(words.next()),
                "--" => {}
                "-S" | "--split-string" => {
                    let rest: Vec<Option<String>> = words.collect();
                    return self.split(None, &rest);
                }
                option if option.starts_with("-S") => {
                    let rest: Vec<Option<String>> = words.collect();
                    return self.split(option.strip_prefix("-S"), &rest);
                }
                option if option.starts_with("--unset=") => {
                    self.variables.remove(option.trim_start_matches("--unset="));
                }
                option if option.starts_with("-u") => {
                    self.variables.remove(option.trim_start_matches("-u"));
                }
                option if option.starts_with('-') => {}
                pair => {
                    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                    self.variables.insert(name.to_owned(), known(value));
                }
            }
        }
        self.words = words.collect();
        !self.words.is_empty()
    }

    /// `-S`: one text that holds several words.
    fn split(&mut self, text: Option<&str>, rest: &[Option<String>]) -> bool {
        let (text, rest) = match (text, rest.split_first()) {
            (Some(text), _) => (text.to_owned(), rest),
            (None, Some((Some(first), rest))) => (first.clone(), rest),
            _ => return self.lose(),
        };
        let words = text.split_ascii_whitespace().map(|word| Some(word.to_owned()));
        let env = [Some("env".to_owned())].into_iter();
        self.words = env.chain(words).chain(rest.iter().cloned()).collect();
        true
    }

    /// A shell whose options begin at this word: its `-c` text, or the script that it is given.
    fn shell(&mut self, first: usize) -> bool {
        let mut at = first;
        let mut is_text = false;
        let mut is_login = false;
        while let Some(Some(option)) = self.words.get(at).filter(|word| word.as_deref().is_some_and(is_option)) {
            // An interactive shell reads files of the user's as well.
            is_login |= option == "--login" || !option.starts_with("--") && option.contains(['l', 'i']);
            is_text |= !option.starts_with("--") && option.contains('c');
            // `-o pipefail` and its like.
            at += if option.ends_with('o') && !option.starts_with("--") {
                2
            } else {
                1
            };
        }
        if is_login || self.variables.contains_key("BASH_ENV") {
            // Which files a login shell reads depends on the user; they may set anything.
            for name in LOADER {
                self.variables.insert(name.to_owned(), VariableValue::Unknown);
            }
        }
        let Some(Some(word)) = self.words.get(at).cloned() else {
            return false;
        };
        let rest = self.words.get(at + 1..).unwrap_or_default();
        if is_text {
            // The first word behind the text is `$0`.
            let arguments = rest.get(1..).unwrap_or_default().to_vec();
            return self.run(&word, arguments);
        }
        let arguments = rest.to_vec();
        match self.text(&word) {
            Some(text) => self.run(&text, arguments),
            None => self.lose(),
        }
    }

    fn run(&mut self, text: &str, arguments: Vec<Option<String>>) -> bool {
        // A carriage return becomes part of the last word of each line.
        if text.contains("\r\n") {
            return self.lose();
        }
        let state = ShellState {
            variables: std::mem::take(&mut self.variables),
            arguments,
            ..ShellState::default()
        };
        let started = run_script(text, state, self);
        self.variables = started.variables;
        self.user = started.user.or(self.user.take());
        self.words = started.words;
        !self.words.is_empty()
    }

    /// A file that the kernel starts: a script names its interpreter in its first line.
    fn script(&mut self, name: &str) -> bool {
        let Some(path) = self.program(name) else {
            return false;
        };
        let Some(text) = self.text(&path) else {
            // What it is cannot be told of a file that was not kept, but for objects and what pip makes of a module.
            let is_script = |facts: &FileFacts| facts.elf.is_none() && facts.bytes > 0;
            let found = self.rootfs.file(path.as_bytes());
            return found.is_some_and(is_script) && !self.is_module(&path) && self.lose();
        };
        let Some(line) = text
            .strip_prefix("#!")
            .map(|text| text.lines().next().unwrap_or_default())
        else {
            // Without a first line of that kind, a shell runs it itself.
            return false;
        };
        // An interpreter whose name ends in a carriage return is not there.
        if text.split('\n').next().is_some_and(|line| line.ends_with('\r')) {
            return self.lose();
        }
        // The kernel divides the line once (Linux fs/binfmt_script.c).
        let (interpreter, argument) = match line.trim().split_once([' ', '\t']) {
            Some((interpreter, argument)) => (interpreter, Some(argument.trim().to_owned())),
            None => (line.trim(), None),
        };
        let rest = self.words.get(1..).unwrap_or_default().to_vec();
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

    /// `ld.so [OPTION]… PROGRAM`: the options stand in for the variables of this one process.
    fn loader(&mut self) -> bool {
        let mut words = self.words.get(1..).unwrap_or_default().to_vec().into_iter().peekable();
        while let Some(Some(option)) = words.next_if(|word| word.as_deref().is_some_and(is_option)) {
            match option.as_str() {
                "--library-path" => {
                    let value = words.next().flatten();
                    self.variables.insert("LD_LIBRARY_PATH".to_owned(), maybe(value));
                }
                "--preload" => {
                    let value = words.next().flatten();
                    let before = self.variables.get("LD_PRELOAD").cloned();
                    let all = match (before, maybe(value)) {
                        (Some(VariableValue::Text(before)), VariableValue::Text(more)) => {
                            known(&format!("{before}:{more}"))
                        }
                        (Some(VariableValue::Unknown), _) => VariableValue::Unknown,
                        (_, value) => value,
                    };
                    self.variables.insert("LD_PRELOAD".to_owned(), all);
                }
                "--argv0" | "--audit" | "--inhibit-rpath" | "--glibc-hwcaps-prepend" | "--glibc-hwcaps-mask" => {
                    drop(words.next());
                }
                _ => {}
            }
        }
        self.words = words.collect();
        // What it starts is an object: no interpreter of a script is asked for.
        false
    }

    fn starter(&mut self, base: &str) -> bool {
        let own = STARTERS
            .iter()
            .find(|(known, _)| *known == base)
            .map_or(0, |(_, own)| *own);
        let is_own = |word: &Option<String>| word.as_deref().is_some_and(|word| is_option(word) && word != "--");
        let options = self.words.iter().skip(1).take_while(|word| is_own(word)).count();
        let mut rest = self.words.get(1 + options..).unwrap_or_default();
        // `nice -n 5`: the value of an option.
        let is_number = |word: &Option<String>| word.as_deref().is_some_and(|word| word.parse::<i64>().is_ok());
        while options > 0 && rest.first().is_some_and(is_number) {
            rest = rest.get(1..).unwrap_or_default();
        }
        if rest.first().is_some_and(|word| word.as_deref() == Some("--")) {
            rest = rest.get(1..).unwrap_or_default();
        }
        self.words = rest.get(own..).unwrap_or_default().to_vec();
        !self.words.is_empty()
    }

    /// From here on nothing is known of what the loader looks at.
    fn lose(&mut self) -> bool {
        for name in LOADER {
            self.variables.insert(name.to_owned(), VariableValue::Unknown);
        }
        false
    }

    /// Where a program lies that is named by a path, or searched for along `PATH`.
    fn program(&self, name: &str) -> Option<String> {
        if name.contains('/') {
            return Some(self.absolute(name));
        }
        let path = match self.variables.get("PATH") {
            Some(VariableValue::Text(path)) => path.as_str(),
            _ => "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        };
        let mut places = path.split(':').map(|folder| self.absolute(&format!("{folder}/{name}")));
        places.find(|place| self.rootfs.file(place.as_bytes()).is_some())
    }

    fn absolute(&self, path: &str) -> String {
        if path.starts_with('/') {
            return path.to_owned();
        }
        format!("{}/{path}", self.working_dir.trim_end_matches('/'))
    }

    fn finish(self, environment: &BTreeMap<String, String>) -> EntryEnvironment {
        let known = |(name, value): (&String, &VariableValue)| match value {
            VariableValue::Text(text) => Some((name.clone(), text.clone())),
            VariableValue::Unknown => environment
                .get_key_value(name)
                .map(|(name, value)| (name.clone(), value.clone())),
            VariableValue::Unset => None,
        };
        let mut entry = EntryEnvironment {
            all: self.variables.iter().filter_map(known).collect(),
            program: self.words.iter().map_while(Clone::clone).collect(),
            user: self.user,
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
        entry.by = self
            .by
            .filter(|_| !entry.changed.is_empty() || !entry.unknown.is_empty());
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

/// Folders that an engine or a host fills when the container starts.
const FILLED: [&str; 9] = [
    "/proc",
    "/sys",
    "/dev",
    "/run",
    "/var/run",
    "/mnt",
    "/tmp",
    "/usr/local/nvidia",
    "/host",
];

/// Folders of scripts of which an entry point reads one after the other.
const PARTS: [&str; 3] = ["/opt/nvidia/entrypoint.d", "/docker-entrypoint.d", "/etc/entrypoint.d"];

impl ScriptFiles for CommandFollower<'_> {
    fn some_part_sets(&self) -> bool {
        let children = |folder: &&str| {
            let node = self.rootfs.lookup(folder.as_bytes()).ok()?.node;
            match &self.rootfs.node(node).kind {
                NodeKind::Directory(children) => Some(children),
                _ => None,
            }
        };
        let mut parts = PARTS.iter().filter_map(children).flatten().peekable();
        let sets = |text: &[u8]| {
            LOADER
                .iter()
                .any(|name| text.windows(name.len()).any(|part| part == name.as_bytes()))
        };
        // Without such a folder, what is read lies anywhere.
        parts.peek().is_none()
            || parts.any(|(_, node)| match &self.rootfs.node(*node).kind {
                NodeKind::File(facts) => facts.kept.as_deref().is_none_or(sets),
                _ => true,
            })
    }

    fn text(&self, path: &str) -> Option<String> {
        let content = self.rootfs.content(self.absolute(path).as_bytes())?;
        String::from_utf8(content.to_vec()).ok()
    }

    fn test(&self, sign: char, path: &str) -> Option<bool> {
        let path = self.absolute(path);
        let found = self.rootfs.lookup(path.as_bytes());
        let is_filled = || {
            FILLED
                .iter()
                .any(|folder| RootPath::new(path.as_bytes()).absolute().starts_with(folder.as_bytes()))
        };
        let kind = match &found {
            Ok(found) => &self.rootfs.node(found.node).kind,
            Err(_) if is_filled() => return None,
            Err(_) => return Some(false),
        };
        match sign {
            'd' => Some(matches!(kind, NodeKind::Directory(_))),
            'f' => Some(matches!(kind, NodeKind::File(_))),
            'e' => Some(true),
            's' => match kind {
                NodeKind::File(facts) => Some(facts.bytes > 0),
                _ => None,
            },
            _ => None,
        }
    }
}
