//! What shells read and run on the way from the container's command to its program.

use super::{CommandFollower, is_option};
use crate::judge::facts::shell_script::{ShellState, VariableValue, run_script};
use crate::judge::facts::shell_words::USER_NUMBER;
use image_linkage::rootfs::FileUse;

impl CommandFollower<'_> {
    /// A shell: its `-c` text, or the script that it is given.
    pub(super) fn shell(&mut self, base: &str) -> bool {
        let mut at = 1;
        let (mut is_text, mut is_login, mut is_interactive) = (false, false, false);
        while let Some(Some(option)) = self.words.get(at).filter(|word| word.as_deref().is_some_and(is_option)) {
            let has = |letter: char| !option.starts_with("--") && option.contains(letter);
            is_login |= option == "--login" || has('l');
            is_interactive |= has('i');
            is_text |= has('c');
            // `-o pipefail` and its like.
            at += if option.ends_with('o') && !option.starts_with("--") {
                2
            } else {
                1
            };
        }
        let Some(Some(word)) = self.words.get(at).cloned() else {
            return false;
        };
        let mut rest = self.words.get(at + 1..).unwrap_or_default().to_vec();
        let text = if is_text {
            // The first word behind the text is `$0`.
            rest.drain(..rest.len().min(1));
            Some(word)
        } else {
            if self
                .absolute(&word)
                .is_some_and(|path| self.is_closed(&path, FileUse::Read))
            {
                return false;
            }
            self.kept_text(&word)
        };
        match (text, self.start_files(base, is_login, is_interactive)) {
            (Some(text), Some(before)) => self.run(base, &(before + &text), rest),
            _ => self.lose(),
        }
    }

    /// What a shell reads before what it is given, as a script; `None` where only a run could tell.
    fn start_files(&self, base: &str, is_login: bool, is_interactive: bool) -> Option<String> {
        let is_bash = base == "bash";
        let mut all = String::new();
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

    pub(super) fn run(&mut self, base: &str, text: &str, arguments: Vec<Option<String>>) -> bool {
        // A carriage return becomes part of the last word of each line.
        if text.contains("\r\n") {
            return self.lose();
        }
        let user = match self.program("id") {
            Some(_) => VariableValue::Text(self.credentials().uid.to_string()),
            None => VariableValue::Unknown,
        };
        self.variables.insert(USER_NUMBER.to_owned(), user);
        let state = ShellState {
            variables: std::mem::take(&mut self.variables),
            arguments,
            // As getcwd(3) says it, without links.
            directory: self.directory.as_deref().map(|path| self.real_directory(path)),
            goes_on_without: base == "bash",
            ..ShellState::default()
        };
        let started = run_script(text, state, self);
        self.is_direct = false;
        self.problem = started.problem.or(self.problem.take());
        self.variables = started.variables;
        self.directory = started.directory;
        self.become_user(started.user);
        self.words = started.words;
        !self.words.is_empty()
    }
}
