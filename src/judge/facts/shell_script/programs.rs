//! Programs that a script runs on its way: what can be foretold of their success by the files that they are given.

use super::script_run::{CacheChange, Doubt, ScriptRun, Success, VariableValue};

/// Programs that only say something, or change files that are there: no script is for them.
const HARMLESS: [&str; 62] = [
    "awk",
    "basename",
    "cat",
    "chgrp",
    "chmod",
    "chown",
    "cmp",
    "cp",
    "cut",
    "date",
    "df",
    "diff",
    "dirname",
    "du",
    "egrep",
    "expr",
    "fgrep",
    "find",
    "free",
    "getent",
    "grep",
    "head",
    "hostname",
    "id",
    "install",
    "jq",
    "ldconfig",
    "ln",
    "ls",
    "md5sum",
    "mkdir",
    "mkfifo",
    "mktemp",
    "mountpoint",
    "mv",
    "nproc",
    "ping",
    "printenv",
    "ps",
    "readlink",
    "realpath",
    "rm",
    "rmdir",
    "sed",
    "seq",
    "sha256sum",
    "sleep",
    "sort",
    "stat",
    "tail",
    "tee",
    "touch",
    "tr",
    "tty",
    "uname",
    "uniq",
    "wc",
    "which",
    "whoami",
    "yes",
    "nvidia-smi",
    "clear",
];
/// Those that make no file, but where their output is led into one.
const MAKES_FILES: [&str; 13] = [
    "awk", "cp", "install", "ldconfig", "ln", "mkdir", "mkfifo", "mktemp", "mv", "sed", "sort", "tee", "touch",
];
/// Those that are run to be asked: that they fail is an answer.
const ASKING: [&str; 12] = [
    "cmp",
    "diff",
    "egrep",
    "expr",
    "fgrep",
    "getent",
    "grep",
    "mountpoint",
    "pgrep",
    "pidof",
    "ping",
    "tty",
];
/// Those that fail without a file that they are given, and how many words in front of the files are none.
const READING: [(&str, usize); 22] = [
    ("cat", 0),
    ("chgrp", 1),
    ("chmod", 1),
    ("chown", 1),
    ("cp", 0),
    ("egrep", 1),
    ("fgrep", 1),
    ("grep", 1),
    ("head", 0),
    ("install", 0),
    ("jq", 1),
    ("ls", 0),
    ("md5sum", 0),
    ("mv", 0),
    ("rm", 0),
    ("rmdir", 0),
    ("sed", 1),
    ("sha256sum", 0),
    ("sort", 0),
    ("stat", 0),
    ("tail", 0),
    ("wc", 0),
];

impl ScriptRun<'_> {
    /// Runs a program: it is taken to succeed where nothing speaks against that.
    pub(super) fn run_program(
        &mut self,
        assignments: &[(String, VariableValue)],
        fields: &[Option<String>],
    ) -> Success {
        let known = fields.first().and_then(Option::as_deref);
        if let Some(name) = known
            && self.has_program(name) == Some(false)
        {
            self.ending.miss(fields);
            return Some(false);
        }
        let name = known.map_or("", last_part);
        let foretold = self.foretell(name, fields.get(1..).unwrap_or_default());
        self.change_cache(name, fields);
        self.start(assignments, fields);
        self.say_program(name, fields.get(1..).unwrap_or_default());
        // Without a command it says what its variables are.
        let is_list = name == "env" && fields.iter().skip(1).flatten().all(|word| word.contains('='));
        self.has_started |= !is_harmless(name) && !is_list || MAKES_FILES.contains(&name);
        self.asks = foretold.is_none() && ASKING.contains(&name);
        self.is_of_program = foretold.is_none() && !self.asks;
        foretold
    }

    /// `ldconfig` makes the cache anew, from folders that the image names where nothing has changed them.
    fn change_cache(&mut self, name: &str, fields: &[Option<String>]) {
        self.changes_paths |= fields.iter().flatten().any(|word| word.contains("ld.so.conf"));
        if name != "ldconfig" || self.doubt == Doubt::Skipped {
            return;
        }
        let is_plain = fields.len() == 1 && !self.changes_paths && self.doubt == Doubt::Sure;
        let change = if is_plain {
            CacheChange::Remade
        } else {
            CacheChange::Unknown
        };
        self.cache = self.cache.max(change);
    }

    /// Whether there is a program of this name; a program that ran before may have brought it.
    pub(super) fn has_program(&self, name: &str) -> Option<bool> {
        let found = self.files.has_program(name)?;
        let may_be_function = self.has_unknown && !name.contains('/');
        Some(found).filter(|found| *found || !self.has_started && !may_be_function)
    }

    /// What a program says of its success, where its files decide.
    fn foretell(&self, name: &str, rest: &[Option<String>]) -> Success {
        let has = |letter: char| {
            let mut options = rest
                .iter()
                .flatten()
                .filter(|word| word.starts_with('-') && !word.starts_with("--"));
            options.any(|word| word.contains(letter))
        };
        let mut paths = self.operands(rest);
        match name {
            "mkdir" if has('p') || rest.iter().flatten().any(|word| word == "--parents") => Some(true),
            "mkdir" => paths
                .iter()
                .any(|path| self.file_test('e', path) == Some(true))
                .then_some(false),
            "ln" | "ldconfig" => Some(true),
            "touch" => {
                let folder = |path: &String| path.rsplit_once('/').map(|(folder, _)| folder.to_owned());
                let mut folders = paths.iter().filter_map(folder).filter(|folder| !folder.is_empty());
                folders
                    .any(|folder| self.file_test('d', &folder) == Some(false))
                    .then_some(false)
            }
            "rm" if has('f') => Some(true),
            _ => {
                let (_, skipped) = READING.iter().find(|(known, _)| *known == name)?;
                // The words of a program in the place of a file are none.
                let is_told = *skipped > 0 && (has('e') || has('f')) && !name.starts_with("ch");
                let words = if is_told { 0 } else { *skipped };
                paths = self.operands(behind_words(rest, words));
                if matches!(name, "cp" | "install" | "mv") {
                    paths.pop();
                }
                let is_gone = |path: &String| self.file_test('e', path) == Some(false);
                paths.iter().any(is_gone).then_some(false)
            }
        }
    }

    /// The paths among the words of a command, as far as they show that they are some.
    fn operands(&self, words: &[Option<String>]) -> Vec<String> {
        let words = words.iter().flatten();
        let paths = words.filter(|word| !word.starts_with('-') && word.contains('/'));
        paths.filter_map(|word| self.path(word)).collect()
    }
}

/// The words behind the first of those that are no options.
fn behind_words(words: &[Option<String>], count: usize) -> &[Option<String>] {
    let is_operand = |word: &Option<String>| word.as_deref().is_none_or(|word| !word.starts_with('-'));
    let mut places = words.iter().enumerate().filter(|(_, word)| is_operand(word));
    let at = count
        .checked_sub(1)
        .and_then(|before| places.nth(before))
        .map_or(0, |(at, _)| at + 1);
    words.get(at..).unwrap_or_default()
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Whether a script is not for a program, whatever else it runs.
pub(super) fn is_harmless(program: &str) -> bool {
    HARMLESS.contains(&last_part(program))
}
