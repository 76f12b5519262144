//! Who runs a command: `su`, `runuser`, `setpriv` and the bits of programs.

use super::CommandFollower;
use crate::judge::facts::credentials::{home_of, image_user};
use crate::judge::facts::shell_script::{ChangedUser, VariableValue, new_user};
use image_linkage::layer::FileFacts;
use image_linkage::rootfs::{FileCredentials, FileUse, LookupError};

impl CommandFollower<'_> {
    /// `su USER -c TEXT`, `runuser -u USER -- COMMAND`, `setpriv OPTION… COMMAND`.
    pub(super) fn change_user(&mut self, base: &str) -> bool {
        let user = new_user(&self.words);
        let mut words = self.words.get(1..).unwrap_or_default().to_vec().into_iter().peekable();
        let (mut text, mut is_login, mut names_user) = (None, false, base == "setpriv");
        while let Some(Some(word)) = words.next_if(|word| {
            let option = word.as_deref().is_some_and(|word| word.starts_with('-'));
            option || !names_user && word.is_some()
        }) {
            match word.as_str() {
                "--" => break,
                "-" | "-l" | "--login" | "--reset-env" => is_login = true,
                "-c" | "--command" if base != "setpriv" => text = words.next().flatten(),
                "-u" | "--user" if base == "runuser" => {
                    names_user = true;
                    words.next();
                }
                "-s" | "--shell" | "-g" | "--group" | "-G" | "--supp-group" | "-w" | "--whitelist-environment" => {
                    words.next();
                }
                option if base == "setpriv" && !option.contains('=') && !ALONE.contains(&option) => drop(words.next()),
                option if option.starts_with('-') => {}
                _ => names_user = true,
            }
        }
        self.words = words.collect();
        self.become_user(user);
        if is_login {
            self.variables.clear();
            self.set_home();
        }
        match (text, base) {
            (Some(text), _) => {
                let shell = if is_login { "-lc" } else { "-c" };
                let words = ["sh", shell, &text].map(|word| Some(word.to_owned()));
                self.words.splice(..0, words);
                true
            }
            (None, "su") => false,
            (None, _) => !self.words.is_empty(),
        }
    }

    pub(super) fn become_user(&mut self, user: Option<ChangedUser>) {
        let Some(user) = user else { return };
        self.user = user;
        self.set_home();
    }

    /// The home directory, which engines and those who change the user take from the user's line.
    pub(super) fn set_home(&mut self) {
        let user = self.user.name.as_deref().or(self.config.user.as_deref());
        let home = home_of(user.unwrap_or_default(), self.rootfs);
        let is_changed = self.user != ChangedUser::default();
        if is_changed {
            self.variables.remove("HOME");
        }
        if let Some(home) = home.filter(|home| !home.is_empty()) {
            self.variables
                .entry("HOME".to_owned())
                .or_insert(VariableValue::Text(home));
        }
    }

    /// Who runs the command now; root where that is not known.
    pub(super) fn credentials(&self) -> FileCredentials {
        image_user(
            self.config,
            self.user.name.as_deref(),
            &self.user.effective,
            self.rootfs,
        )
        .credentials
    }

    /// Whether the user may not use a file, which then is the end of the command.
    pub(super) fn is_closed(&mut self, path: &str, usage: FileUse) -> bool {
        let opened = self.rootfs.open_as(path.as_bytes(), &self.credentials(), usage);
        let Err(LookupError::Denied(denial)) = opened else {
            return false;
        };
        self.fail(path, &format!("permission denied: {denial}"));
        true
    }

    /// Whether the kernel makes another effective user or group of who executes a file.
    pub(super) fn sets_user(&self, path: &str) -> bool {
        let who = self.credentials();
        let sets = |file: &FileFacts| {
            let user = file.mode & 0o4000 != 0 && file.uid != who.uid;
            let group = file.mode & 0o2010 == 0o2010 && file.gid != who.gid;
            file.elf.is_some() && (user || group)
        };
        self.rootfs.file(path.as_bytes()).is_some_and(sets)
    }
}

/// Options of setpriv that have no value.
const ALONE: [&str; 6] = [
    "--clear-groups",
    "--keep-groups",
    "--init-groups",
    "--nnp",
    "--no-new-privs",
    "--reset-env",
];
