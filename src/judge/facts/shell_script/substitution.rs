//! What commands say on their standard output, where that is known: `$(…)` (POSIX.1-2017, Shell Command Language, 2.6.3).

use std::rc::Rc;

use super::script_run::{Doubt, ScriptRun, Success, VariableValue};
use super::variables::VALUE;
use crate::judge::facts::shell_words::ShellToken;

/// What comes of the commands in a word.
pub(super) struct Substitution {
    pub output: Option<String>,
    pub success: Success,
    /// Whether its success is an answer that only a run could tell.
    pub asks: bool,
    /// Whether a program has run that may have made files.
    pub has_started: bool,
    pub failed: String,
}

/// The commands of one substitution that are followed.
const COMMANDS: usize = 50;

impl ScriptRun<'_> {
    /// Follows commands in a shell of their own.
    pub(super) fn substitute(&self, commands: &[ShellToken]) -> Substitution {
        let left = self.substitutions.get();
        let mut inner = ScriptRun::new(self.files, self.state.clone());
        inner.substitutions = Rc::clone(&self.substitutions);
        inner.texts = Rc::clone(&self.texts);
        inner.left = if left == 0 { 0 } else { COMMANDS.min(self.left) };
        self.substitutions.set(left.saturating_sub(1));
        inner.functions.clone_from(&self.functions);
        (inner.depth, inner.calls) = (self.depth + 1, self.calls);
        inner.has_started = self.has_started;
        if self.state.is_bash() {
            // bash takes it away there (bash(1), "COMMAND EXECUTION ENVIRONMENT").
            inner.state.flags.remove(&'e');
        }
        let is_read = inner.lines(commands);
        let success = if inner.ending.is_over {
            inner.ending.success
        } else {
            inner.status
        };
        let is_known = is_read && inner.left > 0;
        let output = inner.output.filter(|text| is_known && text.len() <= VALUE);
        Substitution {
            output: output.map(|text| text.trim_end_matches('\n').to_owned()),
            success: success.filter(|_| is_known),
            asks: inner.asks || inner.ending.is_doubtful(),
            has_started: inner.has_started,
            failed: inner.failed,
        }
    }

    /// Says a text; nothing where only a run could tell which.
    fn say(&mut self, text: Option<String>) {
        match self.doubt {
            Doubt::Skipped => {}
            Doubt::Sure => {
                let said = self.output.take().zip(text).map(|(before, text)| before + &text);
                self.output = said.filter(|text| text.len() <= VALUE);
            }
            Doubt::Program | Doubt::Open => self.output = None,
        }
    }

    /// `echo`, `printf` and `pwd`.
    pub(super) fn say_own(&mut self, name: &str, rest: &[Option<String>]) {
        let words: Option<Vec<&str>> = rest.iter().map(Option::as_deref).collect();
        let text = words.and_then(|words| match (name, words.as_slice()) {
            ("pwd", _) => Some(self.state.directory.clone()? + "\n"),
            ("printf", ["%s" | "%s\\n", word]) => Some((*word).to_owned()),
            ("printf", [word]) if !word.contains(['%', '\\']) => Some((*word).to_owned()),
            // Options and backslashes mean something else to each shell.
            ("echo", ["-n", words @ ..]) if !words.iter().any(|word| word.contains('\\')) => Some(words.join(" ")),
            ("echo", words) => {
                let text = words.join(" ") + "\n";
                Some(text).filter(|text| !text.contains('\\') && !text.starts_with('-'))
            }
            _ => None,
        });
        self.say(text);
    }

    /// What a program says.
    pub(super) fn say_program(&mut self, name: &str, rest: &[Option<String>]) {
        let words: Option<Vec<&str>> = rest.iter().map(Option::as_deref).collect();
        let text = words.and_then(|words| match (name, words.as_slice()) {
            ("dirname", [path]) => Some(folder_of(path)),
            ("basename", [path]) => Some(name_of(path).to_owned()),
            ("basename", [path, end]) => {
                let name = name_of(path);
                Some(
                    name.strip_suffix(end)
                        .filter(|rest| !rest.is_empty())
                        .unwrap_or(name)
                        .to_owned(),
                )
            }
            ("cat", [path]) if !path.starts_with('-') => self.files.text(&self.path(path)?),
            ("readlink", ["-f" | "-e", path]) | ("realpath", [path]) => self.files.real_path(&self.path(path)?),
            _ => None,
        });
        let ends = text.map(|text| if text.ends_with('\n') { text } else { text + "\n" });
        self.say(ends);
    }

    /// Puts a variable back behind the function that had one of its own.
    pub(super) fn restore(&mut self, name: &str, value: Option<VariableValue>, is_exported: bool) {
        match value {
            Some(value) => drop(self.state.variables.insert(name.to_owned(), value)),
            None => drop(self.state.variables.remove(name)),
        }
        self.state.local.retain(|local| local != name);
        if !is_exported {
            self.state.local.push(name.to_owned());
        }
    }
}

/// As dirname(1) has it.
fn folder_of(path: &str) -> String {
    match path.trim_end_matches('/').rsplit_once('/') {
        Some((folder, _)) if folder.trim_end_matches('/').is_empty() => "/".to_owned(),
        Some((folder, _)) => folder.trim_end_matches('/').to_owned(),
        None if path.starts_with('/') => "/".to_owned(),
        None => ".".to_owned(),
    }
}

/// As basename(1) has it.
fn name_of(path: &str) -> &str {
    let trimmed = path.trim_end_matches('/');
    trimmed
        .rsplit('/')
        .next()
        .filter(|name| !name.is_empty())
        .unwrap_or(path)
}
