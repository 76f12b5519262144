//! What shells read and run on the way from the container's command to its program.

use std::collections::BTreeSet;

use super::{CacheChange, CommandFollower, EntryProblem, is_option};
use crate::judge::facts::shell_script::{
    SOURCE, ShellKind, ShellState, VariableValue, letter_of, new_user, run_script,
};
use crate::judge::facts::shell_words::USER_NUMBER;
use image_linkage::escape;
use image_linkage::rootfs::FileUse;

/// What the words of a shell say before its script.
#[derive(Default)]
struct ShellOptions {
    /// The number of the word behind them.
    at: usize,
    is_text: bool,
    is_login: bool,
    is_interactive: bool,
    /// The letters of options that are followed.
    flags: BTreeSet<char>,
}

impl CommandFollower<'_> {
    /// A shell: its `-c` text, or the script that it is given.
    pub(super) fn shell(&mut self, base: &str, real: &str) -> bool {
        let Some(options) = self.shell_options(base) else {
            return false;
        };
        let ShellOptions { at, mut flags, .. } = options;
        let Some(Some(word)) = self.words.get(at).cloned() else {
            return false;
        };
        let mut rest = self.words.get(at + 1..).unwrap_or_default().to_vec();
        let mut script = Some(word.clone());
        let text = if options.is_text {
            // The first word behind the text is `$0`.
            script = rest.drain(..rest.len().min(1)).next().flatten();
            Some(word)
        } else {
            if self
                .absolute(&word)
                .is_some_and(|path| self.is_closed(&path, FileUse::Read))
            {
                return false;
            }
            self.miss(base, &word);
            self.kept_text(&word)
        };
        let kind = match self.variables.get("POSIXLY_CORRECT") {
            None | Some(VariableValue::Unset) => shell_kind(base, real),
            // bash becomes another shell by it.
            Some(_) => shell_kind("sh", real),
        };
        let before = self.start_files(base, real, options.is_login, options.is_interactive);
        if kind == ShellKind::Bash
            && let Some(VariableValue::Text(options)) = self.variables.get("SHELLOPTS")
        {
            flags.extend(options.split(':').filter_map(letter_of));
        }
        if flags.contains(&'n') {
            let why = format!("{base} reads its script and runs nothing, by the option -n");
            self.problem = Some(EntryProblem::NotStarted(why));
            return false;
        }
        // The letter of `pipefail`, which a shell is asked for before anything else.
        let before = before.map(|before| {
            if flags.contains(&'p') {
                format!("set -o pipefail\n{before}")
            } else {
                before
            }
        });
        match (text, before) {
            (Some(text), Some(before)) => {
                let state = ShellState {
                    arguments: rest,
                    flags,
                    kind,
                    script,
                    ..ShellState::default()
                };
                self.run(&(before + &text), state)
            }
            _ => self.lose(),
        }
    }

    /// The options of a shell; `None` where one ends it.
    fn shell_options(&mut self, base: &str) -> Option<ShellOptions> {
        let mut options = ShellOptions {
            at: 1,
            ..ShellOptions::default()
        };
        while let Some(Some(option)) = self
            .words
            .get(options.at)
            .filter(|word| word.as_deref().is_some_and(is_option))
        {
            let has = |letter: char| !option.starts_with("--") && option.contains(letter);
            // The kernel makes one word of all that stands behind an interpreter.
            if option.contains(' ') && !option.starts_with("--") {
                let words = escape::escape_bytes(format!("{base} '{option}'").as_bytes());
                self.problem = Some(EntryProblem::NotStarted(format!("{words}: one word is no such option")));
                return None;
            }
            options.is_login |= option == "--login" || has('l');
            options.is_interactive |= has('i');
            options.is_text |= has('c');
            options.at += 1;
            // `-o pipefail` and its like.
            let named = if option.ends_with('o') && !option.starts_with("--") {
                options.at += 1;
                let name = self.words.get(options.at - 1).and_then(Option::as_deref);
                name.and_then(letter_of)
            } else {
                None
            };
            options.flags.extend(
                "aenu"
                    .chars()
                    .filter(|letter| option.starts_with('-') && has(*letter))
                    .chain(named),
            );
        }
        Some(options)
    }

    /// What a shell reads before what it is given, as a script; `None` where only a run could tell.
    fn start_files(&self, base: &str, real: &str, is_login: bool, is_interactive: bool) -> Option<String> {
        let is_bash = base == "bash";
        let mut all = if is_bash || real == "bash" {
            self.functions()
        } else {
            String::new()
        };
        if is_login {
            all.push_str("[ -e /etc/profile ] && . /etc/profile\n");
            let own: &[&str] = if is_bash {
                &[".bash_profile", ".bash_login", ".profile"]
            } else {
                &[".profile"]
            };
            // The first that is there (bash(1), "INVOCATION").
            let tests = own
                .iter()
                .map(|name| format!("if [ -r ~/{name} ]; then . ~/{name}; el"));
            all.push_str(&tests.collect::<String>());
            all.push_str("se :; fi\n");
        }
        match self.variables.get("BASH_ENV") {
            Some(VariableValue::Text(path)) if is_bash && !is_login => {
                self.kept_text(path)?;
                all.push_str(". \"$BASH_ENV\"\n");
            }
            Some(VariableValue::Unknown) if is_bash => return None,
            _ => {}
        }
        // An interactive shell reads what its users have written for their hands.
        (!is_interactive).then_some(all)
    }

    /// The functions that bash takes from its environment, as a script; also as `sh` (variables.c, `initialize_shell_variables`).
    fn functions(&self) -> String {
        let functions = self.variables.iter().filter_map(|(name, value)| {
            let name = name.strip_prefix("BASH_FUNC_")?.strip_suffix("%%")?;
            match value {
                VariableValue::Text(text) => Some(format!("{name} {text}\n")),
                _ => None,
            }
        });
        functions.collect()
    }

    fn run(&mut self, text: &str, state: ShellState) -> bool {
        // A carriage return becomes part of the last word of each line.
        if text.contains("\r\n") {
            return self.lose();
        }
        let number = VariableValue::Text(self.credentials().uid.to_string());
        let user = match self.program("id") {
            Some(_) => number.clone(),
            None => VariableValue::Unknown,
        };
        self.variables.insert(USER_NUMBER.to_owned(), user);
        let mut state = ShellState {
            variables: std::mem::take(&mut self.variables),
            // As getcwd(3) says it, without links.
            directory: self.directory.as_deref().map(|path| self.real_directory(path)),
            ..state
        };
        if state.kind == ShellKind::Bash {
            for name in ["EUID", "UID"] {
                state.variables.insert(name.to_owned(), number.clone());
                state.local.push(name.to_owned());
            }
        }
        if let Some(script) = state.script.as_ref().filter(|_| state.kind == ShellKind::Bash) {
            state.arrays.insert(SOURCE.to_owned(), vec![Some(script.clone())]);
        }
        let started = run_script(text, state, self);
        self.is_direct = false;
        self.script = None;
        self.problem = started.problem.or(self.problem.take());
        self.doubt = self.doubt.take().or(started.doubt);
        self.variables = started.variables;
        self.directory = started.directory;
        self.changes.extend(started.changes);
        if self.credentials().uid == 0 {
            self.cache = self.cache.max(started.cache);
            if started.cache != CacheChange::Kept {
                self.cache_folders = started.cache_folders;
            }
        }
        // A command that takes on another user comes next, and may not be let to.
        if new_user(&started.words).is_none() {
            self.become_user(started.user);
        }
        self.words = started.words;
        // What it has started before its end is not what it is for.
        !self.words.is_empty() && self.problem.is_none()
    }
}

fn shell_kind(base: &str, real: &str) -> ShellKind {
    match (base, real) {
        (_, "dash") => ShellKind::Dash,
        (_, "busybox") => ShellKind::Busybox,
        ("bash", _) => ShellKind::Bash,
        // As `sh`, it follows POSIX.
        (name, "bash") if name != "sh" => ShellKind::Bash,
        _ => ShellKind::Other,
    }
}
