//! The image's users: `/etc/passwd`, `su` and `sudo`.

use std::collections::BTreeMap;

use crate::launcher_table::{GivenOptions, Launcher, OptionEffect};
use crate::reader::Reader;
use crate::state::{State, User};
use crate::value::is_open;

/// A line of `/etc/passwd`.
pub(crate) struct Account {
    pub uid: String,
    pub home: String,
    pub shell: String,
}

/// The user that a number without an account stands for.
const NOBODY: &str = "65534";

impl Reader<'_> {
    /// The account of a name or number; a group behind a colon does not count.
    pub(crate) fn account(&self, user: &str) -> Option<Account> {
        let user = user.split(':').next().unwrap_or_default();
        let accounts = self.files.read("/etc/passwd").map(crate::value::clean_text)?;
        accounts.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            let [name, _, uid, _, _, home, shell, ..] = *fields else {
                return None;
            };
            (name == user || uid == user).then(|| Account {
                uid: uid.to_owned(),
                home: home.to_owned(),
                shell: shell.to_owned(),
            })
        })
    }

    /// A user as processes run as; an empty name is root.
    pub(crate) fn user(&self, name: &str) -> User {
        let short = name.split(':').next().unwrap_or_default();
        let is_number = !short.is_empty() && short.bytes().all(|byte| byte.is_ascii_digit());
        let uid = match self.account(short) {
            _ if is_open(short) || is_number => short.to_owned(),
            Some(account) => account.uid,
            None if short.is_empty() || short == "root" => "0".to_owned(),
            None => NOBODY.to_owned(),
        };
        User {
            name: if name.is_empty() {
                "0".to_owned()
            } else {
                name.to_owned()
            },
            uid,
        }
    }

    /// The home of `~NAME`, or of `~` alone.
    pub(crate) fn home_of(&mut self, name: &str, state: &State) -> String {
        if name.is_empty() {
            return state.text("HOME").unwrap_or("/root").to_owned();
        }
        let home = self.account(name).map(|account| account.home);
        home.unwrap_or_else(|| self.hole(&state.script.path, &format!("the home of {name}")))
    }

    /// The home and shell of a user that a process becomes.
    pub(crate) fn home_and_shell(&mut self, user: &str, place: &str) -> (String, String) {
        match self.account(user) {
            Some(account) if !account.shell.is_empty() => (account.home, account.shell),
            Some(account) => (account.home, "/bin/sh".to_owned()),
            None if is_open(user) => (self.hole(place, "the home of a user"), "/bin/sh".to_owned()),
            None => ("/".to_owned(), "/bin/sh".to_owned()),
        }
    }

    /// `su` and `runuser` (util-linux): what they start, and with which environment.
    pub(crate) fn switch_user(
        &mut self,
        launcher: &Launcher,
        words: &[String],
        environment: BTreeMap<String, String>,
        state: &mut State,
        place: &str,
    ) {
        let (given, mut own) = read_between(launcher, words);
        if let Some(option) = &given.unknown {
            self.assume_option(words, option, place);
        }
        let is_login = given.has(OptionEffect::Login) || own.first().is_some_and(|word| word == "-");
        if own.first().is_some_and(|word| word == "-") {
            own.remove(0);
        }
        let named = given.value_of(OptionEffect::User).map(str::to_owned);
        let starts_program = named.is_some() && words.first().is_some_and(|name| name.ends_with("runuser"));
        let user = match &named {
            Some(user) => user.clone(),
            None if own.is_empty() => "root".to_owned(),
            None => own.remove(0),
        };
        let (home, mut shell) = self.home_and_shell(&user, place);
        let kept = given.value_of(OptionEffect::KeepList).unwrap_or_default();
        let kept: Vec<&str> = kept.split(',').collect();
        let is_kept = |name: &String| !is_login || kept.contains(&name.as_str()) || name == "TERM";
        let keeps_all = given.has(OptionEffect::Keep) && !is_login;
        let mut environment: BTreeMap<String, String> =
            environment.into_iter().filter(|(name, _)| is_kept(name)).collect();
        if keeps_all {
            shell = environment.get("SHELL").cloned().unwrap_or(shell);
        } else {
            environment.insert("HOME".to_owned(), home);
        }
        if is_login {
            environment.insert("PATH".to_owned(), crate::commands::DEFAULT_PATH.to_owned());
        }
        let settings = self.file_text(state, "/etc/environment");
        if settings.is_some_and(|text| text.contains("LD_")) {
            self.assume_keeps("launcher", place);
        }
        state.user = self.user(&user);
        if starts_program {
            return self.launch(own, environment, state, place);
        }
        let shell = given.value_of(OptionEffect::Shell).map_or(shell, str::to_owned);
        let mut command = vec![shell];
        command.extend(is_login.then(|| "-l".to_owned()));
        if let Some(code) = given.value_of(OptionEffect::Code) {
            command.extend(["-c".to_owned(), code.to_owned()]);
        }
        command.extend(own);
        self.launch(command, environment, state, place);
    }

    /// What `sudo` keeps of the environment (sudoers(5), "`env_reset")`: of the loader's variables nothing.
    pub(crate) fn sudo_environment(
        &mut self,
        environment: BTreeMap<String, String>,
        place: &str,
    ) -> BTreeMap<String, String> {
        let mut kept = BTreeMap::new();
        for (name, value) in environment {
            if matches!(name.as_str(), "PATH" | "TERM" | "LANG") {
                kept.insert(name, value);
            } else if !name.starts_with("LD_") {
                let hole = self.hole(place, &format!("{name}, which sudo may keep"));
                kept.insert(name, hole);
            }
        }
        kept
    }

    pub(crate) fn assume_option(&mut self, words: &[String], option: &str, place: &str) {
        let (path, line) = crate::reader::split_place(place);
        let name = words.first().map_or("", |name| crate::commands::base_name(name));
        self.assume_at(
            "option",
            path,
            line,
            format!("`{name} {option}` keeps the loader variables"),
        );
    }
}

/// Options and words in any order, up to `--`.
fn read_between(launcher: &Launcher, words: &[String]) -> (GivenOptions, Vec<String>) {
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
