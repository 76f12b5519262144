//! A command that is given to a dynamic loader: `ld.so [OPTION]… PROGRAM` (glibc elf/rtld.c, `dl_main`; musl
//! ldso/dynlink.c, `__dls3`).

use super::users::MUSL;
use super::{CommandFollower, known, maybe};
use crate::byte_search::contains_bytes;
use crate::judge::facts::entry_problem::EntryProblem;
use crate::judge::facts::resolved_objects::elf_at;
use crate::judge::facts::shell_script::VariableValue;
use image_linkage::escape;

/// Options of glibc's that take a value and change the search in a way that is not followed.
const UNFOLLOWED: [&str; 4] = [
    "--audit",
    "--glibc-hwcaps-mask",
    "--glibc-hwcaps-prepend",
    "--inhibit-rpath",
];

/// Options of glibc's that start no program.
const STARTS_NOTHING: [&str; 6] = [
    "--help",
    "--list",
    "--list-diagnostics",
    "--list-tunables",
    "--verify",
    "--version",
];

/// Variables by which glibc's loads auditors that search for it, lists what it would load and starts nothing (ld.so(8)), or
/// searches as on another processor.
const UNFOLLOWED_VARIABLES: [&str; 4] = ["GLIBC_TUNABLES", "LD_AUDIT", "LD_DEBUG", "LD_TRACE_LOADED_OBJECTS"];

impl CommandFollower<'_> {
    /// A variable that the loader heeds in a way that is not followed.
    pub(super) fn unfollowed_variable(&self) -> Option<EntryProblem> {
        let is_set = |name: &&str| match self.variables.get(*name) {
            None | Some(VariableValue::Unset) => false,
            Some(VariableValue::Unknown) => true,
            Some(VariableValue::Text(value)) => match *name {
                // A processor without what is masked has other folders.
                "GLIBC_TUNABLES" => value.contains("glibc.cpu.hwcaps="),
                "LD_AUDIT" => !value.is_empty(),
                // With this word it tells of the others, and starts nothing.
                "LD_DEBUG" => value.split([' ', ',', ':']).any(|word| word == "help"),
                // It traces with any value.
                _ => true,
            },
        };
        let name = UNFOLLOWED_VARIABLES.into_iter().find(is_set)?;
        Some(EntryProblem::LoaderVariable(name))
    }

    /// The options stand in for the variables of this one process.
    pub(super) fn loader(&mut self) -> bool {
        let mut words = self.words.iter().cloned();
        let loader = words.next().flatten().unwrap_or_default();
        let is_musl = contains_bytes(loader.as_bytes(), MUSL);
        let mut words = words.collect::<Vec<_>>().into_iter().peekable();
        // A word with one dash is the program's path.
        while let Some(Some(word)) = words.next_if(|word| word.as_deref().is_some_and(|word| word.starts_with("--"))) {
            // musl's take their value also behind `=`.
            let (option, own) = match word.split_once('=').filter(|_| is_musl) {
                Some((option, value)) => (option, Some(value.to_owned())),
                None => (word.as_str(), None),
            };
            let mut value = || own.clone().or_else(|| words.next().flatten());
            match option {
                "--" if is_musl => break,
                "--library-path" => {
                    let value = maybe(value());
                    self.variables.insert("LD_LIBRARY_PATH".to_owned(), value);
                }
                "--preload" => {
                    let value = value();
                    self.preload(value);
                }
                "--argv0" => drop(value()),
                "--inhibit-cache" if !is_musl => self.leave_open(option),
                _ if UNFOLLOWED.contains(&option) && !is_musl => {
                    drop(value());
                    self.leave_open(option);
                }
                _ => {
                    let is_known = option == "--list" || STARTS_NOTHING.contains(&option) && !is_musl;
                    let why = if is_known {
                        "starts nothing"
                    } else {
                        "is no option that it has"
                    };
                    let words = escape::escape_bytes(format!("{loader} {option}").as_bytes());
                    self.problem = Some(EntryProblem::NotStarted(format!("{words} {why}")));
                    self.lose();
                    break;
                }
            }
        }
        self.words = words.collect();
        self.by_loader = !self.words.is_empty();
        if self.problem.is_none() {
            self.check_argument(&loader, is_musl);
        }
        // What it starts is an object: no interpreter of a script is asked for.
        false
    }

    /// Whether the loader has a program, and can load it: it takes a word without a slash for a library's name, and searches no
    /// `PATH`.
    fn check_argument(&mut self, loader: &str, is_musl: bool) {
        let Some(word) = self.words.first() else {
            return self.fail(loader, "missing program name");
        };
        let Some(word) = word.clone() else { return };
        if !word.contains('/') && !is_musl {
            return self.fail(&word, "cannot open shared object file: No such file or directory");
        }
        let Some(path) = self.absolute(&word) else { return };
        let Ok(found) = self.rootfs.lookup(path.as_bytes()) else {
            let said = || {
                format!(
                    "{}: cannot open shared object file",
                    escape::escape_bytes(word.as_bytes())
                )
            };
            self.absent.get_or_insert_with(said);
            return;
        };
        let own = self.rootfs.lookup(loader.as_bytes()).map(|own| own.path);
        if own.is_ok_and(|own| own == found.path) {
            self.fail(&word, "loader cannot load itself");
        } else if elf_at(self.rootfs, &found.path).is_none() {
            self.fail(&word, "it is no object that a loader takes");
        }
    }

    /// Adds what is preloaded beside what the variable says.
    fn preload(&mut self, value: Option<String>) {
        let before = self.variables.get("LD_PRELOAD").cloned();
        let all = match (before, maybe(value)) {
            (Some(VariableValue::Text(before)), VariableValue::Text(more)) => known(&format!("{before}:{more}")),
            (Some(VariableValue::Unknown), _) => VariableValue::Unknown,
            (_, value) => value,
        };
        self.variables.insert("LD_PRELOAD".to_owned(), all);
    }

    /// What the process gets depends on an option, for which nothing but the run itself stands here.
    fn leave_open(&mut self, option: &str) {
        self.problem = Some(EntryProblem::LoaderOption(option.to_owned()));
        self.lose();
    }
}
