//! Programs of the image that start others with an environment of their own making: scripts of Python, and objects.

use super::{CommandFollower, is_option};
use crate::judge::facts::entry_problem::EntryProblem;
use crate::judge::facts::file_owner::contains_bytes;
use crate::judge::facts::python::{demanded_variables, source_fault};
use crate::judge::facts::shell_script::{LOADER, VariableValue};
use crate::knowledge::file_interest::ENVIRONMENT_CALLS;
use image_linkage::elf::{ElfFacts, SymbolRole};
use image_linkage::escape;
use image_linkage::path::RootPath;
use image_linkage::rootfs::FileUse;

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
        let own = self.words.clone();
        let mut words = own.iter().skip(1);
        let mut text = None;
        let mut script = "its text".to_owned();
        while let Some(Some(word)) = words.next() {
            if !is_option(word) {
                let (path, word) = (self.absolute(word), word.clone());
                self.miss("python", &word);
                if path.as_ref().is_some_and(|path| self.is_closed(path, FileUse::Read)) {
                    return false;
                }
                text = path.and_then(|path| self.kept_text(&path));
                script.clone_from(&word);
                break;
            }
            if word.starts_with("-c") {
                text = words.next().cloned().flatten();
                break;
            }
            if word.starts_with("-m") {
                break;
            }
            if matches!(word.as_str(), "-W" | "-X") {
                words.next();
            }
        }
        let text = text.unwrap_or_default();
        let is_new = |path: RootPath| path.name().starts_with(b"python3");
        if let Some(fault) = source_fault(&text).filter(|_| self.executable().is_some_and(is_new)) {
            self.fail(&script, &fault);
            return false;
        }
        let holds = |word: &&str| text.contains(*word);
        let script = escape::escape_bytes(script.as_bytes());
        let lacks = |name: &&str| matches!(self.variables.get(*name), None | Some(VariableValue::Unset));
        let is_own = |name: &&str| !["HOME", "HOSTNAME", "PATH", "TERM"].contains(name);
        if let Some(name) = demanded_variables(&text).into_iter().filter(is_own).find(lacks) {
            let name = escape::escape_bytes(name.as_bytes());
            let ends = EntryProblem::EndsBefore(format!("the rest of {script}"), format!("{name} is not set"));
            self.problem = Some(ends);
        }
        if let Some(end) = end_of_module(&text) {
            let end = escape::escape_bytes(end.as_bytes());
            self.problem = Some(EntryProblem::EndsBefore(
                format!("the rest of {script}"),
                format!("`{end}` comes first"),
            ));
        }
        if let Some(call) = BECOMES_ANOTHER.iter().find(|call| holds(call)) {
            let said = || format!("only a run could tell what {script} becomes by `{call})`");
            self.doubt.get_or_insert_with(said);
        }
        if holds(&"os.chdir(") {
            self.directory = None;
        }
        let changes = LOADER.iter().chain(&WITH_ENVIRONMENT).any(holds);
        if changes && STARTS.iter().any(holds) {
            return self.lose();
        }
        false
    }

    /// Whether an object calls what makes an environment: it names a variable of the loader beside it, empties all, or hands
    /// one to a program that is not its own.
    pub(super) fn makes_environment(&self, path: &str) -> bool {
        let makes = |elf: &ElfFacts| {
            let has = |name: &str| elf.symbols.iter().any(|symbol| name.as_bytes() == &*symbol.name);
            let mut imports = elf.symbols.iter().filter(|symbol| symbol.role != SymbolRole::Export);
            let calls =
                |names: &[&str]| imports.any(|symbol| names.iter().any(|call| call.as_bytes() == &*symbol.name));
            let mut texts = elf.mentions.iter().chain(&elf.fragments);
            let mut names = || texts.any(|text| LOADER.iter().any(|name| contains_bytes(text, name.as_bytes())));
            let hands = ["execve", "execle", "execvpe", "posix_spawn", "posix_spawnp"];
            let is_own = ["environ", "__environ", "_environ"].iter().any(|name| has(name));
            has("clearenv") || !is_own && hands.iter().any(|name| has(name)) || { calls }(&ENVIRONMENT_CALLS) && names()
        };
        let file = self.rootfs.file(path.as_bytes());
        file.and_then(|file| file.elf.as_deref()).is_some_and(makes)
    }
}

/// The line at which a module of Python ends before the rest of it: what is not indented, runs.
fn end_of_module(text: &str) -> Option<&str> {
    let mut lines = text.lines().skip_while(|line| {
        let ends = ["sys.exit(", "exit(", "quit(", "os._exit(", "raise SystemExit"];
        !ends.iter().any(|end| line.starts_with(end))
    });
    let end = lines.next()?;
    // A text in three quotes may hold such a line, and no code.
    let is_text = text.contains("\"\"\"") || text.contains("'''");
    let follows = lines.any(|line| !line.trim().is_empty() && !line.trim_start().starts_with(['#', ')']));
    (follows && !is_text).then_some(end)
}
