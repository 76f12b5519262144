//! The image's users: `/etc/passwd`, `su` and `sudo`.

use crate::launch::{DEFAULT_PATH, Process};
use crate::launcher_table::{GivenOptions, Launcher, OptionEffect};
use crate::reader::Reader;
use crate::state::{State, User};
use crate::value::{clean_text, is_open};

/// A line of `/etc/passwd`.
pub(crate) struct Account {
    pub uid: String,
    pub home: String,
    pub shell: String,
}

/// The user ID for a name without an account.
const NOBODY: &str = "65534";

impl Reader<'_> {
    /// The account of a name or number, ignoring a `:group` suffix.
    pub(crate) fn account(&self, user: &str) -> Option<Account> {
        let user = user.split(':').next().unwrap_or_default();
        let accounts = self.files.read("/etc/passwd").map(clean_text)?;
        accounts.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            let [name, _, uid, _, _, home, shell, ..] = *fields else {
                return None;
            };
            let [uid_text, home, shell] = [uid, home, shell].map(str::to_owned);
            (name == user || uid == user).then_some(Account {
                uid: uid_text,
                home,
                shell,
            })
        })
    }

    /// The user of a process. An empty name means root.
    pub(crate) fn user(&self, name: &str) -> User {
        let short = name.split(':').next().unwrap_or_default();
        let is_number = !short.is_empty() && short.bytes().all(|byte| byte.is_ascii_digit());
        let uid = match self.account(short) {
            _ if is_open(short) || is_number => short.to_owned(),
            Some(account) => account.uid,
            None if short.is_empty() || short == "root" => "0".to_owned(),
            None => NOBODY.to_owned(),
        };
        let name = if name.is_empty() { "0" } else { name }.to_owned();
        User { name, uid }
    }

    /// The home directory of `~NAME`, or of `~` alone.
    pub(crate) fn home_of(&mut self, name: &str, state: &State) -> String {
        if name.is_empty() {
            return state.text("HOME").unwrap_or("/root").to_owned();
        }
        let home = self.account(name).map(|account| account.home);
        home.unwrap_or_else(|| self.hole(&state.script.path, &format!("the home of {name}")))
    }

    /// The home and shell of an account that a process switches to.
    pub(crate) fn home_and_shell(&mut self, user: &str, place: &str) -> (String, String) {
        let shell = "/bin/sh".to_owned();
        match self.account(user) {
            Some(account) if !account.shell.is_empty() => (account.home, account.shell),
            Some(account) => (account.home, shell),
            None if is_open(user) => (self.hole(place, "the home of a user"), shell),
            None => ("/".to_owned(), shell),
        }
    }

    /// Starts the command of `su` or `runuser` (util-linux) with its new environment.
    pub(crate) fn switch_user(&mut self, launcher: &Launcher, process: &Process, state: &mut State) {
        let place = &process.place;
        let name = process.words.first().map_or("", String::as_str);
        let (given, mut own) = read_interleaved(launcher, &process.words);
        if let Some(option) = &given.unknown {
            self.assume_option(name, option, place);
        }
        let has_dash = own.first().is_some_and(|word| word == "-");
        own.drain(..usize::from(has_dash));
        let is_login = given.has(OptionEffect::Login) || has_dash;
        let named = given.value_of(OptionEffect::User);
        let begin = usize::from(named.is_none() && !own.is_empty());
        let first = own.drain(..begin).next();
        let user = named.map(str::to_owned).or(first).unwrap_or_else(|| "root".to_owned());
        let (home, mut shell) = self.home_and_shell(&user, place);
        let kept: Vec<&str> = given
            .value_of(OptionEffect::KeepList)
            .unwrap_or("TERM")
            .split(',')
            .collect();
        let mut next = Process::new(own, process.environment.clone(), place);
        next.environment
            .retain(|name, _| !is_login || name == "TERM" || kept.contains(&name.as_str()));
        if given.has(OptionEffect::Keep) && !is_login {
            shell = next.environment.get("SHELL").cloned().unwrap_or(shell);
        } else {
            next.set("HOME", home);
        }
        if is_login {
            next.set("PATH", DEFAULT_PATH);
        }
        if self
            .file_text(state, "/etc/environment")
            .is_some_and(|text| text.contains("LD_"))
        {
            self.assume_keeps("launcher", place);
        }
        state.user = self.user(&user);
        if named.is_none() || !name.ends_with("runuser") {
            let shell = given.value_of(OptionEffect::Shell).map_or(shell, str::to_owned);
            next.words
                .splice(0..0, shell_words(shell, is_login, given.value_of(OptionEffect::Code)));
        }
        self.launch(next, state);
    }

    /// Applies the environment reset of `sudo` (sudoers(5), `env_reset`). It removes all loader variables.
    pub(crate) fn become_root(&mut self, process: &mut Process, state: &mut State) {
        process.environment.retain(|name, _| !name.starts_with("LD_"));
        for (name, value) in &mut process.environment {
            if !matches!(name.as_str(), "PATH" | "TERM" | "LANG") {
                *value = self.hole(&process.place, &format!("{name}, which sudo may keep"));
            }
        }
        state.user = self.user("root");
    }

    /// The words that `sudo` starts: a command with optional variables in front, or a shell.
    pub(crate) fn sudo_words(
        &mut self,
        given: &GivenOptions,
        mut words: Vec<String>,
        process: &mut Process,
        state: &State,
    ) -> Vec<String> {
        let (home, shell) = self.home_and_shell(&state.user.name, &process.place);
        process.set("HOME", home);
        process.take_variables(&mut words);
        let is_login = given.has(OptionEffect::Login);
        if !is_login && !given.has(OptionEffect::Shell) {
            return words;
        }
        let code = Some(words.join(" ")).filter(|code| !code.is_empty());
        shell_words(shell, is_login, code.as_deref())
    }

    pub(crate) fn assume_option(&mut self, tool: &str, option: &str, place: &str) {
        self.assume("option", place, format!("`{tool} {option}` keeps the loader variables"));
    }
}

/// The words that start a shell.
fn shell_words(shell: String, is_login: bool, code: Option<&str>) -> Vec<String> {
    let login = is_login.then_some("-l");
    let words = login
        .into_iter()
        .chain(code.map(|_| "-c"))
        .chain(code)
        .map(str::to_owned);
    [shell].into_iter().chain(words).collect()
}

/// Reads options and operands in any order, up to `--`.
fn read_interleaved(launcher: &Launcher, words: &[String]) -> (GivenOptions, Vec<String>) {
    let (mut all, mut own, mut rest) = (GivenOptions::default(), Vec::new(), words.to_vec());
    loop {
        let given = launcher.read_options(&rest);
        all.effects.extend(given.effects);
        all.unknown = all.unknown.or(given.unknown);
        if given.is_ended || given.rest.is_empty() {
            own.extend(given.rest);
            return (all, own);
        }
        own.extend(given.rest.first().cloned());
        rest = given.rest;
    }
}
