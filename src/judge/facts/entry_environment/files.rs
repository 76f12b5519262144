//! The files of the image as its commands and scripts find them.

use super::CommandFollower;
use crate::byte_search::contains_bytes;
use crate::judge::facts::default_path::DEFAULT_PATH;
use crate::judge::facts::entry_problem::EntryProblem;
use crate::judge::facts::shell_script::{LOADER, ScriptFiles, VariableValue};
use image_linkage::escape;
use image_linkage::loader::expand_pattern;
use image_linkage::path::RootPath;
use image_linkage::rootfs::{FileUse, LookupError, NodeKind};
use std::collections::BTreeMap;

impl CommandFollower<'_> {
    /// Where a program lies that is named by a path, or searched for along `PATH`.
    pub(super) fn program(&self, name: &str) -> Option<String> {
        if name.contains('/') {
            return self.absolute(name);
        }
        let path = match self.variables.get("PATH") {
            Some(VariableValue::Text(path)) => path.as_str(),
            _ => DEFAULT_PATH,
        };
        let who = self.credentials();
        let places = path
            .split(':')
            .filter_map(|folder| self.absolute(&format!("{folder}/{name}")))
            .filter(|place| self.rootfs.file(place.as_bytes()).is_some());
        let may = |place: &&String| self.rootfs.open_as(place.as_bytes(), &who, FileUse::Execute).is_ok();
        let places: Vec<String> = places.collect();
        // What may not be executed is passed over as long as there is another.
        places.iter().find(may).or(places.first()).cloned()
    }

    /// The path of what the words execute.
    pub(super) fn called(&self) -> Option<RootPath> {
        Some(RootPath::new(self.program(self.words.first()?.as_deref()?)?.as_bytes()))
    }

    /// The file that the words execute, without links.
    pub(super) fn executable(&self) -> Option<RootPath> {
        let path = self.program(self.words.first()?.as_deref()?)?;
        Some(self.rootfs.lookup(path.as_bytes()).ok()?.path)
    }

    /// Whether a script's interpreter is not in the image, which ends the command. Any other program that is not there
    /// may be mounted, and the command is followed as if it were.
    pub(super) fn is_lost(&mut self, name: &str, path: Option<&str>) -> bool {
        let is_there = path.is_some_and(|path| self.rootfs.lookup(path.as_bytes()) != Err(LookupError::NotFound));
        let is_searched = self.is_direct && !matches!(self.variables.get("PATH"), Some(VariableValue::Unknown));
        // What a script names in its first line, a shell that runs it cannot find either.
        let is_known = is_searched || self.script.is_some() && name.starts_with('/');
        if is_there || !is_known || (path.is_none() && name.contains('/')) {
            return false;
        }
        let shown = escape::escape_bytes(name.as_bytes());
        let is_filled = path.is_some_and(|path| FILLED.iter().any(|folder| path.starts_with(folder)));
        if let Some(script) = self.script.clone().filter(|_| !is_filled) {
            let why = format!("No such file or directory: its interpreter {shown} is not in the image");
            self.fail(&script, &why);
            return true;
        }
        let why = if name.contains('/') {
            "no such file or directory"
        } else {
            "executable file not found in $PATH"
        };
        self.absent.get_or_insert_with(|| format!("exec: \"{shown}\": {why}"));
        false
    }

    /// A script that an interpreter is given and that is not in the image: it may be mounted.
    pub(super) fn miss(&mut self, interpreter: &str, script: &str) {
        let path = self
            .absolute(script)
            .filter(|path| self.is_direct && !self.is_filled(path));
        if path.is_some_and(|path| self.rootfs.lookup(path.as_bytes()) == Err(LookupError::NotFound)) {
            let script = escape::escape_bytes(script.as_bytes());
            let said = || format!("{interpreter}: {script}: No such file or directory");
            self.absent.get_or_insert_with(said);
        }
    }

    /// Says why what is at `path` does not start.
    pub(super) fn fail(&mut self, path: &str, why: &str) {
        let path = escape::escape_bytes(path.as_bytes());
        self.problem = Some(EntryProblem::NotStarted(format!("{path}: {why}")));
    }

    /// A path from the root, where the working directory is known.
    pub(super) fn absolute(&self, path: &str) -> Option<String> {
        if path.starts_with('/') {
            return Some(path.to_owned());
        }
        let directory = self.directory.as_deref()?;
        Some(format!("{}/{path}", directory.trim_end_matches('/')))
    }

    /// A directory without links; as it is written where it is not in the image.
    pub(super) fn real_directory(&self, path: &str) -> String {
        let found = self.rootfs.lookup(path.as_bytes()).ok();
        let real = found.and_then(|found| String::from_utf8(found.path.absolute()).ok());
        real.unwrap_or_else(|| path.to_owned())
    }

    /// The content of a file that was kept, whoever may read it.
    pub(super) fn kept_text(&self, path: &str) -> Option<String> {
        let content = self.rootfs.content(self.absolute(path)?.as_bytes())?;
        String::from_utf8(content.to_vec()).ok()
    }

    /// Whether a path lies where an engine or a host puts files: in a folder of theirs, or in a volume.
    fn is_filled(&self, path: &str) -> bool {
        let path = RootPath::new(path.as_bytes()).absolute();
        let volumes = self.config.settings.volumes.iter().map(String::as_str);
        let mut folders = FILLED.iter().copied().chain(volumes);
        folders.any(|folder| {
            let rest = path.strip_prefix(folder.trim_end_matches('/').as_bytes());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        })
    }

    fn may(&self, path: &str, usage: FileUse) -> bool {
        self.rootfs.open_as(path.as_bytes(), &self.credentials(), usage).is_ok()
    }
}

/// The names that one pattern stands for, at most.
const NAMES: usize = 256;

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
            matches!(self.rootfs.node(node).kind, NodeKind::Directory(_)).then(|| self.rootfs.children(node))
        };
        let mut parts = PARTS.iter().filter_map(children).flatten().peekable();
        let sets = |text: &[u8]| LOADER.iter().any(|name| contains_bytes(text, name.as_bytes()));
        // Without such a folder, what is read lies anywhere.
        parts.peek().is_none()
            || parts.any(|(_, node)| match &self.rootfs.node(node).kind {
                NodeKind::File(facts) => facts.kept.as_deref().is_none_or(sets),
                _ => true,
            })
    }

    fn is_root(&self) -> bool {
        self.credentials().uid == 0
    }

    fn python_fails(&self, words: &[Option<String>], variables: &BTreeMap<String, VariableValue>) -> bool {
        let name = words.first().and_then(Option::as_deref).unwrap_or_default();
        self.program(name)
            .is_some_and(|path| self.fails_as_python(&path, words, variables))
    }

    fn text(&self, path: &str) -> Option<String> {
        let opened = self.rootfs.open_as(path.as_bytes(), &self.credentials(), FileUse::Read);
        opened.is_ok().then(|| self.kept_text(path))?
    }

    fn real_path(&self, path: &str) -> Option<String> {
        let found = self.rootfs.lookup(path.as_bytes()).ok()?;
        String::from_utf8(found.path.absolute()).ok()
    }

    fn has_program(&self, name: &str) -> Option<bool> {
        let found = if name.contains('/') {
            let path = self.absolute(name);
            path.map(|path| self.rootfs.file(path.as_bytes()).is_some())
        } else {
            Some(self.program(name).is_some())
        };
        // The container runtime brings tools of its own, and shells such as busybox's have programs inside.
        let is_own = || {
            let shell = self.program("sh").map(|path| self.real_directory(&path));
            shell.is_none_or(|path| path.contains("busybox"))
        };
        let may_come = || name.contains("nvidia-") || name.contains('/') && self.is_filled(name) || is_own();
        found.filter(|found| *found || !may_come())
    }

    fn names(&self, pattern: &str) -> Option<Vec<String>> {
        let is_filled = FILLED.iter().any(|folder| pattern.starts_with(folder));
        if is_filled || pattern.ends_with('/') {
            return None;
        }
        let found = expand_pattern(self.rootfs, pattern.as_bytes(), NAMES);
        let names: Option<Vec<String>> = found.into_iter().map(|name| String::from_utf8(name).ok()).collect();
        names.filter(|names| names.len() < NAMES)
    }

    fn test(&self, sign: char, path: &str) -> Option<bool> {
        if !"dfesrwxO".contains(sign) {
            return None;
        }
        let found = self.rootfs.lookup(path.as_bytes());
        let is_filled = || self.is_filled(path);
        let kind = match &found {
            Ok(found) => &self.rootfs.node(found.node).kind,
            Err(_) if is_filled() => return None,
            Err(_) => return Some(false),
        };
        // Who may write to what a host mounts there is the host's to say.
        if "wO".contains(sign) && is_filled() {
            return None;
        }
        match sign {
            'd' => Some(matches!(kind, NodeKind::Directory(_))),
            'f' => Some(matches!(kind, NodeKind::File(_))),
            'e' => Some(true),
            's' => match kind {
                NodeKind::File(facts) => Some(facts.bytes > 0),
                _ => None,
            },
            'r' => Some(self.may(path, FileUse::Read)),
            'w' => Some(self.may(path, FileUse::Write)),
            'O' => {
                let node = found.ok()?.node;
                let (access, _) = self.rootfs.access(node)?;
                Some(access.uid == self.credentials().uid)
            }
            'x' => Some(self.may(path, FileUse::Execute)),
            _ => None,
        }
    }
}
