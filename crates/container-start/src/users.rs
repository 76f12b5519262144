//! The image's users: `/etc/passwd`, `su` and `sudo`.

use crate::launch::{DEFAULT_PATH, Process};
use crate::launcher_table::{GivenOptions, OptionEffect};
use crate::reader::Reader;
use crate::state::{State, User};
use crate::value::{clean_text, is_open};

/// The user ID for a name without an account.
const NOBODY: &str = "65534";

impl Reader<'_> {
    /// The user ID, home and shell of a name or number in `/etc/passwd`, ignoring a `:group` suffix.
    pub(crate) fn account(&self, user: &str) -> Option<[String; 3]> {
        let user = user.split(':').next().unwrap_or_default();
        let accounts = self.files.read("/etc/passwd").map(clean_text)?;
        accounts.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            let [name, _, uid, _, _, home, shell, ..] = *fields else {
                return None;
            };
            let shell = if shell.is_empty() { "/bin/sh" } else { shell };
            let account = [uid, home, shell].map(str::to_owned);
            (name == user || uid == user).then_some(account)
        })
    }

    /// The user of a process. An empty name means root.
    pub(crate) fn user(&self, name: &str) -> User {
        let short = name.split(':').next().unwrap_or_default();
        let is_number = !short.is_empty() && short.bytes().all(|byte| byte.is_ascii_digit());
        let uid = match self.account(short) {
            _ if is_open(short) || is_number => short.to_owned(),
            Some([uid, ..]) => uid,
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
        let home = self.account(name).map(|[_, home, _]| home);
        home.unwrap_or_else(|| self.hole(&format!("the home of {name}")))
    }

    /// The home and shell of an account that a process switches to.
    pub(crate) fn home_and_shell(&mut self, user: &str) -> (String, String) {
        let home = match self.account(user) {
            Some([_, home, shell]) => return (home, shell),
            None if is_open(user) => self.hole("the home of a user"),
            None => "/".to_owned(),
        };
        (home, "/bin/sh".to_owned())
    }

    /// The words that `su` and `runuser` (util-linux) start, with their new environment.
    pub(crate) fn account_words(
        &mut self,
        tool: &str,
        given: &GivenOptions,
        mut words: Vec<String>,
        process: &mut Process,
        state: &mut State,
    ) -> Vec<String> {
        let has_dash = words.first().is_some_and(|word| word == "-");
        words.drain(..usize::from(has_dash));
        let is_login = given.has(OptionEffect::Login) || has_dash;
        let named = given.value_of(OptionEffect::User);
        let begin = usize::from(named.is_none() && !words.is_empty());
        let first = words.drain(..begin).next();
        let user = named.map(str::to_owned).or(first).unwrap_or_else(|| "root".to_owned());
        let (home, shell) = self.home_and_shell(&user);
        if is_login {
            process.environment.retain(|name, _| name == "TERM");
            process.set("PATH", DEFAULT_PATH);
        }
        if given.has(OptionEffect::Unknown) {
            self.lose_environment(process);
        }
        process.set("HOME", home);
        if self
            .file_text("/etc/environment")
            .is_some_and(|text| text.contains("LD_"))
        {
            self.assume_keeps("launcher");
        }
        state.user = self.user(&user);
        if named.is_some() && tool == "runuser" {
            return words;
        }
        let shell = given.value_of(OptionEffect::Shell).map_or(shell, str::to_owned);
        let mut started = shell_words(shell, is_login, given.value_of(OptionEffect::Code));
        started.append(&mut words);
        started
    }

    /// Applies the environment reset of `sudo` (sudoers(5), `env_reset`). It removes all loader variables.
    pub(crate) fn become_root(&mut self, process: &mut Process, state: &mut State) {
        process.environment.retain(|name, _| !name.starts_with("LD_"));
        for (name, value) in &mut process.environment {
            if !matches!(name.as_str(), "PATH" | "TERM" | "LANG") {
                *value = self.hole(&format!("{name}, which sudo may keep"));
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
        let (home, shell) = self.home_and_shell(&state.user.name);
        process.set("HOME", home);
        process.take_variables(&mut words);
        let is_login = given.has(OptionEffect::Login);
        if !is_login && !given.has(OptionEffect::Shell) {
            return words;
        }
        let code = Some(words.join(" ")).filter(|code| !code.is_empty());
        shell_words(shell, is_login, code.as_deref())
    }

    pub(crate) fn assume_option(&mut self, tool: &str, option: &str) {
        self.assume("option", &format!("`{tool} {option}` keeps the loader variables"));
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
