//! The commands of the shell itself that change or ask for variables.

use image_linkage::escape;

use super::script_run::{Doubt, ScriptRun, ShellKind, Success, VariableValue};
use super::variables::UNKNOWN;
use crate::judge::facts::entry_problem::EntryProblem;

impl ScriptRun<'_> {
    /// `export`, `readonly`, `local` and `declare` with their words; their success.
    pub(super) fn declare_all(&mut self, by: &str, words: &[Option<String>]) -> Success {
        if by == "local" && self.calls == 0 {
            return self.refuse_as_dash("`local` stands in no function");
        }
        let names = words.iter().flatten();
        let names = names.map(|word| word.split_once('=').map_or(word.as_str(), |(name, _)| name));
        let names: Vec<String> = names.map(|name| name.trim_end_matches('+').to_owned()).collect();
        // dash takes `-p` alone, and takes other options of `local` for names.
        let is_foreign = |name: &&String| name.starts_with('-') && *name != "-p" && *name != "--";
        if self.state.kind == ShellKind::Dash && names.iter().any(|name| is_foreign(&name)) {
            return self.refuse_as_dash(&format!("`{by}` has an option that dash does not know"));
        }
        let is_own = by == "local" || self.calls > 0 && matches!(by, "declare" | "typeset");
        for name in names.iter().filter(|name| is_own && !name.starts_with('-')) {
            let before = self.state.variables.get(name).cloned();
            let is_exported = before.is_some() && !self.state.local.contains(name);
            self.locals.push((name.clone(), before, is_exported));
        }
        self.declare(by, words);
        if by == "readonly" {
            self.state.readonly.extend(names);
        }
        Some(true)
    }

    /// What dash ends at; bash goes on, and of others it is not known.
    pub(super) fn refuse_as_dash(&mut self, why: &str) -> Success {
        match self.state.kind {
            ShellKind::Dash => {
                self.end(why.to_owned());
                Some(false)
            }
            ShellKind::Bash => Some(false),
            ShellKind::Busybox | ShellKind::Other => None,
        }
    }

    fn declare(&mut self, by: &str, words: &[Option<String>]) {
        let options: Vec<&str> = words
            .iter()
            .flatten()
            .map(String::as_str)
            .take_while(|word| word.starts_with(['-', '+']))
            .collect();
        let has = |sign: char, letter: char| {
            options
                .iter()
                .any(|option| option.starts_with(sign) && option.contains(letter))
        };
        let exports = by == "export" && !options.contains(&"-n") || has('-', 'x');
        if by != "export" && has('-', 'n') {
            // A name that stands for another variable.
            self.forget_all();
        }
        for word in words.get(options.len()..).unwrap_or_default() {
            let Some(word) = word else {
                self.forget_all();
                continue;
            };
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word.as_str(), None),
            };
            if let Some(value) = value {
                let appended = name.strip_suffix('+');
                let value = match (appended, appended.map(|name| self.value(name))) {
                    (_, Some(VariableValue::Text(before))) => VariableValue::Text(before + value),
                    (None, _) | (_, Some(VariableValue::Unset)) => VariableValue::Text(value.to_owned()),
                    _ => VariableValue::Unknown,
                };
                // What a word held that is not known was marked so.
                let value = match value {
                    VariableValue::Text(text) if text.contains(UNKNOWN) => VariableValue::Unknown,
                    other => other,
                };
                self.assign(appended.unwrap_or(name), value);
            }
            if exports {
                self.export(name.strip_suffix('+').unwrap_or(name));
            } else if by == "export" || has('+', 'x') {
                self.state.variables.insert(name.to_owned(), VariableValue::Unknown);
            }
        }
    }

    pub(super) fn unset_all(&mut self, names: &[Option<String>]) {
        if names.contains(&None) {
            self.forget_all();
        }
        let is_of_functions = names.iter().flatten().any(|name| name == "-f");
        for name in names.iter().flatten().filter(|name| !name.starts_with('-')) {
            if is_of_functions {
                self.functions.remove(name);
            } else {
                self.unset(name);
            }
        }
    }

    /// `set [-OPTIONS] [-o NAME] [--] [ARGUMENT]…`
    pub(super) fn set(&mut self, words: &[Option<String>]) {
        let mut rest = words;
        while let Some((Some(word), behind)) = rest.split_first() {
            let (is_on, letters) = match (word.strip_prefix('-'), word.strip_prefix('+')) {
                (Some(letters), _) => (true, letters),
                (_, Some(letters)) => (false, letters),
                _ => break,
            };
            rest = behind;
            if matches!(letters, "" | "-") {
                self.state.arguments = rest.to_vec();
                return;
            }
            let named = if letters.contains('o') {
                let name = rest.first().and_then(Option::as_deref);
                if name == Some("pipefail") && self.state.kind == ShellKind::Dash && self.doubt <= Doubt::Open {
                    self.may_end("`set -o pipefail` is unknown to dash, as it is before 0.5.13".to_owned());
                }
                rest = rest.get(1..).unwrap_or_default();
                if is_on && name.is_none_or(|name| CHANGES_SHELL.contains(&name)) {
                    self.forget_all();
                }
                name.and_then(letter_of)
            } else {
                None
            };
            if is_on && letters.contains(['k', 'r', 't']) {
                self.forget_all();
            }
            if is_on && letters.chars().chain(named).any(|letter| letter == 'n') {
                self.end("`set -n` lets its shell read on and run nothing".to_owned());
            }
            for letter in letters.chars().filter(|letter| "aeu".contains(*letter)).chain(named) {
                self.set_flag(letter, is_on);
            }
        }
        if !rest.is_empty() {
            self.state.arguments = rest.to_vec();
        }
    }

    pub(super) fn set_flag(&mut self, letter: char, is_on: bool) {
        // What may be set ends nothing for sure; that all is exported is the careful answer.
        match (is_on, self.doubt) {
            (true, Doubt::Sure) => drop(self.state.flags.insert(letter)),
            (true, _) if letter == 'a' => drop(self.state.flags.insert(letter)),
            (false, _) => drop(self.state.flags.remove(&letter)),
            _ => {}
        }
    }

    pub(super) fn source(&mut self, words: &[Option<String>]) -> Success {
        let Some(name) = words.first().and_then(Option::as_deref) else {
            self.has_unknown = true;
            if self.files.some_part_sets() {
                self.forget_all();
            }
            return None;
        };
        // A name without a slash is searched for along PATH, by bash in the working directory too.
        let path = Some(name)
            .filter(|name| name.contains('/'))
            .and_then(|name| self.path(name));
        let Some(path) = path else {
            self.forget_commands();
            return None;
        };
        match (self.files.text(&path), self.file_test('e', &path)) {
            (Some(text), _) => {
                let before = std::mem::replace(&mut self.returned, Doubt::Sure);
                self.sources += 1;
                let source = self.state.arrays.insert(SOURCE.to_owned(), vec![Some(name.to_owned())]);
                let is_read = self.script(&text);
                self.returned = before;
                self.sources -= 1;
                self.state
                    .arrays
                    .extend(source.map(|source| (SOURCE.to_owned(), source)));
                return if is_read { self.status } else { Some(false) };
            }
            (None, Some(false)) => return Some(self.read_nothing(&path, "is not in the image")),
            (None, Some(true)) if self.files.test('r', &path) == Some(false) => {
                return Some(self.read_nothing(&path, "may not be read by its user"));
            }
            (None, _) => self.forget_commands(),
        }
        None
    }

    /// A file that cannot be read is the end of a script, but for bash (2.8.1).
    fn read_nothing(&mut self, path: &str, why: &'static str) -> bool {
        if !self.state.is_bash() {
            self.forget_all();
            if self.doubt == Doubt::Sure {
                let path = escape::escape_bytes(path.as_bytes());
                self.ending.is_over = true;
                self.ending.problem = Some(EntryProblem::StopsAt(path, why));
            }
        }
        false
    }

    /// A path from the root, where the working directory is known.
    pub(super) fn path(&self, path: &str) -> Option<String> {
        if path.starts_with('/') {
            return Some(path.to_owned());
        }
        let directory = self.state.directory.as_deref()?;
        Some(format!("{}/{path}", directory.trim_end_matches('/')))
    }

    /// `cd [-L|-P] [DIRECTORY]`: the path stays as it is written, but for `.` and `..`.
    pub(super) fn change_directory(&mut self, words: &[Option<String>]) -> Success {
        let mut words = words
            .iter()
            .skip_while(|word| matches!(word.as_deref(), Some("-L" | "--")));
        let to = match words.next() {
            None => match self.value("HOME") {
                VariableValue::Text(home) => Some(home),
                _ => None,
            },
            Some(word) => word.clone().filter(|word| !word.starts_with('-')),
        };
        let is_searched = self.value("CDPATH") != VariableValue::Unset;
        let to = to.filter(|to| !is_searched || to.starts_with(['/', '.']));
        let to = to.and_then(|to| self.path(&to)).map(|to| without_dots(&to));
        // One that is not in the image may have been made, or mounted.
        let there = to.as_ref().and_then(|to| self.file_test('d', to));
        let is_closed = |to: &String| there == Some(true) && self.files.test('x', to) == Some(false);
        if there == Some(false) || to.as_ref().is_some_and(is_closed) {
            return Some(false);
        }
        let to = to.filter(|_| there == Some(true));
        if self.doubt == Doubt::Sure || to != self.state.directory {
            self.state.directory = to.filter(|_| self.doubt == Doubt::Sure);
        }
        self.state.directory.is_some().then_some(true)
    }
}

/// The array of bash that holds the file that is read.
pub(in crate::judge::facts) const SOURCE: &str = "BASH_SOURCE";

/// Options of `set -o` by which a shell becomes another one.
const CHANGES_SHELL: [&str; 4] = ["keyword", "onecmd", "posix", "restricted"];

/// The letter of an option of `set -o`.
pub(in crate::judge::facts) fn letter_of(name: &str) -> Option<char> {
    match name {
        "allexport" => Some('a'),
        "pipefail" => Some('p'),
        "errexit" => Some('e'),
        "nounset" => Some('u'),
        "noexec" => Some('n'),
        _ => None,
    }
}

/// A path without `.`, and with each `..` taken together with what stands before it.
fn without_dots(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}
